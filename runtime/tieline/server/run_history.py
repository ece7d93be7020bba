"""What the run history has of runs: errors and inputs with secrets masked, and records of direct runs.

``settings.keepInputs`` says whether the records of direct runs have their inputs.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import orjson
from aiohttp import web

from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation
from tieline.context import activation_key
from tieline.errors import TielineError, UpstreamError, reason
from tieline.events.done_steps import DoneSteps
from tieline.execution.background import EndedWork
from tieline.execution.progress import RunProgress, shown
from tieline.http_client.responses import MAX_BODY_EXCERPT
from tieline.server.request_bodies import put_back
from tieline.server.stored_request import kept_request
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Span
from tieline_protocol.events import RunKind, WebhookRequest
from tieline_protocol.kept_results import packed
from tieline_protocol.run_records import MAX_DIRECT_INPUT, RunError, RunRecord, UpstreamAnswer

logger = logging.getLogger("tieline.run")

_MAX_MESSAGE = 4000
_MAX_SYSTEM = 256
_NANOSECONDS = 1e9


def masked_error(error: BaseException, redact: Redactor) -> RunError:
    """Why an attempt failed."""
    upstream = None
    if isinstance(error, UpstreamError):
        # Code may raise one of its own.
        system = redact.for_run(error.system)[:_MAX_SYSTEM]
        upstream = UpstreamAnswer(status=error.status, body=error.body[:MAX_BODY_EXCERPT], system=system)
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return RunError(type=name, message=redact.for_run(reason(error))[:_MAX_MESSAGE], upstream=upstream)


def masked_tags(tags: Mapping[str, str], redact: Redactor) -> dict[str, str]:
    """A run's tags with secrets in their values masked."""
    return {name: redact.for_run(value) for name, value in tags.items()}


def masked_input(payload: bytes, redact: Redactor) -> bytes:
    """A payload with known secrets masked, also where it is no text."""
    try:
        return redact.for_run(payload.decode()).encode()
    except UnicodeDecodeError:
        return redact.for_run(payload.decode("latin-1")).encode("latin-1", "replace")


def masked_results(done: DoneSteps, redact: Redactor) -> bytes | None:
    """Results of steps with known secrets masked; None where there are none."""
    found = done.kept(redact.for_run)
    return packed(found) if found else None


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


@dataclass(slots=True)
class DirectRun:
    """A direct run, while it lasts. It is recorded if it was admitted."""

    id: str
    kind: RunKind
    task: str
    span: Span
    keeps_input: bool = False
    admitted: bool = False
    """Whether the caller was authorised to run it."""
    user: str = ""
    """External id; empty for the static activation."""
    activation_id: str = ""
    input: bytes | None = None
    request: web.Request | None = None
    error: BaseException | None = None
    owner: "asyncio.Task[object] | None" = None
    """The task in which it runs."""
    tags: dict[str, str] = field(default_factory=dict)
    """What its code calls it."""
    progress: RunProgress = field(default_factory=RunProgress)
    """What its code says of how far it is."""

    def admit(self, activation: Activation) -> None:
        """It runs for this activation."""
        self.admitted, self.user, self.activation_id = True, activation_key(activation), activation.id

    async def keep(self, request: web.Request) -> None:
        """Keep the request as the run's input."""
        if (request.content_length or 0) <= MAX_DIRECT_INPUT:
            body = await request.read()
            put_back(request, body)
            self.input = body if len(body) <= MAX_DIRECT_INPUT else None
        self.request = request


class RecordsTaker(Protocol):
    """Takes records of runs; see HistoryWriter."""

    def add(self, record: RunRecord) -> None:
        """Take one, without waiting for anything."""


class DirectRuns:
    """Adds a record of each direct run to the history once it has ended. No run waits for it."""

    def __init__(
        self, history: RecordsTaker | None, configuration: Configuration, *, redact: Redactor, version: str
    ) -> None:
        """``version`` is the name of the ProjectVersion that runs. Without a history nothing is recorded."""
        self._history = history
        self._configuration = configuration
        self._redact = redact
        self._version = version
        self._under_way: dict[asyncio.Task[object], DirectRun] = {}

    def begin(self, run: str, kind: RunKind, task: str, span: Span) -> DirectRun:
        """A run that begins in the current task."""
        keeps = self._history is not None and self._configuration.current.keep_inputs
        owner = asyncio.current_task()
        begun = DirectRun(run, kind, task, span, keeps, owner=owner)
        begun.progress.follow(lambda: self._log_progress(begun))
        if owner is not None:
            self._under_way[owner] = begun
        return begun

    def run_of(self, task: "asyncio.Task[object]") -> tuple[str, str] | None:
        """The run's id, and what a task runs; None for a task that is not a run's own. May be called in any thread."""
        found = self._under_way.get(task)
        return (found.id, f"{found.kind.capitalize()} {found.task}") if found else None

    def interrupted(self, run: str, error: BaseException) -> RunRecord | None:
        """The record of a run in whose middle this process ends; None for one that is not under way here.

        May be called in any thread.
        """
        found = next((one for one in list(self._under_way.values()) if one.id == run and one.admitted), None)
        if found is None:
            return None
        found.error = error
        return self._record(found, round(time.time() * _NANOSECONDS))

    def end(self, run: DirectRun, status: int = 0) -> None:
        """Record a run that has ended, once its answer with ``status`` was sent."""
        if run.progress.stop():
            self._log_progress(run)
        if run.owner is not None:
            self._under_way.pop(run.owner, None)
        if self._history is None or not run.admitted:
            return
        if status >= 500 and run.error is None:
            run.error = TielineError(f"The webhook answered with {status}")
        # What follows masks secrets in all of the input.
        asyncio.get_running_loop().call_soon(self._add, run)

    def _log_progress(self, run: DirectRun) -> None:
        """Its record comes once it has ended."""
        if (said := run.progress.record(1, self._redact.for_run)) is not None:
            logger.info("Progress: %s", shown(said))

    def background(self, work: EndedWork) -> None:
        """Record background work that has ended, which has no input."""
        run = DirectRun(work.id, "background", work.name, work.span, admitted=True)
        run.user, run.activation_id, run.error = work.user, work.activation, work.error
        run.tags = work.tags
        self.end(run)

    def _add(self, run: DirectRun) -> None:
        if self._history is not None:
            self._history.add(self._record(run, run.span.end))

    def _record(self, run: DirectRun, end: int) -> RunRecord:
        redact, span = self._redact, run.span
        began, ended = span.start / _NANOSECONDS, end / _NANOSECONDS
        request: WebhookRequest | None = None
        if run.request is not None and run.input is not None:
            request = kept_request(run.request, redact)
        return RunRecord(
            id=run.id,
            kind=run.kind,
            task=run.task,
            status="failed" if run.error else "succeeded",
            attempt=1,
            attempts=1,
            queued_at=began,
            at=ended,
            user=run.user or None,
            activation_id=run.activation_id,
            version=self._version,
            started_at=began,
            ended_at=ended,
            error=masked_error(run.error, redact) if run.error else None,
            trace_id=span.trace_id,
            input=None if run.input is None else masked_input(run.input, redact),
            request=request,
            tags=masked_tags(run.tags, redact),
            progress=run.progress.record(1, redact.for_run),
        )
