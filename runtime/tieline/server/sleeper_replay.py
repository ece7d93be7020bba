"""Replays what is recorded of runs that wait against the code that is to be deployed.

The task's code runs from its beginning with the recorded results in place of its steps, and with nothing else: no step
is done, and nothing is asked of other systems, of state or of the engine. At the first step that is not recorded the
replay ends, because from there on any code may follow (docs/decisions/0122-a-deploy-asks-the-sleepers.md).
"""

import asyncio
import math
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Literal, NoReturn, cast

import aiohttp

from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation, Connection, EndUser, Snapshot
from tieline.connectors.caller import Connectors
from tieline.context import Named, RunMetadata
from tieline.events.memory_runs import MemoryRuns
from tieline.events.memory_waits import MemoryWaits
from tieline.events.publisher import Publisher
from tieline.events.queue import Delivery, NoEvents
from tieline.events.run_store import PATCH
from tieline.events.steps import BegunStep, RunSteps, StepsChanged, StepsChangedError, SuspendedRun
from tieline.events.wait_store import OpenWait, Outcome, Wait
from tieline.execution.background import BackgroundWork, Work
from tieline.execution.fair_limiter import Slot
from tieline.server.applications import webhook_application
from tieline.server.code_loader import Tasks
from tieline.server.event_attempt import Attempt
from tieline.server.event_calls import EventCalls
from tieline.server.event_tasks import EventTasks, Task, retry_of
from tieline.server.sleeping_runs import SleepingRun
from tieline.server.webhook_runs import Limits, Runner
from tieline.state.documents import Documents
from tieline.telemetry.redaction import Redactor
from tieline_protocol.events import EventMetadata

VERSION = "to be deployed"
"""What messages call the version with the new code."""
_RUN_SECONDS = 5.0
_MAX_ERROR = 500
_present: ContextVar[str | None] = ContextVar("tieline_replayed_run", default=None)
"""The run whose code runs; None in threads that the code has started."""
_LIMITS = Limits(max_body=4 * 1024 * 1024, max_runs=4, run_timeout=_RUN_SECONDS)

Verdict = Literal["continues", "stops", "unknown"]
_Leave = Callable[[str], NoReturn]


@dataclass(frozen=True, kw_only=True)
class Replayed:
    """What becomes of one run with the new code."""

    run: str
    task: str
    verdict: Verdict
    reason: str = ""
    """Why it stops, or cannot be judged further."""
    location: str = ""
    """File and line of the new code."""


class _LeavesReplay(BaseException):
    """The code asks for something that is not recorded. Not an Exception, so that code does not catch it."""


