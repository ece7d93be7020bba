"""Approvals as the streams of environments have them: what runs ask, and how that ended."""

import asyncio
import heapq
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import TIMEOUT, EngineRequests
from tieline_common.backoff import exponential, jitter
from tieline_common.semaphores import OwnSemaphores
from tieline_core.engine.publisher import decide_approval, publish_waking
from tieline_core.identity.ids import derived_id, new_id, parse_id
from tieline_protocol.approvals import (
    KEPT_SECONDS,
    Answer,
    Approval,
    ApprovalState,
    InvalidApprovalError,
    answer_event,
)
from tieline_protocol.event_streams import EventStreams, subject_parts
from tieline_protocol.waits import TIMED_OUT

MOST = 1000
"""Approvals of a list that are looked at."""
_AT_ONCE = 16
"""Requests to the engine for an organisation."""
_AHEAD = timedelta(minutes=5)
"""By which the clock of a pod may be ahead."""
_READ_ATTEMPTS = 8
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.5


@dataclass(frozen=True, kw_only=True)
class ApprovalRef:
    """Where an approval is. Ids begin with the time."""

    id: str
    environment: str
    is_answered: bool
    """Whether it has an outcome."""


@dataclass(frozen=True, kw_only=True)
class FoundApprovals:
    """What a list is made of."""

    refs: Sequence[ApprovalRef]
    """Newest first."""
    unread: Sequence[str] = ()
    """Environments whose engine did not answer."""
    left_out: int = 0
    """How many more there are."""


@dataclass(frozen=True, kw_only=True)
class StoredApproval:
    """An approval with its outcome."""

    environment: str
    approval: Approval
    answer: Answer | None = None
    timed_out: bool = False
    """Whether its run has noticed that nobody answered in time."""

    def state(self, now: float, *, run_ended: bool) -> ApprovalState:
        """What became of it."""
        if self.answer is not None:
            return "approved" if self.answer.approved else "rejected"
        if self.timed_out:
            return "timed_out"
        if run_ended:
            return "withdrawn"
        return "open" if now < self.approval.until else "timed_out"


def shared_newest(refs: Mapping[str, Sequence[ApprovalRef]], most: int) -> list[ApprovalRef]:
    """The newest, of all environments: each has an equal share of ``most``, and others get what it does not need."""
    left, chosen = most, list[ApprovalRef]()
    for done, some in enumerate(sorted(refs.values(), key=len)):
        part = heapq.nlargest(left // (len(refs) - done), some, key=lambda ref: ref.id)
        chosen += part
        left -= len(part)
    return sorted(chosen, key=lambda ref: (ref.id, ref.environment), reverse=True)


class Approvals:
    """Approvals of environments. Methods raise ApiError."""

    def __init__(self, environments: EnvironmentEngines) -> None:
        self._environments = environments
        self._at_once = OwnSemaphores(_AT_ONCE)

    async def refs(
        self, organisation: str, environments: Collection[str], wanted: Callable[[ApprovalRef], bool]
    ) -> FoundApprovals:
        """The approvals of the environments that may be ``wanted``."""
        limit = self._at_once.of(organisation)

        async def one(environment: str) -> Sequence[ApprovalRef] | None:
            async with limit:
                try:
                    return await self._refs(EventStreams(organisation, environment))
                except EngineUnavailableError:
                    return None

        async with asyncio.TaskGroup() as group:
            asked = {environment: group.create_task(one(environment)) for environment in environments}
        found = {environment: task.result() for environment, task in asked.items()}
        unread = sorted(environment for environment, refs in found.items() if refs is None)
        if unread and len(unread) == len(found):
            raise EngineUnavailableError
        refs = {
            environment: [ref for ref in some if wanted(ref)] for environment, some in found.items() if some
        }
        chosen = shared_newest(refs, MOST)
        return FoundApprovals(refs=chosen, unread=unread, left_out=sum(map(len, refs.values())) - len(chosen))

    async def _refs(self, streams: EventStreams) -> Sequence[ApprovalRef]:
        engine = self._environments.of(streams)
        try:
            asked = await engine.subjects(streams.runs, streams.approval("*", "*"))
            answered = await engine.subjects(streams.runs, streams.answered("*")) if asked else ()
        except NoStreamError:
            return ()
        ended = {subject_parts(subject)[1] for subject in answered}
        ids = {subject_parts(subject)[1] for subject in asked}
        # Lists begin with the newest: ids of the future would hide those of other environments.
        last = derived_id(created=datetime.now(UTC) + _AHEAD, seed="")
        return [
            ApprovalRef(id=one, environment=streams.environment, is_answered=one in ended)
            for one in ids
            # Code of the environment may write there, too.
            if parse_id(one) == one and one <= last
        ]

    async def read(
        self, organisation: str, refs: Sequence[ApprovalRef]
    ) -> Mapping[tuple[str, str], StoredApproval]:
        """Approvals, by environment and id. One that has gone meanwhile, or cannot be read, is left out."""

        limit = self._at_once.of(organisation)

        async def one(ref: ApprovalRef) -> StoredApproval | None:
            async with limit:
                return await self.get(EventStreams(organisation, ref.environment), ref.id)

        async with asyncio.TaskGroup() as group:
            asked = [group.create_task(one(ref)) for ref in refs]
        found = [task.result() for task in asked]
        return {(one.environment, one.approval.id): one for one in found if one is not None}

    async def get(self, streams: EventStreams, identifier: str) -> StoredApproval | None:
        """An approval, None for none."""
        engine = self._environments.of(streams)
        try:
            message = await engine.first_at(streams.runs, streams.approval(identifier, "*"))
            if message is None:
                return None
            approval = Approval.decode(message.data)
        except (InvalidApprovalError, NoStreamError):
            return None
        if message.subject != streams.approval(approval.id, approval.run) or approval.id != identifier:
            return None
        return await self._with_outcome(engine, streams, approval)

    async def _with_outcome(
        self, engine: EngineRequests, streams: EventStreams, approval: Approval
    ) -> StoredApproval:
        message = await engine.first_at(streams.runs, streams.answered(approval.id))
        if message is None:
            return StoredApproval(environment=streams.environment, approval=approval)
        try:
            answer = None if TIMED_OUT in message.headers else Answer.decode(message.data)
        except InvalidApprovalError:
            answer = None
        return StoredApproval(
            environment=streams.environment, approval=approval, answer=answer, timed_out=answer is None
        )

    async def answer(self, streams: EventStreams, approval: Approval, answer: Answer) -> StoredApproval:
        """Answers an approval, and returns it with its outcome: that of another answer, where that came first.

        The answer is queued first. Whatever dies then, a pod finds it there, makes it the outcome unless there is one,
        and wakes the run.
        """
        engine = self._environments.of(streams)
        metadata, payload = answer_event(new_id(), answer.at), answer.encode()
        await engine.ask(
            lambda jetstream: publish_waking(jetstream, streams, metadata, payload, seconds=TIMEOUT),
            seconds=2 * TIMEOUT,
        )
        keep = max(approval.until - answer.at, 0) + KEPT_SECONDS
        await engine.ask(
            lambda jetstream: decide_approval(
                jetstream, streams, approval.id, metadata, payload, keep=keep, seconds=TIMEOUT
            )
        )
        for attempt in range(1, _READ_ATTEMPTS + 1):
            # A server that is behind may answer.
            found = await self._with_outcome(engine, streams, approval)
            if found.answer is not None or found.timed_out:
                return found
            await asyncio.sleep(jitter(exponential(attempt, first=_FIRST_PAUSE, cap=_LONGEST_PAUSE)))
        raise EngineUnavailableError
