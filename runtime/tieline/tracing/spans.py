"""Spans while they last. What is current travels with the task, and with the thread that it hands work to."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal

from tieline.tracing.w3c import SpanContext, incoming, new_span_id, new_trace_id

Value = str | bool | int | float
Kind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]

_MAX_ATTRIBUTES = 64
_MAX_VALUE = 2048
_MAX_NAME = 256


@dataclass(slots=True)
class Span:
    """One piece of work, which authors give attributes.

    >>> async def orders(ctx: Context) -> int:
    ...     with ctx.trace("read orders") as span:
    ...         found = (await (await ctx.fetch("shop", "/orders")).json())["orders"]
    ...         span.set(orders=len(found))
    ...     return len(found)
    >>> run(orders)
    2
    """

    name: str
    kind: Kind
    context: SpanContext
    parent_id: str
    start: int
    end: int = 0
    attributes: dict[str, Value] = field(default_factory=dict)
    error: str | None = None
    """What went wrong; None when nothing did."""
    remote_parent: bool = False
    inherited: dict[str, Value] = field(default_factory=dict)
    """What all spans of a run tell: its execution, task and activation."""

    def set(self, **attributes: Value) -> None:
        """Add attributes. At most 64 are kept, and of a value 2,048 characters."""
        self.update(attributes)

    def tell(self, **attributes: Value) -> None:
        """Add attributes that all spans within it have too, from now on."""
        self.inherited.update(attributes)
        self.update(attributes)

    def update(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes whose names are no Python names, such as ``http.route``."""
        own = self.attributes
        for key, value in attributes.items():
            if key in own or len(own) < _MAX_ATTRIBUTES:
                # Most are short texts, and this runs a dozen times in every run.
                if value.__class__ is str:
                    own[key] = value if len(value) <= _MAX_VALUE else value[:_MAX_VALUE]
                else:
                    own[key] = value if isinstance(value, bool | int | float) else str(value)[:_MAX_VALUE]

    def fail(self, error: BaseException | str) -> None:
        """Mark it as failed. Of an exception only the type is told: its text may hold what is secret."""
        if isinstance(error, str):
            self.error = error[:_MAX_VALUE]
            return
        self.error = type(error).__name__
        self.update({"exception.type": f"{type(error).__module__}.{type(error).__qualname__}"})


_current: ContextVar[Span | None] = ContextVar("tieline_span", default=None)


def current_span() -> Span | None:
    """The span that the running code is in."""
    return _current.get()


class Tracer:
    """Makes spans, and hands them over when they end. Nothing here raises or waits."""

    def __init__(self, take: Callable[[Span], None]) -> None:
        self._take = take

    def run(
        self,
        name: str,
        *,
        execution_id: str,
        task: str,
        kind: Kind = "SERVER",
        headers: Mapping[str, str] | None = None,
        activation: str = "",
        attributes: Mapping[str, Value] | None = None,
    ) -> AbstractContextManager[Span]:
        """The span of a run's trigger: part of the caller's trace when ``headers`` tell one."""
        parent = incoming(headers) if headers is not None else None
        inherited: dict[str, Value] = {"executionId": execution_id, "task": task}
        if activation:
            inherited["activation"] = activation
        span = self._begin(name, kind, parent, inherited, attributes)
        span.remote_parent = parent is not None
        return _Lasting(span, self._take)

    def span(
        self, name: str, *, kind: Kind = "INTERNAL", attributes: Mapping[str, Value] | None = None
    ) -> AbstractContextManager[Span]:
        """A part of the current span (without one: of a trace of its own), for as long as the block lasts."""
        outer = _current.get()
        inherited = outer.inherited if outer else {}
        span = self._begin(name, kind, outer.context if outer else None, inherited, attributes)
        return _Lasting(span, self._take)

    def _begin(
        self,
        name: str,
        kind: Kind,
        parent: SpanContext | None,
        inherited: dict[str, Value],
        attributes: Mapping[str, Value] | None,
    ) -> Span:
        span = Span(
            name=str(name)[:_MAX_NAME],
            kind=kind,
            context=SpanContext(
                parent.trace_id if parent else new_trace_id(), new_span_id(), parent.state if parent else ""
            ),
            parent_id=parent.span_id if parent else "",
            start=0,
            attributes=dict(inherited),
            inherited=inherited,
        )
        if attributes:
            span.update(attributes)
        return span


class _Lasting(AbstractContextManager[Span]):
    """Makes a span the current one for a block (a class: a generator costs twice the time)."""

    __slots__ = ("_before", "_span", "_take", "_token")
    _token: Token[Span | None]
    _before: int

    def __init__(self, span: Span, take: Callable[[Span], None]) -> None:
        self._span = span
        self._take = take

    def __enter__(self) -> Span:
        span = self._span
        self._token = _current.set(span)
        span.start = time.time_ns()
        self._before = time.perf_counter_ns()
        return span

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        span = self._span
        _current.reset(self._token)
        if error is not None:
            span.fail(error)
        # A clock that is set meanwhile does not change how long it took.
        span.end = span.start + time.perf_counter_ns() - self._before
        self._take(span)
