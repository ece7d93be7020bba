"""Events of tasks with ``batch``: this pod holds them until a batch is full or its time is over.

Then it stores the batch as an event of its own, which is tried again as a whole. Each member is a run that waits for
the end of that one, as a parent waits for its child. Until the batch is stored its members are unacknowledged: if the
pod dies, the engine hands them out again.
"""

import asyncio
import contextlib
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field

from tieline.errors import TielineError, reason
from tieline.events.batch import BatchRule
from tieline.events.event import EventTask, key_in
from tieline.events.publisher import Publisher
from tieline.events.queue import EventsUnavailableError
from tieline.events.retry import Reject, RetryLater
from tieline.events.run_store import RunTakenOver
from tieline.events.stored_batch import encode_batch, encode_member, member_content
from tieline.events.wait_store import KeptEvent
from tieline.execution.fair_limiter import FairLimiter
from tieline.execution.ulids import new_ulid
from tieline.server.event_attempt import Attempt
from tieline.server.event_tasks import Task
from tieline.server.queue_retries import retried
from tieline_common.backoff import jitter
from tieline_protocol.child_runs import ChildEnd, InvalidChildEndError
from tieline_protocol.event_streams import MAX_EVENT_BYTES, hashed
from tieline_protocol.events import EventMetadata

_IDLE_TURNS = 100
"""Of the event loop without another event: then nothing else is ready."""
_AGAIN_SECONDS = 30.0
"""After which an event joins another batch if its own could not be stored."""
_STORING_SECONDS = 60.0
"""For which storing a batch is repeated while the engine is away."""
_MAX_MEMBER_BYTES = MAX_EVENT_BYTES - 64 * 1024
"""Of a payload. What a batch says of an event beside that was in headers, of which the engine takes 64 KiB."""


class BatchFailedError(Reject):
    """Why a member is a dead letter: its batch has not succeeded."""


class BatchCancelledError(TielineError):
    """Why a member is cancelled: its batch was."""


@dataclass(frozen=True)
class _Member:
    """An event of a batch."""

    attempt: Attempt
    encoded: bytes


@dataclass
class _Group:
    """A batch that is not full."""

    task: EventTask
    rule: BatchRule
    storing: "asyncio.Task[str]" = field(init=False)
    """Stores it, and returns its run."""
    members: dict[str, "_Member"] = field(default_factory=dict)
    """By run, in the order in which they came."""
    size: int = 0
    """Bytes that all that have come take in the stored batch."""
    came: int = 0
    is_full: asyncio.Event = field(default_factory=asyncio.Event)


def batch_rule_of(task: Task | None, metadata: EventMetadata, payload: bytes) -> BatchRule | None:
    """How an event is run with others; None for one that is run by itself, and for a batch."""
    if not isinstance(task, EventTask) or metadata.batch or len(payload) > _MAX_MEMBER_BYTES:
        return None
    return task.batch


