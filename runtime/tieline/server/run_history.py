"""What the run history has of runs: errors and inputs with secrets masked, and records of direct runs.

A direct webhook or schedule is told by its root span alone, unless ``settings.keepInputs`` says that its input is kept.
"""

import asyncio
from dataclasses import dataclass
from datetime import datetime

import orjson
from aiohttp import web

from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation
from tieline.context import activation_key
from tieline.errors import TielineError, UpstreamError, reason
from tieline.events.history import HistoryWriter
from tieline.server.request_bodies import put_back
from tieline.server.stored_request import kept_request
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Span
from tieline_protocol.events import RunKind, WebhookRequest
from tieline_protocol.run_records import RunError, RunRecord, UpstreamAnswer

MAX_INPUT = 1024 * 1024
"""Bytes of a direct run's input; a longer one is left out."""
_MAX_MESSAGE = 4000
_NANOSECONDS = 1e9


def masked_error(error: Exception, redact: Redactor) -> RunError:
    """Why an attempt failed."""
    upstream = None
    if isinstance(error, UpstreamError):
        upstream = UpstreamAnswer(status=error.status, body=error.body)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return RunError(type=name, message=redact.for_run(reason(error))[:_MAX_MESSAGE], upstream=upstream)


def masked_input(payload: bytes, redact: Redactor) -> bytes:
    """A payload with known secrets masked, also where it is no text."""
    try:
        return redact.for_run(payload.decode()).encode()
    except UnicodeDecodeError:
        return redact.for_run(payload.decode("latin-1")).encode("latin-1", "replace")


def schedule_input(due: datetime) -> bytes:
    """The input of a schedule's run."""
    return orjson.dumps({"due": due.isoformat()})


def due_of(payload: bytes) -> datetime:
    """The time in a schedule's input, which has a zone. Raises ValueError."""
    try:
        due = datetime.fromisoformat(orjson.loads(payload)["due"])
    except (ValueError, TypeError, KeyError):
        due = None
    if due is None or due.tzinfo is None:
        raise ValueError(
            'The input of a schedule is {"due": <a time with its zone, such as 2026-11-24T09:00:00Z>}'
        )
    return due


@dataclass
class DirectRun:
    """A direct run whose input is kept, while it lasts. It is recorded if it was admitted."""

    id: str
    kind: RunKind
    task: str
    span: Span
    activation: Activation | None = None
    """None until whoever asked for the run was found to be allowed to."""
    input: bytes | None = None
    request: web.Request | None = None
    error: Exception | None = None

    async def admit(self, activation: Activation, request: web.Request) -> None:
        """Keep the request, whose sender has shown what is asked for."""
        if (request.content_length or 0) <= MAX_INPUT:
            body = await request.read()
            put_back(request, body)
            self.input = body if len(body) <= MAX_INPUT else None
        self.activation, self.request = activation, request


class DirectRuns:
    """Adds records of direct runs to the history. Nobody waits for them."""

    def __init__(
        self, history: HistoryWriter | None, configuration: Configuration, *, redact: Redactor, version: str
    ) -> None:
        """``version`` is the name of the ProjectVersion that runs."""
        self._history = history
        self._configuration = configuration
        self._redact = redact
        self._version = version

    def begin(self, run: str, kind: RunKind, task: str, span: Span) -> DirectRun | None:
        """A run that begins; None where inputs are not kept."""
        if self._history is None or not self._configuration.current.keep_inputs:
            return None
        return DirectRun(run, kind, task, span)

    def end(self, run: DirectRun, status: int = 0) -> None:
        """Record a run that has ended, once its answer with ``status`` was sent."""
        if status >= 500 and run.error is None:
            run.error = TielineError(f"The webhook answered with {status}")
        # What follows masks secrets in all of the input.
        asyncio.get_running_loop().call_soon(self._add, run)

    def _add(self, run: DirectRun) -> None:
        if self._history is None or run.activation is None:
            return
        redact, started_at = self._redact, run.span.start / _NANOSECONDS
        request: WebhookRequest | None = None
        if run.request is not None and run.input is not None:
            request = kept_request(run.request, redact)
        record = RunRecord(
            id=run.id,
            kind=run.kind,
            task=run.task,
            status="failed" if run.error else "succeeded",
            attempt=1,
            attempts=1,
            queued_at=started_at,
            at=run.span.end / _NANOSECONDS,
            user=activation_key(run.activation) or None,
            activation_id=run.activation.id,
            version=self._version,
            started_at=started_at,
            ended_at=run.span.end / _NANOSECONDS,
            error=masked_error(run.error, redact) if run.error else None,
            trace_id=run.span.trace_id,
            input=None if run.input is None else masked_input(run.input, redact),
            request=request,
        )
        self._history.add(record)
