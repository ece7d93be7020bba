"""Waits of a run for events and answers: each is recorded as a step, and has one outcome in all attempts."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from tieline.events.queue import EventsUnavailableError
from tieline.events.steps import RunSteps, SuspendedRun
from tieline.events.wait_store import KeptEvent, OpenWait, Outcome, WaitStore
from tieline.execution.ulids import derived_ulid, new_ulid
from tieline_protocol.approvals import Answer, Approval, InvalidApprovalError, approval_index, wait_name
from tieline_protocol.child_runs import child_index
from tieline_protocol.child_runs import wait_name as child_wait_name
from tieline_protocol.event_streams import hashed
from tieline_protocol.kept_results import outcome_name
from tieline_protocol.run_records import StepApproval
from tieline_protocol.waits import MAX_WAIT_SECONDS

_LOOK_SECONDS = 3600.0
"""After which a member of a batch looks again whether that has ended."""
Asked = Callable[[str, float, float], Approval]
"""Makes an approval of its id, and of when it was asked and ends."""


class StartChild(Protocol):
    """Starts a child. Where it may be started already, it is started once."""

    async def __call__(self, child: str, *, may_be_started: bool) -> None:
        """Raises EventsUnavailableError."""


@dataclass(frozen=True)
class Place:
    """Where code asks for a step; see ``RunSteps.begin``."""

    in_order: bool | None = None
    handles_error: bool = False


class _Turn:
    """A wait that others with the same index stand behind."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.is_known = False
        """Whether it has ended or goes on: not where that could not be found out."""


IN_OWN_TASK = Place()
"""Of code that is no plain function."""