class SleeperReplay:
    """The code to be deployed, and a world without anything."""

    def __init__(self, code: Path, tasks: Tasks) -> None:
        """``code`` is the folder of main.py, which is loaded already. Made in the event loop."""
        self._code = code.resolve()
        self._left: tuple[str, str] | None = None
        """What the present run asked for that is not recorded, and where."""
        self._run = ""
        configuration = Configuration(redactor=Redactor(), needed=False)
        configuration.current = _NoConnections(self.leave)
        runner = Runner(
            limits=_LIMITS,
            configuration=configuration,
            client=cast(aiohttp.ClientSession, _Nothing("an HTTP client", self.leave)),
            run_metadata=_METADATA,
            documents=cast(Documents, _Nothing("ctx.state", self.leave)),
            publisher=_NoPublisher(tasks, self.leave),
            connectors=Connectors(code),
        )
        runner.calls.background = _NoBackground(self.leave)
        self._runner = runner
        application = webhook_application(tasks.webhooks, runner, max_body=_LIMITS.max_body)
        self._tasks = EventTasks(
            events=tasks.events,
            webhooks=tasks.webhooks,
            schedules=tasks.schedules,
            waits=tasks.waits,
            application=application,
        )

    def close(self) -> None:
        """Let go of its threads."""
        self._runner.close()

    def leave(self, what: str) -> NoReturn:
        """End the replay of the present run, in whatever thread: it asks for something that is not recorded."""
        # The thread of an earlier run may still be there.
        if self._left is None and _present.get() in (None, self._run):
            self._left = what, location_in(self._code)
        raise _LeavesReplay(what)

    async def replay(self, sleeping: SleepingRun) -> Replayed:
        """What becomes of a run."""
        metadata = sleeping.metadata
        task = self._tasks.find(metadata)
        if task is None:
            why = f"There is no task {metadata.task!r} for it: deploy code that has it"
            return Replayed(run=metadata.run, task=metadata.task, verdict="stops", reason=why)
        self._left, self._run = None, metadata.run
        _present.set(metadata.run)
        records = _Records(sleeping)
        await records.save()
        error = await self._ended(records, sleeping, task)
        verdict, why, location = self._judged(records, error)
        return Replayed(run=metadata.run, task=metadata.task, verdict=verdict, reason=why, location=location)

    async def _ended(self, records: "_Records", sleeping: SleepingRun, task: Task) -> BaseException | None:
        """How the code ended."""
        metadata = sleeping.metadata
        attempt = Attempt(
            metadata=metadata,
            delivery=cast(Delivery, SimpleNamespace(held=True, key_hash=None, payload=sleeping.payload)),
            number=metadata.attempt,
            retry=retry_of(task),
            started_at=None,
            activation=_activation(metadata.user, self.leave),
        )
        calls = EventCalls(
            self._runner.calls,
            tasks=self._tasks,
            queue=records,
            timeout=_RUN_SECONDS,
            version=VERSION,
            clock=time.time,
            make_steps=lambda *args, **kwargs: records.watched(_Steps(self._code, *args, **kwargs)),
        )
        try:
            async with asyncio.timeout(_RUN_SECONDS):
                # Code in a thread, and a member of a batch, give back a turn that was taken.
                turns = self._runner.calls.turns
                await turns.wait("", bounded=False)
                slot = Slot(turns, "")
                try:
                    return await calls.call(attempt, task, slot)
                finally:
                    slot.release()
        except TimeoutError:
            self._left = self._left or (f"more than {_RUN_SECONDS:g} seconds outside of steps", "")
            return None
        except (SuspendedRun, _LeavesReplay, StepsChanged) as ended:
            return ended

    def _judged(self, records: "_Records", error: BaseException | None) -> tuple[Verdict, str, str]:
        """The verdict, with why and where."""
        steps = records.steps
        if steps is not None and steps.changed is not None:
            return "stops", str(steps.changed), steps.changed_at
        if self._left is not None:
            what, location = self._left
            return "unknown", f"It is judged up to {what}, which a replay does not have", location
        if isinstance(error, Exception) and (missed := records.missed):
            why = f"It raises {_shown(error)} before the recorded step {missed!r}"
            return "stops", why, _raised_in(error, self._code)
        return "continues", "", ""


