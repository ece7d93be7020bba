"""Counts the runs of environments that have notifications, from the run history, once a minute.

Runs that have ended count, direct ones among them. Calls of agents do not: they say nothing about the code.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import nats.errors
from cachetools import LRUCache
from nats.aio.client import Client
from nats.js.errors import NotFoundError

from tieline_core.engine.stored_messages import ReadLimits, StoredMessage, read_subject
from tieline_core.engine.trust import AccountSigner, EngineTrust
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.kubernetes.resources import NOTIFICATIONS, PROJECTS
from tieline_core.resources.notifications import NotificationEvent
from tieline_core.resources.parsed_cache import PROJECT
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import namespace_of, ref
from tieline_operator.cache.organisations import organisation_of
from tieline_operator.queues.organisation_turns import OrganisationTurns
from tieline_operator.reconcilers.notification.detection import (
    POLL_SECONDS,
    WINDOW_MINUTES,
    DeadRun,
    RunCounts,
)
from tieline_protocol.event_streams import EventStreams, direct_stream, history_stream
from tieline_protocol.events import EventMetadata, InvalidEventError
from tieline_protocol.run_records import ENDED, InvalidRecordsError, RunRecord, decode, unpacked

logger = logging.getLogger(__name__)

STALE_SECONDS = 240.0
"""After this long without an answer of the engine, nothing is known."""
MAX_RUNS = 20_000
"""Runs of an environment that are distinguished; of more the last ones count."""
LIMITS = ReadLimits(messages=20_000, bytes=32 << 20)
"""Of an environment in one poll. The next polls read what is beyond it."""
_ORGANISATION_SECONDS = 15.0
_TOTAL_SECONDS = 45.0
_OLDER_SECONDS = 5.0
"""For the older dead letters of an organisation."""
_MAX_TEXT = 200
_FAILED = frozenset({"failed", "dead"})
_OF_RUNS = frozenset({NotificationEvent.FAILURE_RATE, NotificationEvent.RUN_DEAD})
"""Events that need the run history."""
_WINDOW = timedelta(minutes=WINDOW_MINUTES)


@dataclass(frozen=True)
class _Ended:
    rank: tuple[int, int, int]
    at: datetime
    failed: bool
    dead: DeadRun | None


@dataclass(frozen=True)
class _Older:
    """The newest dead letter of an environment, when it had so many."""

    dead_letters: int
    run: DeadRun | None


@dataclass
class EnvironmentRuns:
    """The ended runs of an environment within the window: direct runs, or all others."""

    direct: bool = False
    runs: LRUCache[str, _Ended] = field(default_factory=lambda: LRUCache(MAX_RUNS))
    last: int = 0
    """The number of the last message that was read; 0 before the first."""
    read_until: datetime | None = None
    """When that message was stored."""

    def start(self, now: datetime) -> int | datetime:
        """From where on the history is to be read: what is older than the window does not count."""
        begin = now - _WINDOW
        behind = self.read_until is None or self.read_until < begin
        return begin if behind else self.last + 1

    async def add(self, messages: Sequence[StoredMessage]) -> None:
        """Takes messages of the history. They are decoded in a thread, since pods may write large ones."""
        for run, ended in (await asyncio.to_thread(_ended_runs, messages, self.direct)).items():
            known = self.runs.get(run)
            if known is None or ended.rank >= known.rank:
                self.runs[run] = ended
        self.last, self.read_until = messages[-1].sequence, _stored_at(messages[-1])

    def counts(self, now: datetime) -> RunCounts:
        """What ended within the window; forgets what ended before it."""
        for run in [name for name, one in self.runs.items() if now - one.at > _WINDOW]:
            del self.runs[run]
        dead = max((one for one in self.runs.values() if one.dead), key=lambda one: one.at, default=None)
        return RunCounts(
            ended=len(self.runs),
            failed=sum(one.failed for one in self.runs.values()),
            last_dead=dead.dead if dead else None,
        )


def _dead(record: RunRecord) -> DeadRun | None:
    """A dead run whose dead letter is still there."""
    if record.status != "dead" or record.discarded_at is not None:
        return None
    error = _text(record.error.type, _MAX_TEXT) if record.error else "no error was recorded"
    return DeadRun(id=record.id, task=_text(record.task, _MAX_TEXT), error=error)


def _text(value: object, longest: int) -> str:
    """Pods may write long texts, and other values in their place."""
    return value[:longest] if isinstance(value, str) else "?"


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
        """``trust`` has the engine's keys, None while they are not known. ``open_account`` is of any account."""
        self._listers = listers
        self._trust = trust
        self._open = open_account
        self._now = now
        self._clock = clock
        self._environments: dict[EventStreams, tuple[EnvironmentRuns, EnvironmentRuns]] = {}
        """Direct runs are apart, so that their number displaces no others."""
        self._polled: dict[EventStreams, float] = {}
        self._dead_letters: dict[EventStreams, int] = {}
        """How many dead letters environments have, where they have any."""
        self._older: dict[EventStreams, _Older] = {}
        """Of environments with dead letters, but none of the window."""
        self._older_failed: set[EventStreams] = set()
        self._turns = OrganisationTurns(
            "Runs cannot be counted", seconds=_ORGANISATION_SECONDS, total_seconds=_TOTAL_SECONDS, clock=clock
        )
        self._problem = ""

    @property
    def stalled(self) -> int:
        """Organisations whose history cannot be read."""
        return self._turns.stalled

    def counts(self, namespace: str, environment_id: str) -> RunCounts | None:
        """See ``Runs``."""
        organisation = organisation_of(self._listers, namespace)
        if organisation is None:
            return None
        streams = EventStreams(organisation, environment_id)
        found = self._environments.get(streams)
        if found is None or self._clock() - self._polled.get(streams, float("-inf")) > STALE_SECONDS:
            return None
        others, direct = (runs.counts(self._now()) for runs in found)
        older = self._older.get(streams)
        return replace(
            others,
            ended=others.ended + direct.ended,
            failed=others.failed + direct.failed,
            last_dead=others.last_dead or (older.run if older else None),
        )

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
            async with self._open(trust.users) as client:
                await self._turns.take(
                    wanted,
                    lambda name: self._read(client, trust, wanted[name]),
                    usable=lambda: client.is_connected,
                )
        except Exception as error:
            problem = str(error) or type(error).__name__
            level = logging.DEBUG if problem == self._problem else logging.WARNING
            logger.log(level, "Runs cannot be counted, trying again: %s", problem)
            self._problem = problem
        else:
            self._problem = ""

    def _wanted(self) -> Mapping[str, Sequence[EventStreams]]:
        wanted: dict[str, dict[EventStreams, None]] = {}
        self._dead_letters = {}
        for notification in self._listers[NOTIFICATIONS].list():
            project = self._project(notification)
            streams = self._streams(notification, project) if project else None
            if project is not None and streams is not None:
                wanted.setdefault(streams.organisation, {})[streams] = None
                if number := _dead_letters(project, notification["spec"]["environment"]):
                    self._dead_letters[streams] = number
        return {name: list(streams) for name, streams in wanted.items()}

    def _project(self, notification: Object) -> Object | None:
        name = ref(notification, "projectRef")
        return self._listers[PROJECTS].get(namespace_of(notification), name) if name else None

    def _streams(self, notification: Object, project: Object) -> EventStreams | None:
        spec = notification["spec"]
        organisation = organisation_of(self._listers, namespace_of(notification))
        if not _OF_RUNS & set(spec.get("events") or _OF_RUNS) or organisation is None:
            return None
        return EventStreams(organisation, environment_id(object_id(project), spec["environment"]))

    def _forget(self, wanted: Mapping[str, Sequence[EventStreams]]) -> None:
        kept = {streams for environments in wanted.values() for streams in environments}
        for streams in self._environments.keys() - kept:
            del self._environments[streams]
            self._polled.pop(streams, None)
            self._older.pop(streams, None)
            self._older_failed.discard(streams)

    async def _read(self, client: Client, trust: EngineTrust, environments: Sequence[EventStreams]) -> None:
        """Reads what is new of an organisation's environments. Raises the first error once it has tried them all."""
        failed: Exception | None = None
        was_read = []
        for streams in sorted(environments, key=lambda one: self._polled.get(one, float("-inf"))):
            try:
                await self._read_environment(client, streams)
                was_read.append(streams)
            except Exception as error:
                failed = failed or error
        with suppress(TimeoutError):  # the history counts all the same, and the next poll goes on
            async with asyncio.timeout(_OLDER_SECONDS):
                for streams in was_read:
                    await self._read_older(trust, streams)
        if failed is not None:
            raise failed

    async def _read_environment(self, client: Client, streams: EventStreams) -> None:
        """Reads what is new of an environment; all of the window where it is new. What comes before an error counts."""
        kinds = self._environments.setdefault(streams, (EnvironmentRuns(), EnvironmentRuns(direct=True)))
        for runs in kinds:
            stream, subject = history_stream(streams.organisation), streams.history
            if runs.direct:
                stream, subject = direct_stream(streams.organisation), streams.direct
            pages = read_subject(client, stream, subject, start=runs.start(self._now()), limits=LIMITS)
            with suppress(nats.errors.NoRespondersError):  # nothing of the organisation has run yet
                async for page in pages:
                    await runs.add(page)
        self._polled[streams] = self._clock()

    async def _read_older(self, trust: EngineTrust, streams: EventStreams) -> None:
        """Reads the newest dead letter of an environment whose dead letters are older than the window.

        It is read once, and again when there are more or fewer, or when its run has ended again or was discarded: the
        number is a power of ten. Each read takes a connection of its own.
        """
        others, _ = self._environments[streams]
        number, known = self._dead_letters.get(streams, 0), self._older.get(streams)
        if known and known.dead_letters == number and not (known.run and known.run.id in others.runs):
            return
        self._older.pop(streams, None)
        if number and not others.counts(self._now()).last_dead:
            await self._read_newest(trust, streams, number)

    async def _read_newest(self, trust: EngineTrust, streams: EventStreams, number: int) -> None:
        """Logs errors: what the history says counts without it."""
        try:
            async with self._open(trust.users.of_environment(streams)) as client:
                self._older[streams] = _Older(number, await _newest_dead_letter(client, streams))
        except Exception as error:
            logger.log(
                logging.DEBUG if streams in self._older_failed else logging.WARNING,
                "The newest dead letter cannot be read, trying again: %s",
                str(error) or type(error).__name__,
                extra={"organisation": streams.organisation},
            )
            self._older_failed.add(streams)
        else:
            self._older_failed.discard(streams)


