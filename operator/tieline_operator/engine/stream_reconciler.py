"""Keeps the streams of the event engine: makes those that are missing, and deletes those of what is gone."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tieline_core.engine.streams import StreamLimits, StreamOwner, ensure_environment, ensure_history
from tieline_core.kubernetes import Change
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of
from tieline_operator.engine.desired_streams import (
    KnownStreams,
    StreamKey,
    environments,
    organisation_of,
    stream_keys,
    streams_of,
)
from tieline_operator.engine.stream_list import StreamFacts, count_dead_letters, list_streams
from tieline_operator.queues.clock import Clock
from tieline_operator.queues.workqueue import WorkQueue
from tieline_protocol.event_streams import EventStreams, history_stream

logger = logging.getLogger(__name__)

WORKERS = 8
GONE_SECONDS = 3600.0
"""How long an environment must have been gone until its streams are deleted."""
_ENSURE_SECONDS = 30.0
_REQUEST_SECONDS = 10.0
_MAX_COUNTS = 200
"""Environments whose dead letters are counted in one survey."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentReading:
    """What an environment has in the engine."""

    queued: int
    """Messages in its queue: events, and a token for each key that has some."""
    waiting: int
    """Events that wait for a time."""
    dead_letters: int
    oldest: datetime | None
    """When the first message in its queue was stored."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the last look at all streams has found."""

    environments: Mapping[StreamKey, EnvironmentReading] = field(default_factory=dict)
    streams: int = 0
    """Of this installation."""
    missing: int = 0
    foreign: int = 0
    """Streams of the account that belong to nobody or to other installations."""


