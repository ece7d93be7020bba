"""Small states that all replicas of the API share: one message each in memory of the event engine.

A message is replaced by compare-and-set.
"""

import logging
from dataclasses import dataclass

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import APIError, NotFoundError

from tieline_api.engine.errors import NoStreamError
from tieline_api.engine.requests import EngineRequests
from tieline_core.engine.streams import LIMITS_STREAM
from tieline_engine.refusals import WRONG_SEQUENCE
from tieline_protocol.event_streams import EXPECTED_SEQUENCE

logger = logging.getLogger("tieline.engine")

_MAX_BYTES = 32 << 20
_MAX_AGE_SECONDS = 25 * 3600.0
"""Longer than the longest period."""
_REPLICAS = (3, 1)
"""Of the stream, where the engine has so many servers."""
_SECONDS = 1.5


@dataclass
class SharedState:
    """A state, as it was stored."""

    content: bytes
    sequence: int
    """Of its message; 0 where there is none."""


class LimitStore:
    """Reads and writes the states. ``engine`` is the platform's account."""

    def __init__(self, engine: EngineRequests) -> None:
        self._engine = engine

    async def read(self, subject: str) -> SharedState:
        """The state at a subject; an empty one where there is none. Raises EngineUnavailableError, NoStreamError."""

        async def read(jetstream: JetStreamContext) -> SharedState:
            try:
                found = await jetstream.get_last_msg(LIMITS_STREAM, subject)
            except NotFoundError:
                return SharedState(b"", 0)
            return SharedState(found.data or b"", found.seq or 0)

        return await self._engine.ask(read, seconds=_SECONDS)

    async def store(self, subject: str, content: bytes, sequence: int) -> int:
        """The number of the new message; 0 where the last one is not the one with ``sequence``.

        Raises EngineUnavailableError.
        """

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
