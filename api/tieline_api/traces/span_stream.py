"""Spans on their way through the event engine, so that every replica has all of them.

The replica that receives spans publishes them at ``spans.<organisation>.<project>.<environment>``, and each replica
reads them into its own store. While the engine is away, or takes nothing more, they go to the own store at once, and
to the engine once it is back, for the other replicas.
"""

import asyncio
import logging
import zlib
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from nats.js import JetStreamContext
from nats.js.api import DiscardPolicy, RetentionPolicy, StreamConfig
from nats.js.errors import NotFoundError

from tieline_api.engine.connection import Engine
from tieline_api.engine.errors import EngineFullError, EngineUnavailableError, NoStreamError
from tieline_api.engine.followers import Followers
from tieline_api.errors import ApiError
from tieline_api.traces import otlp
from tieline_api.traces.otlp_batch import OtlpDecodeError, TooManySpansError
from tieline_api.traces.spans import Owner, Span
from tieline_api.traces.store import TraceStore
from tieline_common.backoff import jitter
from tieline_common.cancellation import cancel_and_wait
from tieline_core.engine.stored_messages import StoredMessage
from tieline_core.engine.streams import StreamLimits, ensure_stream
from tieline_core.identity.ids import parse_id
from tieline_protocol.event_streams import history_stream

logger = logging.getLogger("tieline.traces")

PREFIX = "spans"
STREAM_BYTES = 256 * 1024 * 1024
_CONTENT_TYPE = "Content-Type"
_MAX_BODY = 4 * 1024 * 1024
"""Of a request, as the receiver takes it."""
_MAX_QUEUED_BYTES = 32 * 1024 * 1024
_MAX_MISSED_BYTES = 32 * 1024 * 1024
"""Of requests that the engine has to get later. Of more than that, the oldest stay at this replica alone."""
_MISSED_SECONDS = 2.0
_PUBLISHERS = 2
_STOP_SECONDS = 5.0
_ROOM_SECONDS = 10.0
_SETTLE_SECONDS = 3.0
_PAUSE_SECONDS = 60.0
"""How long a stream that cannot be made is not tried again."""
_FAST = 1


@dataclass(frozen=True)
class _Request:
    owner: Owner
    content_type: str
    body: bytes
    spans: Sequence[Span]


class SpanReader:
    """The store of spans, as a store of streams (StreamStore)."""

    name = "traces"

    def __init__(self, store: TraceStore) -> None:
        self._store = store
        self.begin = store.begin

    def take(self, organisation: str, messages: Sequence[StoredMessage]) -> None:
        """Hands spans to the store as fast as it writes; how far that is it keeps together with them."""
        for message in messages:
            owner = _owner(organisation, message.subject)
            spans = _spans(message) if owner is not None else []
            if owner is not None and spans:
                self._store.put(owner, spans, seconds=_ROOM_SECONDS)
        self._store.reached(organisation, messages[-1].sequence)

    def skip(self, organisation: str, message: StoredMessage) -> None:
        """Goes on after a message that cannot be taken."""
        self._store.dropped["malformed"] += 1
        self._store.reached(organisation, message.sequence)

    def forget(self, organisation: str) -> None:
        """Spans have their own time."""

    def sweep(self, organisation: str, first: int) -> None:
        """Spans have their own time."""

    def bound(self) -> None:
        """The store keeps within its bounds by itself."""

    def close(self) -> None:
        """Whoever has started the store stops it."""

    def failed(self) -> None:
        """The store counts by itself what it drops."""