class _Steps(RunSteps):
    """The recorded steps of a run. Nothing is done beyond them."""

    def __init__(self, code: Path, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._code = code
        self.asked: set[tuple[str, int]] = set()
        self.changed_at = ""

    async def begin(
        self, name: str, *, work: str = "", in_order: bool | None = None, handles_error: bool = False
    ) -> BegunStep:
        """See RunSteps. What is not recorded suspends the run."""
        step = await super().begin(name, work=work, in_order=in_order, handles_error=handles_error)
        self.asked.add((step.name, step.occurrence))
        if step.result is None and not name.startswith(PATCH):
            # Others that run side by side with it are judged as well.
            raise SuspendedRun(math.inf)
        return step

    def _stop(self, error: StepsChangedError) -> StepsChanged:
        self.changed_at = self.changed_at or location_in(self._code)
        return super()._stop(error)


class _Records(NoEvents):
    """The queue of one run, which has what is recorded."""

    def __init__(self, sleeping: SleepingRun) -> None:
        self._sleeping = sleeping
        self._runs = MemoryRuns()
        self._waits = _Waits(sleeping.outcomes)
        self.steps: _Steps | None = None

    @property
    def runs(self) -> MemoryRuns:
        """The recorded steps."""
        return self._runs

    @property
    def waits(self) -> "_Waits":
        """How waits have ended."""
        return self._waits

    def watched(self, steps: _Steps) -> _Steps:
        """Remembers the steps of the attempt."""
        self.steps = steps
        return steps

    async def save(self) -> None:
        """Records the steps."""
        run = self._sleeping.metadata.run
        claim = await self._runs.claim_steps(run, any_kept=False)
        for step in self._sleeping.steps:
            await self._runs.save_step(run, step, claim=claim)

    @property
    def missed(self) -> str:
        """The name of the first step in the run's sequence that the code has not asked for; empty for none."""
        asked = self.steps.asked if self.steps is not None else set()
        left = [one for one in self._sleeping.steps if one.place and (one.name, one.occurrence) not in asked]
        return min(left, key=lambda one: one.place).name if left else ""


class _Waits(MemoryWaits):
    """How the waits of a run have ended. One that has not ended goes on."""

    def __init__(self, outcomes: Mapping[str, Outcome]) -> None:
        super().__init__()
        self._ended = outcomes

    async def outcome(self, wait: Wait) -> Outcome | None:
        """See WaitStore."""
        return self._ended.get(wait.name)

    async def find(self, wait: OpenWait) -> None:
        """What may be kept for it is not known."""
        return

    async def ask(self, approval: object) -> None:
        """People are asked already."""

    async def decide(self, wait: Wait, outcome: Outcome) -> Outcome:
        """Only the engine decides it."""
        raise SuspendedRun(math.inf)


class _Nothing:
    """Stands for what a replay does not have."""

    def __init__(self, what: str, leave: _Leave) -> None:
        self._what = what
        self._leave = leave

    def __getattr__(self, name: str) -> NoReturn:
        """Whatever is asked of it ends the replay."""
        self._leave(self._what)


class _NoVariables(Mapping[str, Any]):
    """The variables of an activation, which are not known here."""

    def __init__(self, leave: _Leave) -> None:
        self._leave = leave

    def __getitem__(self, name: str) -> NoReturn:
        """Ends the replay."""
        self._leave("ctx.variables")

    def __iter__(self) -> Iterator[str]:
        """Ends the replay."""
        self._leave("ctx.variables")

    def __len__(self) -> int:  # noqa: PLE0303  (it never returns)
        """Ends the replay."""
        self._leave("ctx.variables")


class _NoConnections(Snapshot):
    """A configuration whose connections end the replay."""

    def __init__(self, leave: _Leave) -> None:
        super().__init__()
        object.__setattr__(self, "_leave", leave)

    def connection(self, template: str, activation: Activation | None = None) -> Connection:
        """Ends the replay."""
        leave: _Leave = object.__getattribute__(self, "_leave")
        leave(f"the connection {template!r} outside of a step")


class _NoPublisher(Publisher):
    """Publishes nothing."""

    def __init__(self, tasks: Tasks, leave: _Leave) -> None:
        super().__init__(NoEvents(), tasks.events, waits=tasks.waits)
        self._leave = leave

    async def publish(self, task: str, *_: object, **__: object) -> NoReturn:
        """Ends the replay."""
        self._leave(f"the event {task!r}, published outside of a step")

    async def store(self, metadata: EventMetadata, *_: object, **__: object) -> NoReturn:
        """Ends the replay."""
        self._leave(f"the event {metadata.task!r}, published outside of a step")


class _NoBackground(BackgroundWork):
    """Begins nothing."""

    def __init__(self, leave: _Leave) -> None:
        super().__init__()
        self._leave = leave

    def start(self, key: str, work: Work, *args: Any, **kwargs: Any) -> None:
        """Ends the replay."""
        if asyncio.iscoroutine(work):
            work.close()
        self._leave("ctx.background")


_METADATA = RunMetadata(
    organisation_id="",
    project=Named(id="", name=""),
    environment=Named(id="", name=""),
    version=VERSION,
    public_url="",
)


def _activation(user: str | None, leave: _Leave) -> Activation:
    end_user = None if user is None else EndUser(id="", external_id=user, display_name="")
    return Activation(id="", user=end_user, variables=_NoVariables(leave), connections={})


def location_in(code: Path) -> str:
    """File and line of the project's code that is being run, as ``main.py:12``; empty where none is.

    A plain function is in another thread than the loop that it asks.
    """
    own = threading.get_ident()
    frames = sys._current_frames()
    for frame in (frames.pop(own), *frames.values()):
        for one, number in traceback.walk_stack(frame):
            if found := _located(one, number, code):
                return found
    return ""


def _located(frame: FrameType, number: int, code: Path) -> str:
    path = Path(frame.f_code.co_filename)
    return f"{path.relative_to(code)}:{number}" if path.is_relative_to(code) else ""


def _shown(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MAX_ERROR]


def _raised_in(error: BaseException, code: Path) -> str:
    for frame, number in reversed(list(traceback.walk_tb(error.__traceback__))):
        if found := _located(frame, number, code):
            return found
    return ""
