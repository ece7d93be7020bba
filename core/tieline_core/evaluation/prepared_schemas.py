"""Schemas of variables as text, with what can be known of them without a validator."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from tieline_protocol.schema_limits import is_linear
from tieline_protocol.variables import InvalidSchema, text_of

MAX_LINEAR_BYTES = 2 * 1024
"""Bytes of the largest schema of which small values are checked on the event loop."""
_PREPARED = 512
_PREPARED_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class PreparedSchema:
    """A schema, and what is known of it without a validator."""

    source: Mapping[str, Any]
    text: bytes = b""
    digest: bytes = b""
    problem: str | None = None
    linear: bool = False
    """Whether small values may be checked at once."""


class PreparedSchemas:
    """Schemas as text, with what can be said of them at once; those that were asked for last."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, PreparedSchema] = OrderedDict()
        self._bytes = 0

    def of(self, schema: Mapping[str, Any]) -> PreparedSchema:
        found = self._kept.get(id(schema))
        # The object is kept with it, so its id is not another one's.
        if found is not None and found.source is schema:
            self._kept.move_to_end(id(schema))
            return found
        found = _prepare(schema)
        self._kept[id(schema)] = found
        self._bytes += len(found.text)
        while len(self._kept) > _PREPARED or self._bytes > _PREPARED_BYTES:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= len(gone.text)
        return found


def _prepare(schema: Mapping[str, Any]) -> PreparedSchema:
    try:
        text = text_of(schema)
    except InvalidSchema as error:
        return PreparedSchema(schema, problem=str(error))
    linear = len(text) <= MAX_LINEAR_BYTES and is_linear(schema)
    return PreparedSchema(schema, text=text, digest=digest_of(text), linear=linear)


def digest_of(text: bytes) -> bytes:
    """What a text is remembered by."""
    return blake2b(text, digest_size=16).digest()
