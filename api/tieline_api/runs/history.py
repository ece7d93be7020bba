"""All runs of an organisation, as pods and the API report them to the engine."""

import asyncio
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from tieline_api import errors
from tieline_api.engine.connection import Engine
from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.runs.backlog import Waiting
from tieline_api.runs.ended_steps import EndedSteps
from tieline_api.runs.index import RunIndex
from tieline_api.runs.issues import Issue, IssueFilter, IssuePageRequest, VersionAge
from tieline_api.runs.model import BEFORE_ALL, Attempt, AttemptPage, PageRequest, Run, RunFilter
from tieline_api.runs.reading import RunFollowers
from tieline_api.runs.records import checked
from tieline_api.runs.release_tally import ReleaseTally
from tieline_api.runs.tally import Tally, Windows
from tieline_api.sqlite_files import TooSlowError
from tieline_core.engine.stored_messages import StoredMessage
from tieline_protocol import kept_results
from tieline_protocol.event_streams import MAX_EVENT_BYTES, EventStreams, direct_stream, history_stream
from tieline_protocol.events import EventMetadata, InvalidEventError, WebhookRequest
from tieline_protocol.run_records import InvalidRecordsError, RunRecord, decode, encode, unpacked

T = TypeVar("T")

_BULK = 2
COUNTED = 10_000
"""Runs of a list are counted so far."""
MAX_ATTEMPTS = 100
"""Of a run, in the answer about it."""
MAX_STEPS = 1000
"""Of all these attempts together."""
_AWAY = "The event engine cannot be reached: runs and changes since then are missing"
_STALLED = "The run history cannot be read further at the moment: newer runs and changes are missing"
_UNDECIDED = "Decisions about issues cannot be read further at the moment: newer ones are missing"


@dataclass(frozen=True)
class RunPage:
    """A part of a list, newest first, and whether there are runs on either side of it."""

    runs: list[Run]
    total: int
    newer: bool
    older: bool


@dataclass(frozen=True)
class IssuePage:
    """A part of a list, the latest seen first, and whether there are issues on either side of it."""

    issues: list[Issue]
    total: int
    newer: bool
    older: bool


@dataclass(frozen=True)
class RunInput:
    """What a run was given."""

    payload: bytes
    request: WebhookRequest | None
    """Of a webhook, beside its body."""
    recorded: bool = False
    """Whether the history has it, rather than a message that goes when the run has ended or was run again."""