class StreamReconciler:
    """Reconciles streams while there is a connection; a new connection verifies all of them."""

    def __init__(
        self,
        listers: Listers,
        limits: StreamLimits,
        *,
        client: Callable[[], Client | None],
        release: Callable[[], str],
        namespaces: Sequence[str] = (),
        healthy: Callable[[], bool] = lambda: True,
        now: Callable[[], float] = time.monotonic,
        clock: Clock | None = None,
    ) -> None:
        """``release`` marks streams as ours. ``namespaces`` are those that are served: none means all.

        ``healthy``: whether the caches follow the cluster; while they do not, nothing is deleted.
        """
        self._listers = listers
        self._limits = limits
        self._client = client
        self._release = release
        self._namespaces = frozenset(namespaces)
        self._healthy = healthy
        self._now = now
        self.queue: WorkQueue[StreamKey] = WorkQueue(self._reconcile, workers=WORKERS, clock=clock)
        self._failures: dict[StreamKey, str] = {}
        self._gone: dict[str, float] = {}
        """When a stream was first seen without an environment, by name."""
        self._dead: dict[str, tuple[tuple[int, int], int]] = {}
        """Dead letters by stream, with the revision of the stream in which they were counted."""
        self._survey_problem = ""
        self.survey_result = Survey()

    @property
    def failed(self) -> int:
        """How many environments and organisations the engine refuses streams."""
        return len(self._failures)

    def changed(self, change: Change) -> None:
        """The credentials of an environment were written or deleted."""
        if change.new is not None:
            namespace = namespace_of(change.new)
            self.queue.add(StreamKey(namespace))
            self.queue.add(StreamKey(namespace, change.new["metadata"]["name"]))

    def verify_all(self) -> None:
        """Verifies all streams, as the engine may have lost some."""
        for key in stream_keys(self._listers):
            self.queue.add(key)

    # --- making -----------------------------------------------------------------------------------------

    async def _reconcile(self, key: StreamKey) -> None:
        client = self._client()
        if client is None:
            return  # the next connection verifies all
        try:
            async with asyncio.timeout(_ENSURE_SECONDS):
                await self._ensure(client, key)
        except Exception as error:
            self._log_failure(key, error)
            raise
        if self._failures.pop(key, None):
            logger.info("The event engine has the streams again", extra=_extra(key))

    async def _ensure(self, client: Client, key: StreamKey) -> None:
        organisation = organisation_of(self._listers, key.namespace)
        if organisation is None:
            return
        owner = StreamOwner(release=self._release(), organisation=organisation, namespace=key.namespace)
        jetstream = client.jetstream(timeout=_REQUEST_SECONDS)
        if not key.secret:
            await ensure_history(jetstream, organisation, self._limits, owner)
        elif (streams := streams_of(self._listers, key)) is not None:
            await ensure_environment(jetstream, streams, self._limits, owner)

    def _log_failure(self, key: StreamKey, error: Exception) -> None:
        problem = str(error) or type(error).__name__
        # A full engine refuses all environments, each time: one line each is enough.
        level = logging.DEBUG if self._failures.get(key) == problem else logging.WARNING
        self._failures[key] = problem
        logger.log(level, "The event engine refuses streams, trying again: %s", problem, extra=_extra(key))

    # --- surveying --------------------------------------------------------------------------------------

    async def survey(self) -> None:
        """Lists all streams: repairs what is missing, deletes what is gone, and remembers what is in them."""
        client = self._client()
        if client is None:
            return
        try:
            found = await list_streams(client)
            ours = {one.name: one for one in found if one.owner and one.owner.release == self._release()}
            missing = self._repair(ours)
            self._forget_failures()
            await self._collect_garbage(client, ours)
            readings = await self._readings(client, ours)
        except Exception as error:
            problem = str(error) or type(error).__name__
            level = logging.DEBUG if problem == self._survey_problem else logging.WARNING
            logger.log(level, "The streams of the event engine cannot be listed: %s", problem)
            self._survey_problem = problem
            return
        self._survey_problem = ""
        self.survey_result = Survey(
            environments=readings, streams=len(ours), missing=missing, foreign=len(found) - len(ours)
        )

    def _repair(self, ours: Mapping[str, StreamFacts]) -> int:
        missing = 0
        for key in stream_keys(self._listers):
            organisation = organisation_of(self._listers, key.namespace)
            if organisation is None:
                continue
            streams = streams_of(self._listers, key) if key.secret else None
            names = streams.names if streams else () if key.secret else (history_stream(organisation),)
            lost = [name for name in names if name not in ours]
            missing += len(lost)
            consumed = (streams.queue, streams.later) if streams else ()
            if lost or any(ours[name].consumers == 0 for name in consumed):
                self.queue.add(key)
        return missing

    def _forget_failures(self) -> None:
        present = set(stream_keys(self._listers))
        for key in self._failures.keys() - present:
            del self._failures[key]

    async def _collect_garbage(self, client: Client, ours: Mapping[str, StreamFacts]) -> None:
        """Deletes the streams of environments and organisations that have been gone for an hour."""
        if not self._healthy():
            return
        known, now = KnownStreams(self._listers), self._now()
        gone = {
            name
            for name, stream in ours.items()
            if stream.owner
            and (not self._namespaces or stream.owner.namespace in self._namespaces)
            and stream not in known
        }
        self._gone = {name: self._gone.get(name, now) for name in gone}
        for name in sorted(name for name, since in self._gone.items() if now - since >= GONE_SECONDS):
            try:
                await client.jetstream(timeout=_REQUEST_SECONDS).delete_stream(name)
            except NotFoundError:
                continue
            logger.info("Deleted a stream whose environment is gone", extra={"stream": name})

    async def _readings(
        self, client: Client, ours: Mapping[str, StreamFacts]
    ) -> dict[StreamKey, EnvironmentReading]:
        present = {
            key: streams
            for key, streams in environments(self._listers).items()
            if all(name in ours for name in streams.names)
        }
        await self._count_dead_letters(client, present.values(), ours)
        return {
            key: EnvironmentReading(
                queued=ours[streams.queue].messages,
                waiting=ours[streams.later].messages,
                dead_letters=self._dead.get(streams.runs, ((0, 0), 0))[1],
                oldest=ours[streams.queue].oldest,
            )
            for key, streams in present.items()
        }

    async def _count_dead_letters(
        self, client: Client, present: Iterable[EventStreams], ours: Mapping[str, StreamFacts]
    ) -> None:
        """Counts them where a stream has other messages than at the last count."""
        counted, limit = {}, asyncio.Semaphore(WORKERS)
        stale: list[EventStreams] = []
        for streams in present:
            facts, last = ours[streams.runs], self._dead.get(streams.runs)
            if facts.messages == 0:
                counted[streams.runs] = (facts.revision, 0)
            elif last is not None and last[0] == facts.revision:
                counted[streams.runs] = last
            else:
                stale.append(streams)
                if last is not None:
                    counted[streams.runs] = last

        async def count(streams: EventStreams) -> None:
            async with limit:
                found = await count_dead_letters(client, streams)
            counted[streams.runs] = (ours[streams.runs].revision, found)

        # Those that were never counted come first.
        stale.sort(key=lambda streams: streams.runs in counted)
        await asyncio.gather(*(count(streams) for streams in stale[:_MAX_COUNTS]))
        self._dead = counted


def age(moment: datetime | None) -> float:
    """Seconds since a moment; 0 where there is none."""
    return max(0.0, (datetime.now(UTC) - moment).total_seconds()) if moment else 0.0


def _extra(key: StreamKey) -> dict[str, str]:
    return {"namespace": key.namespace, "secret": key.secret}