class SpanStream:
    """Publishes spans in the background, and follows what all replicas publish."""

    def __init__(
        self, engine: Engine, store: TraceStore, *, days: float, serves: Callable[[str], bool]
    ) -> None:
        self._engine = engine
        self._store = store
        self._age = timedelta(days=days)
        self._followers = Followers(engine, SpanReader(store), prefix=PREFIX, serves=serves)
        self._waiting: deque[_Request] = deque()
        self._bytes = 0
        self._missed: deque[_Request] = deque()
        self._missed_bytes = 0
        self._busy = 0
        self._changed = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._refused: dict[str, float] = {}

    async def start(self) -> None:
        """Begins to publish and to follow."""
        await self._followers.start()
        self._tasks = [
            asyncio.create_task(self._publish_periodically(), name="publish spans")
            for _ in range(_PUBLISHERS)
        ]
        self._tasks.append(asyncio.create_task(self._publish_missed_periodically(), name="publish old spans"))

    async def stop(self) -> None:
        """Publishes what waits, for a few seconds; what is left goes to the own store."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_SECONDS), self._changed:
                await self._changed.wait_for(
                    lambda: not (self._waiting or self._busy) or not self._engine.connected
                )
        await cancel_and_wait(*self._tasks)
        while self._waiting:
            self._keep(self._waiting.popleft())
        await self._followers.stop()

    async def offer(self, owner: Owner, content_type: str, body: bytes, spans: Sequence[Span]) -> bool:
        """Takes spans to publish them; False when the own store has to take them."""
        if not self._engine.connected or self._bytes + len(body) > _MAX_QUEUED_BYTES or not self._tasks:
            self._miss(_Request(owner, content_type, body, ()))
            return False
        async with self._changed:
            self._waiting.append(_Request(owner, content_type, body, spans))
            self._bytes += len(body)
            self._changed.notify_all()
        return True

    @property
    def queued(self) -> int:
        """Spans that wait to be published."""
        return sum(len(request.spans) for request in self._waiting)

    @property
    def stalled(self) -> int:
        """Organisations whose spans cannot be read further."""
        return self._followers.stalled

    async def settle(self, organisation: str) -> None:
        """Waits a moment until this replica has read what there was of an organisation when it started."""
        with suppress(ApiError, TimeoutError):
            async with asyncio.timeout(_SETTLE_SECONDS):
                if await self._followers.catches_up(organisation):
                    await asyncio.to_thread(self._store.flush, _SETTLE_SECONDS)

    async def _publish_periodically(self) -> None:
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self._waiting)
                request = self._waiting.popleft()
                self._busy += 1
            try:
                await self._publish(request)
            except asyncio.CancelledError:
                self._keep(request)
                raise
            except (ApiError, NotFoundError):
                self._keep(request)
                while self._waiting:
                    other = self._waiting.popleft()
                    self._bytes -= len(other.body)
                    self._keep(other)
            finally:
                self._busy -= 1
                self._bytes -= len(request.body)
            async with self._changed:
                self._changed.notify_all()

    async def _publish(self, request: _Request) -> None:
        owner = request.owner
        content = await asyncio.to_thread(zlib.compress, request.body, _FAST)
        subject = f"{PREFIX}.{owner.organisation}.{owner.project}.{owner.environment}"
        headers = {_CONTENT_TYPE: request.content_type}
        try:
            await self._engine.ask(lambda jetstream: jetstream.publish(subject, content, headers=headers))
        except NoStreamError:
            await self._make_stream(owner.organisation)
            await self._engine.ask(lambda jetstream: jetstream.publish(subject, content, headers=headers))
        self._followers.follow(owner.organisation)

    async def _make_stream(self, organisation: str) -> None:
        """Makes the organisation's stream, with as many copies as its history has."""
        now = asyncio.get_running_loop().time()
        if self._refused.get(organisation, 0.0) > now:
            raise EngineUnavailableError
        config = StreamConfig(
            name=f"{PREFIX}_{organisation}",
            subjects=[f"{PREFIX}.{organisation}.>"],
            retention=RetentionPolicy.LIMITS,
            discard=DiscardPolicy.OLD,
            max_bytes=STREAM_BYTES,
            max_age=self._age.total_seconds(),
        )

        async def make(jetstream: JetStreamContext) -> None:
            replicas = 1
            with suppress(NotFoundError):
                info = await jetstream.stream_info(history_stream(organisation))
                replicas = info.config.num_replicas or 1
            await ensure_stream(jetstream, config, StreamLimits(replicas=replicas))

        try:
            await self._engine.ask(make)
        except (EngineFullError, EngineUnavailableError):
            logger.warning("Cannot make the stream of spans of %s: this replica keeps its own", organisation)
            self._refused[organisation] = now + _PAUSE_SECONDS
            raise

    def _keep(self, request: _Request) -> None:
        """The own store takes what the engine does not, which gets it later."""
        self._store.offer(request.owner, request.spans)
        self._miss(replace(request, spans=()))

    def _miss(self, request: _Request) -> None:
        self._missed.append(request)
        self._missed_bytes += len(request.body)
        while self._missed_bytes > _MAX_MISSED_BYTES:
            self._missed_bytes -= len(self._missed.popleft().body)

    async def _publish_missed_periodically(self) -> None:
        """Publishes what the engine did not get. The own store has it already, and takes no span twice."""
        while True:
            await asyncio.sleep(jitter(_MISSED_SECONDS))
            while self._missed and self._engine.connected and not self._waiting:
                request = self._missed[0]
                try:
                    await self._publish(request)
                except (ApiError, NotFoundError):
                    break
                if self._missed and self._missed[0] is request:
                    self._missed.popleft()
                    self._missed_bytes -= len(request.body)


def _owner(organisation: str, subject: str) -> Owner | None:
    match subject.split("."):
        case [_, owner, project, environment] if owner == organisation:
            if parse_id(project) == project and parse_id(environment) == environment:
                return Owner(organisation=organisation, project=project, environment=environment)
    return None


def _spans(message: StoredMessage) -> list[Span]:
    try:
        body = zlib.decompressobj().decompress(message.data, _MAX_BODY)
        return otlp.parse(message.headers.get(_CONTENT_TYPE, ""), body).spans
    except (zlib.error, OtlpDecodeError, TooManySpansError):
        return []
