"""Counts the runs of environments that have notifications, from the run history, once a minute.

Only ended runs in the history count. A direct webhook or schedule is in it where its input is kept
(``settings.keepInputs``).
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import nats.errors
from cachetools import LRUCache
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.kubernetes.resources import NAMESPACES, NOTIFICATIONS, PROJECTS
from tieline_core.resources.notifications import NotificationEvent
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of, ref
from tieline_operator.cache.organisations import organisation
from tieline_operator.reconcilers.notification.detection import WINDOW_MINUTES, RunCounts
from tieline_protocol.event_streams import EventStreams, history_stream
from tieline_protocol.run_records import ENDED, InvalidRecordsError, decode

logger = logging.getLogger(__name__)

POLL_SECONDS = 60.0
STALE_SECONDS = 240.0
"""After this long without an answer of the engine, nothing is known."""
MAX_RUNS = 20_000
"""Runs of an environment that are told apart; of more the last ones count."""
_MAX_MESSAGES = 20_000
_TOTAL_SECONDS = 45.0
_BATCH = 256
_FETCH_SECONDS = 5.0
_UNUSED_SECONDS = 30.0
_MAX_SUBJECTS = 100
_FAILED = frozenset({"failed", "dead"})
_WINDOW = timedelta(minutes=WINDOW_MINUTES)


@dataclass(frozen=True)
class _Ended:
    rank: tuple[int, int, int]
    at: datetime
    failed: bool


@dataclass(frozen=True)
class _History:
    """JetStream of the platform's account: messages do not come by the prefix by which consumers are managed."""

    reading: JetStreamContext
    managing: JetStreamContext


@dataclass
class EnvironmentRuns:
    """The ended runs of an environment within the window."""

    runs: LRUCache[str, _Ended] = field(default_factory=lambda: LRUCache(MAX_RUNS))

    def add(self, content: bytes, at: datetime) -> None:
        """Takes a message of the history. ``at`` is the engine's time: pods may write any."""
        try:
            records = decode(content)
        except InvalidRecordsError:
            return
        for record in records:
            known = self.runs.get(record.id)
            if record.status in ENDED and (known is None or record.rank >= known.rank):
                self.runs[record.id] = _Ended(record.rank, at, record.status in _FAILED)

    def counts(self, now: datetime) -> RunCounts:
        """What ended within the window; forgets what ended before it."""
        for run in [name for name, one in self.runs.items() if now - one.at > _WINDOW]:
            del self.runs[run]
        return RunCounts(ended=len(self.runs), failed=sum(one.failed for one in self.runs.values()))


