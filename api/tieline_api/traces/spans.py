"""Spans as plain rows, bounded in size, whatever form they arrived in.

Names and meanings are OpenTelemetry's (trace.proto 1.x). Some attributes have a meaning of their own here:
``executionId`` and ``task`` are indexed; ``activation`` and ``user`` tell whom a run was for, ``exception.type`` what
it failed by; ``connection`` is shown like any other.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

EXECUTION_ID = "executionId"
TASK = "task"
ACTIVATION = "activation"
USER = "user"
EXCEPTION_TYPE = "exception.type"
HTTP_METHOD = "http.request.method"
RUN_KIND = "run.kind"
CALL = "call"
UPSTREAM_STATUS = "upstream.status_code"
SERVICE_NAME = "service.name"
UNKNOWN_SERVICE = "unknown_service"

MAX_ATTRIBUTES = 96
MAX_KEY = 128
MAX_VALUE = 4096
MAX_ATTRIBUTES_SIZE = 32 * 1024
MAX_RESOURCE_SIZE = 2 * 1024
MAX_NAME = 256
MAX_MESSAGE = 1024
_MAX_INDEXED = 128
_MAX_NANOSECONDS = 2**63 - 1

TRACE_ID_BYTES = 16
SPAN_ID_BYTES = 8
_NO_TRACE = bytes(TRACE_ID_BYTES)
_NO_SPAN = bytes(SPAN_ID_BYTES)

_SERVER, _CONSUMER = 2, 5
_REMOTE_PARENT = 0x300
"""SpanFlags: "it is known whether the parent is remote" and "it is"."""

StatusCode = Literal["UNSET", "OK", "ERROR"]
_STATUS: Mapping[int, StatusCode] = {1: "OK", 2: "ERROR"}


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Whose spans they are; always known by the token that brought them, never by the spans."""

    organisation: str
    project: str
    environment: str


@dataclass(frozen=True, slots=True)
class Span:
    """One span. Times are nanoseconds since 1970."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    """Empty for a span without parent."""
    name: str
    start: int
    end: int
    entry: bool
    """Whether a run begins with it: it has no parent here, or it takes a request or a message."""
    status: StatusCode
    message: str
    service: str
    task: str
    execution_id: str
    attributes: Mapping[str, str]
    size: int = field(default=0, compare=False)
    """Characters in the attributes: what it takes, roughly, until it is written."""


class RejectedSpanError(Exception):
    """A span that cannot be kept; the message says why."""


def make_span(
    *,
    trace_id: bytes,
    span_id: bytes,
    parent_id: bytes,
    name: str,
    kind: int,
    flags: int,
    start: int,
    end: int,
    status: int,
    message: str,
    attributes: Iterable[tuple[str, str]],
    resource: Mapping[str, str],
) -> Span:
    """A span within the limits: what is too long is cut, what makes no sense raises RejectedSpanError."""
    if len(trace_id) != TRACE_ID_BYTES or trace_id == _NO_TRACE:
        raise RejectedSpanError("a span has no valid trace id (16 bytes, not all zero)")
    if len(span_id) != SPAN_ID_BYTES or span_id == _NO_SPAN:
        raise RejectedSpanError("a span has no valid span id (8 bytes, not all zero)")
    if len(parent_id) not in (0, SPAN_ID_BYTES):
        raise RejectedSpanError("a span has a parent id that is not 8 bytes")
    if not 0 < start <= _MAX_NANOSECONDS or not 0 <= end <= _MAX_NANOSECONDS:
        raise RejectedSpanError("a span has no valid time (nanoseconds since 1970)")
    if parent_id == _NO_SPAN:
        parent_id = b""
    held = dict(resource)
    service = held.pop(SERVICE_NAME, "") or UNKNOWN_SERVICE
    size = sum(len(key) + len(value) for key, value in held.items())
    for key, value in attributes:
        size += len(key) + len(value)
        if size > MAX_ATTRIBUTES_SIZE:
            break
        if key in held or len(held) < MAX_ATTRIBUTES:
            held[key] = value
    root = not parent_id or flags & _REMOTE_PARENT == _REMOTE_PARENT
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        name=name[:MAX_NAME],
        start=start,
        end=max(start, end),
        entry=root or kind in (_SERVER, _CONSUMER),
        status=_STATUS.get(status, "UNSET"),
        message=message[:MAX_MESSAGE],
        service=service[:MAX_NAME],
        task=held.get(TASK, "")[:_MAX_INDEXED],
        execution_id=held.get(EXECUTION_ID, "")[:_MAX_INDEXED],
        attributes=held,
        size=size,
    )


def make_resource(attributes: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The attributes that all spans of a resource share; less of them, since each span keeps its own copy."""
    held: dict[str, str] = {}
    left = MAX_RESOURCE_SIZE
    for key, value in attributes:
        left -= len(key) + len(value)
        if left < 0:
            break
        held[key] = value
    return held
