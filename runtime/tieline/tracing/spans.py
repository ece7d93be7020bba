"""Spans while they last. What is current travels with the task, and with the thread that it hands work to."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Literal

from tieline.tracing.w3c import SpanContext, incoming, new_span_id, new_trace_id

Value = str | bool | int | float
Kind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]

_MAX_ATTRIBUTES = 64
_MAX_VALUE = 2048
_MAX_NAME = 256


@dataclass(slots=True)
class Span:
    """One piece of work. Authors give it attributes by ``span.set(orders=3)``."""

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
    inherited: Mapping[str, Value] = field(default_factory=dict)
    """What all spans of a run tell: its execution, task and activation."""

    def set(self, **attributes: Value) -> None:
        """Add attributes. At most 64 are kept, and of a value 2,048 characters."""
        self.update(attributes)

    def update(self, attributes: Mapping[str, Value]) -> None:
        """Add attributes whose names are no Python names, such as ``http.route``."""
        for key, value in attributes.items():
            if key in self.attributes or len(self.attributes) < _MAX_ATTRIBUTES:
                plain = value if isinstance(value, bool | int | float) else str(value)[:_MAX_VALUE]
                self.attributes[key] = plain

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

    @contextmanager
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
    ) -> Iterator[Span]:
        """The span of a run's trigger: part of the caller's trace when ``headers`` tell one."""
        parent = incoming(headers) if headers is not None else None
        inherited: dict[str, Value] = {"executionId": execution_id, "task": task}
        if activation:
            inherited["activation"] = activation
        span = self._begin(name, kind, parent, inherited)
        span.remote_parent = parent is not None
        with self._lasting(span, attributes):
            yield span

    @contextmanager
    def span(
        self, name: str, *, kind: Kind = "INTERNAL", attributes: Mapping[str, Value] | None = None
    ) -> Iterator[Span]:
        """A part of the current span (without one: of a trace of its own), for as long as the block lasts."""
        outer = _current.get()
        span = self._begin(name, kind, outer.context if outer else None, outer.inherited if outer else {})
        with self._lasting(span, attributes):
            yield span

    def _begin(
        self, name: str, kind: Kind, parent: SpanContext | None, inherited: Mapping[str, Value]
    ) -> Span:
        return Span(
            name=str(name)[:_MAX_NAME],
            kind=kind,
            context=SpanContext(
                parent.trace_id if parent else new_trace_id(), new_span_id(), parent.state if parent else ""
            ),
            parent_id=parent.span_id if parent else "",
            start=time.time_ns(),
            inherited=inherited,
        )

    @contextmanager
    def _lasting(self, span: Span, attributes: Mapping[str, Value] | None) -> Iterator[None]:
        span.update(span.inherited)
        span.update(attributes or {})
        before = time.perf_counter_ns()
        token = _current.set(span)
        try:
            yield
        except BaseException as error:
            span.fail(error)
            raise
        finally:
            _current.reset(token)
            # A clock that is set meanwhile does not change how long it took.
            span.end = span.start + time.perf_counter_ns() - before
            self._take(span)
