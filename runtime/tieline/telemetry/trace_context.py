"""Trace context of W3C (https://www.w3.org/TR/trace-context/): the headers traceparent and tracestate."""

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
_LONGEST_STATE = 512
_PARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}(?P<more>-.*)?"
)


class SpanContext(NamedTuple):
    """What others need to know of a span to make theirs a part of it; ids are hexadecimal."""

    trace_id: str
    span_id: str
    state: str = ""


def incoming(headers: Mapping[str, str]) -> SpanContext | None:
    """The caller's span, or None when it tells none (or one that cannot be: then a trace begins anew)."""
    header = headers.get(TRACEPARENT)
    found = _PARENT.fullmatch(header.strip()) if header else None
    if found is None or not found["trace"].strip("0") or not found["span"].strip("0"):
        return None
    if found["more"] and found[0].startswith("00"):
        return None
    state = headers.get(TRACESTATE, "")
    usable = len(state) <= _LONGEST_STATE and state.isascii() and state.isprintable()
    return SpanContext(found["trace"], found["span"], state if usable else "")


def outgoing(context: SpanContext) -> dict[str, str]:
    """The headers that tell ``context`` to the called system.

    >>> outgoing(SpanContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"))
    {'traceparent': '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'}
    """
    headers = {TRACEPARENT: traceparent(context)}
    if context.state:
        headers[TRACESTATE] = context.state
    return headers


def traceparent(context: SpanContext) -> str:
    """The header's value for a span."""
    return f"00-{context.trace_id}-{context.span_id}-01"


def new_ids() -> tuple[str, str]:
    """Those of a new trace and of its first span: 32 and 16 random hexadecimal digits."""
    digits = os.urandom(24).hex()
    return digits[:32], digits[32:]


def new_span_id() -> str:
    """16 random hexadecimal digits."""
    return os.urandom(8).hex()
