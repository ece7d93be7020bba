"""Events that end waits: which waits an event ends, and their runs are woken."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tieline.events.event import parsed_payload
from tieline.events.queue import EventQueue
from tieline.events.retry import Reject
from tieline.events.wait_store import KeptEvent, Outcome, Wait, WaitStore
from tieline_protocol.approvals import Answer, approval_index
from tieline_protocol.events import EventMetadata
from tieline_protocol.signals import KEPT_SECONDS, SentSignal
from tieline_protocol.waits import WaitRule, payload_size_problem

_AT_ONCE = 16
"""Waits that are ended at the same time."""


class EventMatching:
    """Ends waits. It is idempotent: after a pod's death, another pod does it again for the same event."""

    def __init__(self, queue: EventQueue, own: Mapping[str, Sequence[WaitRule]]) -> None:
        """``own`` are the rules of this version's code, by the events' names."""
        self._queue = queue
        self._own = own

    @property
    def _waits(self) -> WaitStore:
        # A pod's queue begins to use the engine later.
        return self._queue.waits

    async def concerns(self, name: str, *, has_task: bool) -> bool:
        """Whether runs may wait for events of this name.

        Where ``has_task``, the names of other versions' rules may be a few seconds old: each event asks for them.
        """
        if name in self._own:
            return True
        return await self._waits.may_have_rules(name) if has_task else bool(await self._waits.rules(name))

    async def end_waits(self, metadata: EventMetadata, payload: bytes) -> Sequence[Wait]:
        """End the waits for an event, and wake their runs. Raises EventsUnavailableError, and Reject for a payload
        that cannot end any."""
        if problem := payload_size_problem(metadata.task, len(payload)):
            raise Reject(problem)
        content = parsed_payload(payload)
        event = KeptEvent(metadata=_kept(metadata), payload=payload)
        done: set[str] = set()
        woken: dict[tuple[str, str], Wait] = {}
        rules = self._own.get(metadata.task) or await self._waits.rules(metadata.task)
        # Rules that were declared meanwhile count as well: a wait by them may have begun before the event was kept.
        while rules:
            for rule in rules:
                done.add(rule.id)
                index = rule.index_of(content, metadata.user)
                if index is not None:
                    # The payload of an event that cancels runs is of no use to them.
                    kept = replace(event, payload=b"") if rule.cancels else event
                    woken |= {
                        (one.run, one.name): one for one in await self._end(kept, index, keep=rule.keep)
                    }
            rules = [one for one in await self._waits.rules(metadata.task) if one.id not in done]
        return list(woken.values())

    async def end_approval(self, metadata: EventMetadata, payload: bytes) -> Sequence[Wait]:
        """End the approval that an answer is for, and wake its run. Raises EventsUnavailableError, and
        InvalidApprovalError for what is no answer."""
        answer = Answer.decode(payload)
        event = KeptEvent(metadata=_kept(metadata), payload=payload)
        return await self._end(event, approval_index(answer.approval), keep=0)

    async def end_signal(self, metadata: EventMetadata, payload: bytes) -> Sequence[Wait]:
        """Keep a signal for its run, and wake that if it waits. Raises EventsUnavailableError, and InvalidSignalError
        for what is no signal."""
        signal = SentSignal.decode(payload)
        event = KeptEvent(metadata=_kept(metadata), payload=payload)
        # The run may wait for it in days, and nobody sends it again.
        return await self._end(event, signal.index, keep=KEPT_SECONDS, at_least=KEPT_SECONDS)

    async def supersede(self, event: KeptEvent, index: str, *, keep: float) -> Sequence[Wait]:
        """Keep an event at an index of events of which the newest counts, and end the waits of those before it.

        Raises EventsUnavailableError."""
        event = KeptEvent(metadata=_kept(event.metadata), payload=event.payload)
        ended = await self._end(event, index, keep=keep)
        await self._waits.drop_older(index, event)
        return ended

    async def _end(
        self, event: KeptEvent, index: str, *, keep: float, at_least: float = 0.0
    ) -> Sequence[Wait]:
        kept = await self._waits.keep(index, event, keep, at_least=at_least)
        waits = [one for one in await self._waits.waits(index, before=kept) if one.accepts(event)]
        ended: list[Wait] = []
        for start in range(0, len(waits), _AT_ONCE):
            some = waits[start : start + _AT_ONCE]
            done = await asyncio.gather(*(self._wake(wait, event) for wait in some))
            ended += [wait for wait, is_of_it in zip(some, done, strict=True) if is_of_it]
        return ended

    async def _wake(self, wait: Wait, event: KeptEvent) -> bool:
        """Whether the event ended the wait."""
        outcome = await self._waits.decide(wait, Outcome(event=event))
        # Another event's pod may have died before it woke the run.
        await self._waits.wake(wait)
        await self._waits.close(wait)
        return outcome.is_of(event)


def _kept(metadata: EventMetadata) -> EventMetadata:
    """What waits get of it: no attempts, no failure, no request."""
    return EventMetadata(
        run=metadata.run,
        kind=metadata.kind,
        task=metadata.task,
        queued_at=metadata.queued_at,
        user=metadata.user,
        key=metadata.key,
        event_id=metadata.event_id,
        replay_of=metadata.replay_of,
    )
