"""The state of connections' limits, which all replicas of the API share, so that each gives the same answers.

It is one message for each connection, in memory of the event engine, that is replaced by compare-and-set. What pods ask
while one is being written is decided together, and written at once. A replica remembers what it has written: when the
engine has lost it, that is where it goes on.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.limit_store import LimitStore, SharedState
from tieline_api.engine.requests import EngineRequests
from tieline_api.errors import ApiError
from tieline_common.backoff import jitter
from tieline_common.bounded_dict import BoundedDict
from tieline_core.engine.streams import LIMITS_STREAM
from tieline_protocol.limit_coordinator import LimitState
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion

logger = logging.getLogger("tieline.engine")

_TRIES = 8
_PAUSE = 0.01
_REMEMBERED = 10_000

Asked = tuple[RequestLimits, SlotQuestion]


@dataclass(eq=False)
class _Batch:
    """What pods ask about one connection while its state is being written."""

    waiting: list[tuple[Asked, "asyncio.Future[SlotAnswer]"]] = field(default_factory=list)
    task: "asyncio.Task[None] | None" = None


class LimitStates:
    """Answers pods of all environments. ``engine`` is the platform's account."""

    def __init__(
        self,
        engine: EngineRequests,
        *,
        wall: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = LimitStore(engine)
        self._wall = wall
        self._clock = clock
        self._clock_name = secrets.token_hex(4)
        self._memories: BoundedDict[str, SharedState] = BoundedDict(_REMEMBERED)
        self._batches: dict[str, _Batch] = {}

    async def ask(
        self, organisation: str, connection: str, limits: RequestLimits, question: SlotQuestion
    ) -> SlotAnswer:
        """The answer to a pod. Raises EngineUnavailableError."""
        subject = f"{LIMITS_STREAM}.{organisation}.{connection}"
        batch = self._batches.setdefault(subject, _Batch())
        answer: asyncio.Future[SlotAnswer] = asyncio.get_running_loop().create_future()
        batch.waiting.append(((limits, question), answer))
        if batch.task is None:
            batch.task = asyncio.create_task(self._decide(subject, batch), name="limits of a connection")
        return await answer

    async def _decide(self, subject: str, batch: _Batch) -> None:
        try:
            while batch.waiting:
                taken, batch.waiting = batch.waiting, []
                await self._answer(subject, taken)
        finally:
            batch.task = None
            del self._batches[subject]

    async def _answer(
        self, subject: str, taken: Sequence[tuple[Asked, "asyncio.Future[SlotAnswer]"]]
    ) -> None:
        try:
            answers = await self._written(subject, [asked for asked, _ in taken])
        except Exception as error:
            found = error if isinstance(error, ApiError) else EngineUnavailableError()
            if found is not error:
                logger.exception("The limits of a connection cannot be decided")
            for _, future in taken:
                if not future.done():
                    future.set_exception(found)
            return
        for (_, future), answer in zip(taken, answers, strict=True):
            if not future.done():
                future.set_result(answer)

    async def _written(self, subject: str, asked: Sequence[Asked]) -> list[SlotAnswer]:
        """The decisions, once they are stored."""
        for attempt in range(_TRIES):
            memory = self._memories.get(subject) or await self._store.read(subject)
            state = LimitState.from_bytes(memory.content) if memory.content else LimitState()
            answers = [state.decide(limits, question, self._wall()) for limits, question in asked]
            content = state.to_bytes()
            sequence = await self._store.store(subject, content, memory.sequence)
            if sequence:
                self._memories[subject] = SharedState(content, sequence)
                now = self._clock()
                return [replace(one, clock=self._clock_name, now=now) for one in answers]
            if attempt:
                await asyncio.sleep(jitter(_PAUSE * attempt))
            await self._refresh(subject, memory)
        raise EngineUnavailableError

    async def _refresh(self, subject: str, memory: SharedState) -> None:
        """Take up what another replica has written; where that is gone, go on from what is remembered."""
        found = await self._store.read(subject)
        if not memory.content:
            self._memories[subject] = found
            return
        known = LimitState.from_bytes(memory.content)
        if not found.content:
            known.epoch = secrets.token_hex(4)
            self._memories[subject] = SharedState(known.to_bytes(), 0)
            return
        state = LimitState.from_bytes(found.content)
        if state.epoch != known.epoch:
            state.absorb(known)
        self._memories[subject] = SharedState(state.to_bytes(), found.sequence)
