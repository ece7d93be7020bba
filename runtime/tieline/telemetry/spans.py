"""Spans while they last. What is current travels with the task, and with the thread that it hands work to."""

import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal

from tieline.errors import TielineError, UpstreamError, reason
from tieline.telemetry.redaction import Redactor, current_redactor
from tieline.telemetry.trace_context import SpanContext, incoming, new_ids, new_span_id

Value = str | bool | int | float
Kind = Literal["INTERNAL", "SERVER", "CLIENT", "CONSUMER"]

MAX_VALUE_LENGTH = 2048
_MAX_ATTRIBUTES = 64
_MAX_NAME = 256


@dataclass(slots=True, eq=False)
class Span:
    """One piece of work, which authors give attributes. It lasts as long as the block that it is used for.

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
    trace_id: str
    span_id: str
    parent_id: str
    state: str
    """The trace's ``tracestate``, which is passed on."""
    attributes: dict[str, Value]
    inherited: dict[str, Value]
    """What all spans of a run tell: its execution, task and activation."""
    remote_parent: bool
    _take: "Callable[[Span], None]" = field(repr=False)
    _redact: Redactor = field(repr=False)
    start: int = 0
    end: int = 0
    error: str | None = None
    """What went wrong; None when nothing did."""
    _began: int = field(init=False, repr=False)
    _outer: "Token[Span | None]" = field(init=False, repr=False)

    def __enter__(self) -> "Span":
        self._outer = current_span.set(self)
        self.start = time.time_ns()
        self._began = time.perf_counter_ns()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _where: TracebackType | None
    ) -> None:
        current_span.reset(self._outer)
        if error is not None:
            self.fail(error)
        # A clock that is set meanwhile does not change how long it took.
        self.end = self.start + time.perf_counter_ns() - self._began
        if (own := current_redactor.get()) is not None:
            # Who sends the spans knows what the whole process does, and not whose run this was.
            self._mask(own())
        self._take(self)

    def _mask(self, redact: Redactor) -> None:
        self.name = redact(self.name)
        self.error = self.error and redact(self.error)
        for key, value in self.attributes.items():
            if isinstance(value, str):
                self.attributes[key] = redact(value)

    @property
    def context(self) -> SpanContext:
        """What others need to know of it."""
        return SpanContext(self.trace_id, self.span_id, self.state)

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
                own[key] = value if isinstance(value, bool | int | float) else self._bounded(str(value))

    def fail(self, error: BaseException | str) -> None:
        """Mark it as failed. Known secrets in an exception's text are masked before the span is sent."""
        if isinstance(error, str):
            self.error = self._bounded(error)
            return
        kind, text = type(error), reason(error)
        if isinstance(error, UpstreamError):
            # What the system said is masked already.
            text = f"{error.template} answered {error.status}"
            self.update({"upstream.status_code": error.status, "upstream.body": error.body})
        self.error = self._bounded(text if text.startswith(kind.__name__) else f"{kind.__name__}: {text}")
        name = error.span_type if isinstance(error, TielineError) else None
        self.update(
            {"exception.type": name or f"{kind.__module__}.{kind.__qualname__}", "exception.message": text}
        )

    def _bounded(self, text: str) -> str:
        """All of it, which is masked when it is sent; of a longer text the masked beginning."""
        return text if len(text) <= MAX_VALUE_LENGTH else self._redact.for_run(text, longest=MAX_VALUE_LENGTH)


current_span: ContextVar[Span | None] = ContextVar("tieline_span", default=None)
"""The span that the running code is in."""


class Tracer:
    """Makes spans, and hands them over when they end. Nothing here raises or waits."""

    def __init__(self, take: Callable[[Span], None], redact: Redactor | None = None) -> None:
        """``redact`` masks what has to be cut; all else is masked by whoever sends it."""
        self._take = take
        self.redact = redact or Redactor()

    def run(
        self,
        name: str,
        *,
        execution_id: str,
        task: str,
        kind: Kind = "SERVER",
        headers: Mapping[str, str] | None = None,
        activation: str = "",
        user: str = "",
    ) -> Span:
        """The span of a run's trigger: part of the caller's trace when ``headers`` tell one."""
        inherited: dict[str, Value] = {"executionId": execution_id, "task": task}
        if activation:
            inherited["activation"] = activation
        if user:
            inherited["user"] = user
        parent = incoming(headers) if headers is not None else None
        return self._new(name, kind, parent, inherited, remote=parent is not None)

    def span(
        self, name: str, *, kind: Kind = "INTERNAL", attributes: Mapping[str, Value] | None = None
    ) -> Span:
        """A part of the current span (without one: of a trace of its own)."""
        outer = current_span.get()
        text = str(name)
        if len(text) > _MAX_NAME:
            text = self.redact.for_run(text, longest=_MAX_NAME)
        span = self._new(text, kind, outer, outer.inherited if outer else {}, remote=False)
        if attributes:
            span.update(attributes)
        return span

    def _new(
        self,
        name: str,
        kind: Kind,
        parent: Span | SpanContext | None,
        inherited: dict[str, Value],
        *,
        remote: bool,
    ) -> Span:
        if parent is None:
            trace_id, span_id = new_ids()
            parent_id = state = ""
        else:
            trace_id, span_id, parent_id, state = parent.trace_id, new_span_id(), parent.span_id, parent.state
        return Span(
            name, kind, trace_id, span_id, parent_id, state, inherited.copy(), inherited, remote,
            self._take, self.redact,
        )  # fmt: skip
