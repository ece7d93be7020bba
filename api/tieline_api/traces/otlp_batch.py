"""An export request as spans: what protobuf and JSON have in common."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tieline_api.traces.spans import RejectedSpanError, Span

T = TypeVar("T")

PROTOBUF = "application/x-protobuf"
JSON = "application/json"
MAX_SPANS = 10_000
MAX_DEPTH = 8
"""How deep an attribute's value may be nested; deeper parts become ``…``."""
TOO_DEEP = "…"
EXCEPTION = "exception"
"""The event whose attributes are kept on its span (semantic conventions for exceptions)."""


Admitted = Callable[[Mapping[str, str]], bool]
"""Says of a resource's attributes whether its spans are wanted."""


def everything(_resource: Mapping[str, str]) -> bool:
    """All spans are wanted."""
    return True


class OtlpDecodeError(Exception):
    """The request is no OTLP of its content type; the message says where it ends to be."""


class TooManySpansError(Exception):
    """More spans in one request than are taken."""

    def __init__(self) -> None:
        super().__init__(f"One request may bring at most {MAX_SPANS:,} spans: export smaller batches")


@dataclass
class Batch:
    """The spans of one request, and what was not taken of it."""

    spans: list[Span] = field(default_factory=list)
    rejected: int = 0
    reason: str = ""
    """Why the first rejected span was."""

    def take(self, found: Sequence[T], make: Callable[[T], Span]) -> None:
        """Takes spans that ``make`` makes, without those that it rejects. Raises TooManySpansError."""
        if len(self.spans) + self.rejected + len(found) > MAX_SPANS:
            raise TooManySpansError
        for item in found:
            try:
                self.spans.append(make(item))
            except RejectedSpanError as error:
                self.rejected += 1
                self.reason = self.reason or str(error)