class RunHistory:
    """Runs of organisations. Methods raise ApiError."""

    def __init__(
        self,
        engine: Engine,
        environments: EnvironmentEngines,
        index: RunIndex,
        followers: RunFollowers,
    ) -> None:
        self._engine = engine
        self._environments = environments
        self._index = index
        self._followers = followers
        self.bulk = asyncio.Semaphore(_BULK)
        """Held by requests that act on many runs, which have all of them in memory."""

    def warnings(self, organisation: str) -> tuple[str, ...]:
        """What readers have to know about answers of this moment."""
        if not self._engine.connected:
            return (_AWAY,)
        return (_STALLED,) if self._followers.is_stalled(organisation) else ()

    def issue_warnings(self, organisation: str) -> tuple[str, ...]:
        """The same of answers about issues."""
        found = self.warnings(organisation)
        is_stalled = self._engine.connected and self._followers.is_stalled_in_issues(organisation)
        return (*found, _UNDECIDED) if is_stalled else found

    async def page(self, wanted: RunFilter, page: PageRequest) -> RunPage:
        """A page of runs."""
        await self._followers.require(wanted.organisation)
        found = await self._read(lambda: self._index.page(wanted, page, page.first + 1))
        more, runs = len(found) > page.first, found[: page.first]
        if page.backwards:
            runs.reverse()
        # Some may be removed between the two.
        total = max(await self._read(lambda: self._index.count(wanted, COUNTED)), len(runs))
        if not runs:
            return RunPage([], total, newer=False, older=False)
        if page.backwards:
            return RunPage(runs, total, newer=more, older=True)
        return RunPage(runs, total, newer=page.after is not None, older=more)

    async def issues(self, wanted: IssueFilter, page: IssuePageRequest) -> IssuePage:
        """A page of issues."""
        await self._followers.require_issues(wanted.organisation)
        found = await self._read(lambda: self._index.issues(wanted, page, page.first + 1))
        more, issues = len(found) > page.first, found[: page.first]
        if page.backwards:
            issues.reverse()
        counted = await self._read(
            lambda: self._index.count_issues(wanted, COUNTED, age=page.age, now=page.now)
        )
        newer, older = (more, True) if page.backwards else (page.after is not None, more)
        return IssuePage(issues, max(counted, len(issues)), newer and bool(issues), older and bool(issues))

    async def issue(
        self, organisation: str, environments: tuple[str, ...], issue: str, *, age: VersionAge, now: int
    ) -> Issue | None:
        """An issue of one of the environments."""
        await self._followers.require_issues(organisation)
        wanted = IssueFilter(organisation=organisation, environments=environments, id=issue)
        page = IssuePageRequest(first=1, now=now, age=age)
        return next(iter(await self._read(lambda: self._index.issues(wanted, page, 1))), None)

    async def users_of_issue(self, organisation: str, issue: str, most: int) -> list[tuple[str, int]]:
        """The users with most of an issue's runs, and how many those are."""
        return await self._read(lambda: self._index.users_of_issue(organisation, issue, most))

    async def decided(self, organisation: str, sequence: int) -> None:
        """Waits a moment until this replica has what was just decided about an issue."""
        await self._followers.decided(organisation, sequence)

    async def newest(self, wanted: RunFilter) -> Run | None:
        """The newest run."""
        await self._followers.require(wanted.organisation)
        found = await self._read(lambda: self._index.page(wanted, PageRequest(first=1), 1))
        return found[0] if found else None

    async def actionable(self, wanted: RunFilter, limit: int, *, oldest_first: bool = False) -> list[Run]:
        """The newest ``limit`` runs, or the oldest, without direct ones whose input is not kept.

        Nothing can be done with these.
        """
        await self._followers.require(wanted.organisation)
        wanted = replace(wanted, actionable=True)
        page = PageRequest(first=limit, before=BEFORE_ALL if oldest_first else None)
        return await self._read(lambda: self._index.page(wanted, page, limit))

    async def get(self, organisation: str, environments: Sequence[str], identifier: str) -> Run | None:
        """The run of one of the environments that is meant by an id."""
        return next(iter(await self.find(organisation, environments, identifier)), None)

    async def find(self, organisation: str, environments: Sequence[str], identifier: str) -> list[Run]:
        """The run with this id of each of the environments that has one. The one that is meant comes first.

        An id is random, so two environments have the same one only where one of them has copied it. The first that the
        engine has stored is the original.
        """
        await self._followers.require(organisation)
        return await self._read(lambda: self._index.find(organisation, environments, identifier))

    async def attempts(
        self, organisation: str, run: Run, *, most: int = MAX_ATTEMPTS, most_steps: int = MAX_STEPS
    ) -> AttemptPage:
        """The newest attempts of a run, with the newest steps."""
        if run.direct:
            only = Attempt(
                number=1,
                status=run.status,
                started_at=run.started_at,
                ended_at=run.ended_at,
                error=run.error,
                trace_id=run.trace_id,
                version=run.version,
            )
            return AttemptPage([only])
        return await self._read(
            lambda: self._index.attempts(organisation, run, most=most, most_steps=most_steps)
        )

    async def ahead_of(self, organisation: str, runs: Sequence[Run]) -> Mapping[tuple[str, str], str]:
        """The run that queued runs wait for, by their environment and id: the first with their key.

        A run that only waits for its turn is left out.
        """
        if not any(run.may_wait_behind for run in runs):
            return {}
        return await self._read(lambda: self._index.ahead_of(organisation, runs))

    async def by_event(self, streams: EventStreams, task: str, event_id: str) -> Run | None:
        """The run of the event with this id, as far as it is known."""
        await self._followers.require(streams.organisation)
        return await self._read(
            lambda: self._index.by_event(streams.organisation, streams.environment, task, event_id)
        )

    async def input(self, organisation: str, run: Run) -> RunInput | None:
        """What a run was given, None where it is not kept, for people: secrets that pods know are masked where the
        history has it. Otherwise it is from the message that waits or is the dead letter."""
        record = await self._record_with_input(organisation, run)
        if record is not None and record.input is not None:
            return RunInput(record.input, record.request, recorded=True)
        message = await self._message(EventStreams(organisation, run.environment), run)
        return input_of(message) if message is not None else None

    async def ended_steps(self, organisation: str, run: Run) -> EndedSteps | None:
        """The steps of a run that has ended, with their results where these are kept; None where the record is not."""
        record = await self._record_with_input(organisation, run)
        return None if record is None else await asyncio.to_thread(_ended_steps, record)

    async def packed_results(self, organisation: str, run: Run) -> bytes | None:
        """The results of a run's steps as its record has them; None where it has none."""
        record = await self._record_with_input(organisation, run)
        return None if record is None else record.step_results

    async def _record_with_input(self, organisation: str, run: Run) -> RunRecord | None:
        """As it was written, unchecked."""
        if run.input_at is None:
            return None
        streams = EventStreams(organisation, run.environment)
        stream = direct_stream(organisation) if run.direct else history_stream(organisation)
        message = await self._engine.message(stream, run.input_at)
        # The environment is part of the subject: another one's message has nothing to say about this run.
        if message is None or message.subject != (streams.direct if run.direct else streams.history):
            return None
        return await asyncio.to_thread(_record_in, message.data, run)

    async def replayed_input(self, organisation: str, run: Run) -> RunInput | None:
        """What a replay is given: as it was sent where that is kept, since masking would change it."""
        streams = EventStreams(organisation, run.environment)
        message = await self._message(streams, run)
        if message is not None:
            return input_of(message)
        return await self.input(organisation, run)

    async def _message(self, streams: EventStreams, run: Run) -> StoredMessage | None:
        """The run's event, where the engine has it."""
        environment = self._environments.of(streams)
        for stream, subject in _places(streams, run):
            message = await environment.first_at(stream, subject)
            if message is not None:
                return message
        return None

    async def write(self, streams: EventStreams, *records: RunRecord) -> None:
        """Adds records to the history as one message, and waits a moment until this replica has it."""
        stored = await self._engine.ask(lambda jetstream: jetstream.publish(streams.history, encode(records)))
        await self._followers.reached(streams.organisation, stored.seq)

    async def tally(self, organisation: str, windows: Windows) -> Tally:
        """How many runs were queued in each window, and how many of these failed or are dead letters: all of
        them, unlike in lists."""
        await self._followers.require(organisation)
        return await self._read(lambda: self._index.tally(organisation, windows))

    async def release_tally(self, organisation: str, environment: str, starts: Sequence[int]) -> ReleaseTally:
        """How many runs of an environment its versions did since each of the times (nanoseconds, oldest first)."""
        await self._followers.require(organisation)
        return await self._read(lambda: self._index.release_tally(organisation, environment, starts))

    async def backlog(self, organisation: str, most: int) -> list[Waiting]:
        """What waits, in up to ``most`` groups: the one with the oldest run first."""
        await self._followers.require(organisation)
        return await self._read(lambda: self._index.backlog(organisation, most))

    async def waiting_tasks(self, streams: EventStreams, most: int) -> Mapping[str, int]:
        """How many events of an environment have not ended, by task: of ``most`` tasks at most."""
        await self._followers.require(streams.organisation)
        return await self._read(
            lambda: self._index.waiting_tasks(streams.organisation, streams.environment, most)
        )

    async def environments_with_events(self, organisation: str, environments: Sequence[str]) -> list[str]:
        """Those of the environments that have runs of the event engine."""
        await self._followers.require(organisation)
        return await self._read(lambda: self._index.environments_with_events(organisation, environments))

    @staticmethod
    async def _read(question: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(question)
        except TooSlowError:
            raise errors.unavailable(
                "Looking for runs took too long: narrow it down by start, end, status or task"
            ) from None
        except (sqlite3.Error, OSError):
            raise EngineUnavailableError("The index of runs cannot be read at the moment") from None


def input_of(message: StoredMessage) -> RunInput | None:
    """What an event's message gives to its run; None for one that the history has no room for, or that is no event."""
    if len(message.data) > MAX_EVENT_BYTES:
        return None
    try:
        return RunInput(message.data, EventMetadata.parse(message.headers).request)
    except InvalidEventError:
        return None


def _places(streams: EventStreams, run: Run) -> list[tuple[str, str]]:
    """Streams and subjects at which the engine may have the run's event."""
    if run.status == "dead":
        return [(streams.dead_letters, streams.dead(run.id))]
    if run.status in ("queued", "waiting"):
        return [
            (streams.queue, streams.any_event(run.id)),
            (streams.queue, streams.keyed_event("*", run.id)),
            (streams.later, streams.waiting(run.id)),
            (streams.later, streams.due(run.id)),
        ]
    return []


def _record_in(content: bytes, run: Run) -> RunRecord | None:
    try:
        records = decode(unpacked(content) if run.direct else content)
    except InvalidRecordsError:
        return None
    return next((one for one in records if one.id == run.id and one.input is not None), None)


def _ended_steps(record: RunRecord) -> EndedSteps | None:
    try:
        steps = checked(record).record.steps
        results = kept_results.unpacked(record.step_results) if record.step_results else None
    except (AttributeError, OverflowError, TypeError, ValueError):
        return None
    return EndedSteps(steps, results)
