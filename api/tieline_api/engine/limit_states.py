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

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import EngineRequests
from tieline_api.errors import ApiError
from tieline_common.backoff import jitter
from tieline_common.bounded_dict import BoundedDict
from tieline_core.engine.streams import LIMITS_STREAM
from tieline_engine.refusals import WRONG_SEQUENCE
from tieline_protocol.event_streams import EXPECTED_SEQUENCE
from tieline_protocol.limit_coordinator import LimitState
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion

logger = logging.getLogger("tieline.engine")

_MAX_BYTES = 32 << 20
_MAX_AGE_SECONDS = 25 * 3600.0
"""Longer than the longest period."""
_REPLICAS = (3, 1)
"""Of the stream, where the engine has so many servers."""
_SECONDS = 1.5
_TRIES = 8
_PAUSE = 0.01
_REMEMBERED = 10_000

Asked = tuple[RequestLimits, SlotQuestion]


@dataclass
class _Memory:
    """What this replica knows of a connection."""

    state: bytes
    sequence: int
    """Of its message; 0 where there is none any more."""


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
        self._engine = engine
        self._wall = wall
        self._clock = clock
        self._clock_name = secrets.token_hex(4)
        self._memories: BoundedDict[str, _Memory] = BoundedDict(_REMEMBERED)
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
            memory = self._memories.get(subject) or await self._read(subject)
            state = LimitState.from_bytes(memory.state) if memory.state else LimitState()
            answers = [state.decide(limits, question, self._wall()) for limits, question in asked]
            content = state.to_bytes()
            sequence = await self._store(subject, content, memory.sequence)
            if sequence:
                self._memories[subject] = _Memory(content, sequence)
                now = self._clock()
                return [replace(one, clock=self._clock_name, now=now) for one in answers]
            if attempt:
                await asyncio.sleep(jitter(_PAUSE * attempt))
            await self._refresh(subject, memory)
        raise EngineUnavailableError

    async def _refresh(self, subject: str, memory: _Memory) -> None:
        """Take up what another replica has written; where that is gone, go on from what is remembered."""
        found = await self._read(subject)
        if not memory.state:
            self._memories[subject] = found
            return
        known = LimitState.from_bytes(memory.state)
        if not found.state:
            known.epoch = secrets.token_hex(4)
            self._memories[subject] = _Memory(known.to_bytes(), 0)
            return
        state = LimitState.from_bytes(found.state)
        if state.epoch != known.epoch:
            state.absorb(known)
        self._memories[subject] = _Memory(state.to_bytes(), found.sequence)

    async def _read(self, subject: str) -> _Memory:
        async def read(jetstream: JetStreamContext) -> _Memory:
            try:
                found = await jetstream.get_last_msg(LIMITS_STREAM, subject)
            except NotFoundError:
                return _Memory(b"", 0)
            return _Memory(found.data or b"", found.seq or 0)

        return await self._engine.ask(read, seconds=_SECONDS)

    async def _store(self, subject: str, content: bytes, sequence: int) -> int:
        """The number of the new message; 0 where the last one is not the one with ``sequence``."""

        async def store(jetstream: JetStreamContext) -> int:
            try:
                stored = await jetstream.publish(
                    subject, content, timeout=_SECONDS, headers={EXPECTED_SEQUENCE: str(sequence)}
                )
            except APIError as error:
                if error.err_code in WRONG_SEQUENCE:
                    return 0
                raise
            return stored.seq

        try:
            return await self._engine.ask(store, seconds=_SECONDS)
        except NoStreamError:
            await self._make_stream()
            return 0

    async def _make_stream(self) -> None:
        async def make(jetstream: JetStreamContext) -> None:
            for replicas in _REPLICAS:
                try:
                    await jetstream.add_stream(_stream(replicas))
                except APIError:
                    if replicas == _REPLICAS[-1]:
                        raise
                else:
                    logger.info("The event engine has a stream of limits, on %d servers", replicas)
                    return

        await self._engine.ask(make)


def _stream(replicas: int) -> StreamConfig:
    return StreamConfig(
        name=LIMITS_STREAM,
        subjects=[f"{LIMITS_STREAM}.>"],
        storage=StorageType.MEMORY,
        retention=RetentionPolicy.LIMITS,
        discard=DiscardPolicy.OLD,
        max_msgs_per_subject=1,
        max_bytes=_MAX_BYTES,
        max_age=_MAX_AGE_SECONDS,
        num_replicas=replicas,
        allow_direct=False,
    )