class RunWaits:
    """The waits of one attempt."""

    def __init__(
        self,
        store: WaitStore,
        steps: RunSteps,
        *,
        run: str,
        key_hash: str | None,
        clock: Callable[[], float],
    ) -> None:
        """``key_hash`` is that of the key in whose order the run is; None where it has none."""
        self._store = store
        self._steps = steps
        self._run = run
        self._key_hash = key_hash
        self._clock = clock
        self._taken: set[str] = set()
        """Runs of the events that have ended waits of this run."""
        self._turns: dict[str, _Turn] = {}
        """Ends of the latest waits, by index."""
        self.has_waited = False
        """Whether the code has waited for an event."""
        self.open: list[OpenWait] = []
        """The waits of this attempt that have not ended."""

    async def wait_for(
        self,
        name: str,
        index: str,
        seconds: float,
        *,
        keep: float,
        kind: str = "wait",
        work: str | None = None,
        in_order: bool | None = None,
        handles_error: bool = False,
    ) -> KeptEvent | None:
        """The event that ends a wait; None after ``seconds``. Ends the attempt with SuspendedRun until then.

        ``index`` is what it waits for, and ``keep`` how many seconds before the wait the event may have come.
        Waits of a run with the same index take turns, in the order of its code: each event ends one of them.
        ``kind`` is in the step's name. ``work`` is what it is recognised by in a later version, by default the index.
        ``in_order`` and ``handles_error``: see ``RunSteps.begin``.
        """
        self.has_waited = True
        before, turn = self._turns.get(index), _Turn()
        self._turns[index] = turn
        try:
            step = await self._steps.begin(
                f"{kind}: {name}",
                work=work or hashed(f"wait {index}"),
                in_order=in_order,
                handles_error=handles_error,
            )
            now = self._clock()
            plan = await self._steps.finish(
                step, {"index": index, "since": now - keep, "until": now + seconds}
            )
            if before is not None:
                await before.over.wait()
                self._require_known(before)
            wait = OpenWait(
                index=plan["index"],
                run=self._run,
                name=outcome_name(hashed(step.name), step.occurrence),
                key_hash=self._key_hash,
                until=float(plan["until"]),
                since=float(plan["since"]),
                taken=frozenset(self._taken),
            )
            self._steps.done.waits(step.name, step.occurrence, wait.name)
            found = await self._result(wait, is_first=step.result is None)
            self._steps.done.ended(wait.name, found)
            turn.is_known = True
            return found
        except SuspendedRun:
            turn.is_known = True
            raise
        finally:
            turn.over.set()

    async def approve(
        self, title: str, work: str, seconds: float, asked: Asked, place: Place
    ) -> KeptEvent | None:
        """The answer to an approval; None after ``seconds``. Ends the attempt with SuspendedRun until then.

        ``work`` is what it asks, by which it is recognised in a later version.
        """
        self.has_waited = True
        step = await self._steps.begin(
            f"approve: {title}",
            work=hashed(f"approve {work}"),
            in_order=place.in_order,
            handles_error=place.handles_error,
        )
        now = self._clock()
        plan = await self._steps.finish(step, {"approval": new_ulid(), "asked": now, "until": now + seconds})
        approval = asked(plan["approval"], float(plan["asked"]), float(plan["until"]))
        wait = OpenWait(
            index=approval_index(approval.id),
            run=self._run,
            name=wait_name(approval.id),
            key_hash=self._key_hash,
            until=approval.until,
            since=0.0,
        )
        self._steps.done.waits(step.name, step.occurrence, wait.name)
        self._steps.annotate(step, approval=StepApproval(id=approval.id, state="open"))
        answer = await self._result(wait, is_first=step.result is None, approval=approval)
        self._steps.done.ended(wait.name, answer)
        self._steps.annotate(step, approval=_answered(approval.id, answer))
        return answer

    async def run_child(
        self, task: str, work: str, seconds: float, start: StartChild, place: Place
    ) -> tuple[str, KeptEvent | None]:
        """The run of a child, and its end; None after ``seconds``. Ends the attempt with SuspendedRun until then.

        The step is recorded once the child is started. An attempt that finds no record looks for the child.
        """
        self.has_waited = True
        step = await self._steps.begin(
            f"run: {task}",
            work=hashed(f"run {work}"),
            in_order=place.in_order,
            handles_error=place.handles_error,
        )
        child = derived_ulid(self._run, f"child/{hashed(step.name)}/{step.occurrence}")
        is_first = step.result is None and not self._steps.has_earlier
        wait = self._wait_for_child(child, self._clock() + seconds)
        if step.result is None and (is_first or await self._store.outcome(wait) is None):
            await start(child, may_be_started=not is_first)
        plan = await self._steps.finish(step, {"child": child, "until": wait.until})
        wait = self._wait_for_child(plan["child"], float(plan["until"]))
        self._steps.annotate(step, child=plan["child"])
        self._steps.done.waits(step.name, step.occurrence, wait.name)
        end = await self._result(wait, is_first=is_first)
        self._steps.done.ended(wait.name, end)
        return plan["child"], end

    async def run_batch(
        self, task: str, gather: Callable[[], Awaitable[str]]
    ) -> tuple[str, KeptEvent | None]:
        """The run of a batch of events of a task that this one is in, and its end. Ends the attempt with SuspendedRun
        until then. The step is recorded once ``gather`` has stored the batch, and returned its run.
        """
        self.has_waited = True
        step = await self._steps.begin(batch_step(task), work=hashed(f"batch {task}"))
        batch = await gather() if step.result is None else ""
        plan = await self._steps.finish(step, {"child": batch, "until": self._clock() + MAX_WAIT_SECONDS})
        # What a pod that died has left of the wait is gone soon.
        until = min(float(plan["until"]), self._clock() + _LOOK_SECONDS)
        wait = self._wait_for_child(plan["child"], until)
        self._steps.annotate(step, child=plan["child"])
        self._steps.done.waits(step.name, step.occurrence, wait.name)
        end = await self._result(wait, is_first=False)
        self._steps.done.ended(wait.name, end)
        return plan["child"], end

    def _wait_for_child(self, child: str, until: float) -> OpenWait:
        return OpenWait(
            index=child_index(child),
            run=self._run,
            name=child_wait_name(child),
            key_hash=self._key_hash,
            until=until,
            since=0.0,
        )

    async def _result(
        self, wait: OpenWait, *, is_first: bool, approval: Approval | None = None
    ) -> KeptEvent | None:
        outcome = await self._ended(wait, approval, is_first=is_first)
        self._steps.check_lease()
        if outcome is None:
            # Of those with the same index one is open at a time: the next event would end both.
            if self._is_first_open(wait):
                self.open.append(wait)
            raise SuspendedRun(wait.until)
        if outcome.event is not None:
            self._taken.add(outcome.event.metadata.run)
        return outcome.event

    def _require_known(self, before: "_Turn") -> None:
        """Raises RunTakenOver or EventsUnavailableError where an event may have ended the wait before, unknown here."""
        self._steps.check_lease()
        if not before.is_known:
            raise EventsUnavailableError("What has become of an earlier wait for the same is not known")

    def _is_first_open(self, wait: OpenWait) -> bool:
        return all(one.index != wait.index for one in self.open)

    async def _ended(self, wait: OpenWait, approval: Approval | None, *, is_first: bool) -> Outcome | None:
        """How a wait has ended; None while it goes on."""
        outcome = None if is_first else await self._store.outcome(wait)
        if outcome is not None:
            return outcome
        if approval is not None:
            await self._store.ask(approval)
        # Behind an open wait it would find what has ended that one, where a server that is behind does not know it yet.
        if (
            wait.is_matched
            and self._is_first_open(wait)
            and (event := await self._store.find(wait)) is not None
        ):
            outcome = await self._store.decide(wait, Outcome(event=event))
        elif self._clock() >= wait.until:
            outcome = await self._store.decide(wait, Outcome())
        if outcome is not None and not is_first:
            await self._store.close(wait)
        return outcome


def batch_step(task: str) -> str:
    """The name of the step in which an event of a task waits for its batch."""
    return f"batch: {task}"


def _answered(approval: str, event: KeptEvent | None) -> StepApproval:
    """What the run's record says of an approval that has ended."""
    if event is None:
        return StepApproval(id=approval, state="timed_out")
    try:
        answer = Answer.decode(event.payload)
    except InvalidApprovalError:
        return StepApproval(id=approval, state="rejected")
    return StepApproval(
        id=approval,
        state="approved" if answer.approved else "rejected",
        by=f"{answer.name} ({answer.by})" if answer.name not in ("", answer.by) else answer.by,
        at=answer.at,
        comment=answer.comment,
    )