class EventBatches:
    """The batches that this pod gathers."""

    def __init__(
        self, publisher: Publisher, turns: FairLimiter, *, clock: Callable[[], float], waits: bool = True
    ) -> None:
        """``waits``: False where time stands still, in tests: a batch begins once no other event is ready."""
        self._publisher = publisher
        self._turns = turns
        self._clock = clock
        self._waits = waits
        self._groups: dict[Hashable, _Group] = {}

    async def join(self, attempt: Attempt, task: EventTask, rule: BatchRule) -> None:
        """Run an event with others, and return once their batch has succeeded.

        Raises SuspendedRun while the batch runs, BatchFailedError, BatchCancelledError, RetryLater where the engine is
        away or full, and what steps raise.
        """
        if attempt.waits is None:
            raise AssertionError
        # Also a payload that is no JSON is the affair of one event alone.
        content = member_content(attempt.delivery.payload)
        value = "" if rule.key is None else key_in(content, rule.key)
        try:
            batch, end = await attempt.waits.run_batch(
                task.name, lambda: self._gather(attempt, task, rule, value)
            )
        except EventsUnavailableError as error:
            # None of its code has run, so this is no attempt of it.
            raise RetryLater(reason(error), after=jitter(_AGAIN_SECONDS)) from None
        _check(batch, end)

    async def _gather(self, attempt: Attempt, task: EventTask, rule: BatchRule, value: str | None) -> str:
        """The run of the batch, once it is stored. Raises EventsUnavailableError and RunTakenOver."""
        run = attempt.metadata.run
        # Events without the field have nothing in common.
        index: Hashable = (
            task.name,
            attempt.metadata.user,
            run if value is None else hashed(value),
            value is None,
        )
        group = self._joined(index, attempt, task, rule)
        if group.came >= rule.size or value is None:
            self._close(index)
        elif self._is_pod_full:
            # It takes no more events, so none of its batches could grow.
            for one in list(self._groups):
                self._close(one)
        try:
            batch = await asyncio.shield(group.storing)
        except asyncio.CancelledError:
            self._leave(index, group, run)
            raise
        if run not in group.members:
            raise RunTakenOver
        return batch

    def _joined(self, index: Hashable, attempt: Attempt, task: EventTask, rule: BatchRule) -> "_Group":
        """The batch that has room for an event, and now has it."""
        member = _Member(attempt, encode_member(attempt.metadata, attempt.delivery.payload))
        length = len(encode_batch([member.encoded]))
        group = self._groups.get(index)
        if group is not None and group.size + length > MAX_EVENT_BYTES:
            self._close(index)
            group = None
        if group is None:
            group = self._groups[index] = _Group(task, rule)
            group.storing = asyncio.create_task(self._store_in_time(index, group))
        group.members[attempt.metadata.run] = member
        group.size += length
        group.came += 1
        return group

    def _leave(self, index: Hashable, group: "_Group", run: str) -> None:
        """Take an event out of a batch, and give that up once nobody waits for it: the pod ends."""
        group.members.pop(run, None)
        if group.members:
            return
        if self._groups.get(index) is group:
            del self._groups[index]
        group.storing.cancel()

    @property
    def _is_pod_full(self) -> bool:
        held = sum(len(one.members) for one in self._groups.values())
        return self._turns.active + held >= self._turns.most

    def _close(self, index: Hashable) -> None:
        self._groups.pop(index).is_full.set()

    async def _store_in_time(self, index: Hashable, group: _Group) -> str:
        if self._waits:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(group.rule.seconds):
                    await group.is_full.wait()
        else:
            await _until_idle(group)
        if self._groups.get(index) is group:
            self._close(index)
        # Another pod may have what this one holds no more.
        group.members = {run: one for run, one in group.members.items() if one.attempt.delivery.held}
        return await self._store(group) if group.members else ""

    async def _store(self, group: _Group) -> str:
        members = sorted(
            group.members.values(), key=lambda one: (one.attempt.metadata.queued_at, one.attempt.metadata.run)
        )
        attempts = [one.attempt for one in members]
        content = encode_batch([one.encoded for one in members])
        metadata = EventMetadata(
            run=new_ulid(),
            kind="event",
            task=group.task.name,
            queued_at=self._clock(),
            user=attempts[0].metadata.user,
            batch=True,
            priority=group.task.priority,
            members=tuple(
                " ".join(filter(None, (one.metadata.run, one.delivery.key_hash))) for one in attempts
            ),
        )
        await retried(
            lambda: self._publisher.store_batch(metadata, content, attempts=group.task.retry.attempts),
            seconds=_STORING_SECONDS,
        )
        return metadata.run


async def _until_idle(group: _Group) -> None:
    """Until the batch is full, or no event has come to it for some turns of the event loop."""
    came, turns = group.came, 0
    while turns < _IDLE_TURNS and not group.is_full.is_set():
        await asyncio.sleep(0)
        came, turns = group.came, turns + 1 if came == group.came else 0


def _check(batch: str, event: KeptEvent | None) -> None:
    """Raises BatchFailedError and BatchCancelledError."""
    if event is None:
        raise BatchFailedError(f"Its batch (run {batch}) did not end in time")
    try:
        end = ChildEnd.decode(event.payload)
    except InvalidChildEndError:
        raise BatchFailedError(f"How its batch (run {batch}) ended cannot be read") from None
    if end.status == "cancelled":
        raise BatchCancelledError(f"Its batch (run {batch}) was cancelled")
    if end.status != "succeeded":
        why = ": ".join(one for one in (end.error_type.rpartition(".")[2], end.error) if one)
        raise BatchFailedError(f"Its batch (run {batch}) failed: {why}")