def _dead_letters(project: Object, environment: str) -> int:
    """How many dead letters an environment has, as the status of its project says."""
    statuses = PROJECT.of(project).status.environments
    return next((one.dead_letters for one in statuses if one.name == environment), 0)


async def _newest_dead_letter(client: Client, streams: EventStreams) -> DeadRun | None:
    """The newest dead letter. Raises the errors of nats-py."""
    try:
        message = await client.jetstream(timeout=LIMITS.seconds).get_last_msg(
            streams.dead_letters, streams.dead("*")
        )
        metadata = EventMetadata.parse(message.headers)
    except (NotFoundError, InvalidEventError):
        return None
    return DeadRun(
        id=_text(metadata.run, _MAX_TEXT),
        task=_text(metadata.task, _MAX_TEXT),
        error=_text(metadata.failure_type or "no error was recorded", _MAX_TEXT),
    )


def _ended_runs(messages: Sequence[StoredMessage], direct: bool) -> dict[str, _Ended]:
    """The runs that have ended, with the engine's time: pods may write any. At most the last MAX_RUNS of them."""
    found: LRUCache[str, _Ended] = LRUCache(MAX_RUNS)
    for message in messages:
        try:
            records = decode(unpacked(message.data) if direct else message.data)
        except InvalidRecordsError:
            continue
        at = _stored_at(message)
        for record in records:
            if len(record.id) > _MAX_TEXT:
                continue  # no id of a run: it would be kept as long as the window
            known = found.get(record.id)
            if record.status in ENDED and (known is None or record.rank >= known.rank):
                found[record.id] = _Ended(record.rank, at, record.status in _FAILED, _dead(record))
    return dict(found)


def _stored_at(message: StoredMessage) -> datetime:
    return datetime.fromtimestamp(message.stored_at or 0.0, UTC)