class RunHistoryCounts:
    """The ``Runs`` of the leader."""

    def __init__(
        self,
        listers: Listers,
        *,
        trust: Callable[[], EngineTrust | None],
        open_account: Callable[[AccountSigner], AbstractAsyncContextManager[Client]],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``trust`` has the engine's keys, None while they are not known."""
        self._listers = listers
        self._trust = trust
        self._open = open_account
        self._now = now
        self._clock = clock
        self._environments: dict[EventStreams, EnvironmentRuns] = {}
        self._polled: dict[str, float] = {}
        self._after: dict[str, int] = {}
        """The last message that was read, by organisation."""
        self._problem = ""

    def counts(self, namespace: str, environment_id: str) -> RunCounts | None:
        """See ``Runs``."""
        claim = organisation(self._listers[NAMESPACES], namespace)
        found = self._environments.get(EventStreams(claim.id, environment_id)) if claim else None
        if claim is None or found is None:
            return None
        if self._clock() - self._polled.get(claim.id, float("-inf")) > STALE_SECONDS:
            return None
        return found.counts(self._now())

    async def run(self) -> None:
        """Polls, for ever."""
        while True:
            await self.poll()
            await asyncio.sleep(POLL_SECONDS)

    async def poll(self) -> None:
        """Reads what is new in the histories of organisations that have notifications about failures."""
        wanted = self._wanted()
        self._forget(wanted)
        trust = self._trust()
        if not wanted or trust is None:
            return
        try:
            async with asyncio.timeout(_TOTAL_SECONDS), self._open(trust.users) as client:
                history = _History(
                    client.jetstream(timeout=_FETCH_SECONDS),
                    client.jetstream(prefix=trust.management_prefix, timeout=_FETCH_SECONDS),
                )
                for name, environments in wanted.items():
                    await self._read(history, name, environments)
        except Exception as error:
            problem = str(error) or type(error).__name__
            level = logging.DEBUG if problem == self._problem else logging.WARNING
            logger.log(level, "Runs cannot be counted, trying again: %s", problem)
            self._problem = problem
        else:
            self._problem = ""

    def _wanted(self) -> Mapping[str, Sequence[EventStreams]]:
        wanted: dict[str, dict[EventStreams, None]] = {}
        for notification in self._listers[NOTIFICATIONS].list():
            streams = self._streams(notification)
            if streams is not None:
                wanted.setdefault(streams.organisation, {})[streams] = None
        return {name: list(streams) for name, streams in wanted.items()}

    def _streams(self, notification: Object) -> EventStreams | None:
        spec = notification["spec"]
        events = spec.get("events") or (NotificationEvent.FAILURE_RATE,)
        namespace, project = namespace_of(notification), ref(notification, "projectRef")
        found = self._listers[PROJECTS].get(namespace, project) if project else None
        claim = organisation(self._listers[NAMESPACES], namespace)
        if NotificationEvent.FAILURE_RATE not in events or found is None or claim is None or claim.older:
            return None
        return EventStreams(claim.id, environment_id(object_id(found), spec["environment"]))

    def _forget(self, wanted: Mapping[str, Sequence[EventStreams]]) -> None:
        kept = {streams for environments in wanted.values() for streams in environments}
        for streams in self._environments.keys() - kept:
            del self._environments[streams]
        for name in self._after.keys() - wanted.keys():
            del self._after[name]

    async def _read(self, history: _History, name: str, environments: Sequence[EventStreams]) -> None:
        """Reads what is new of an organisation; all of the window where an environment is new."""
        new = [streams for streams in environments if streams not in self._environments]
        after = None if new else self._after.get(name)
        runs = {
            streams.history: self._environments.get(streams, EnvironmentRuns()) for streams in environments
        }
        last = after or 0
        for subjects in _chunks(list(runs)):
            async for message in self._messages(history, name, subjects, after):
                sequence = message.metadata.sequence
                last = max(last, sequence.stream if sequence else 0)
                if message.subject in runs:
                    runs[message.subject].add(message.data, message.metadata.timestamp)
        self._environments |= {streams: runs[streams.history] for streams in environments}
        self._after[name] = last
        self._polled[name] = self._clock()

    async def _messages(
        self, history: _History, name: str, subjects: Sequence[str], after: int | None
    ) -> AsyncIterator[Msg]:
        stream = history_stream(name)
        try:
            consumer = await history.managing.add_consumer(stream, self._consumer(subjects, after))
        except NotFoundError:
            return  # nothing of the organisation has run yet
        subscription = await history.reading.pull_subscribe_bind(consumer=consumer.name, stream=stream)
        left = min(int(consumer.num_pending or 0), _MAX_MESSAGES)
        try:
            while left > 0:
                found = await subscription.fetch(min(_BATCH, left), timeout=_FETCH_SECONDS)
                left -= len(found)
                for message in found:
                    yield message
        except nats.errors.TimeoutError:
            pass  # some were dropped from the stream meanwhile
        finally:
            with suppress(nats.errors.Error, NotFoundError, OSError):
                await subscription.unsubscribe()
                await history.managing.delete_consumer(stream, consumer.name)

    def _consumer(self, subjects: Sequence[str], after: int | None) -> ConsumerConfig:
        start = self._now() - _WINDOW
        return ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE if after else DeliverPolicy.BY_START_TIME,
            opt_start_seq=after + 1 if after else None,
            opt_start_time=None if after else start,
            filter_subjects=list(subjects),
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_UNUSED_SECONDS,
            mem_storage=True,
            num_replicas=1,
        )


def _chunks(subjects: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(subjects), _MAX_SUBJECTS):
        yield subjects[start : start + _MAX_SUBJECTS]
