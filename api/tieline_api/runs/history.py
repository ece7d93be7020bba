"""All runs of an organisation: those that pods report to the engine, and direct ones that are told by their spans."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tieline_api import errors
from tieline_api.engine.connection import Engine
from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.engine.followers import Followers
from tieline_api.engine.requests import StoredMessage
from tieline_api.errors import ApiError
from tieline_api.runs.backlog import Waiting
from tieline_api.runs.index import RunIndex
from tieline_api.runs.model import Attempt, AttemptPage, PageRequest, Run, RunFilter
from tieline_api.runs.roots import root_query, run_of_root
from tieline_api.runs.tally import Tally, Windows
from tieline_api.sqlite_files import TooSlowError
from tieline_api.traces.backends import Traces
from tieline_api.traces.root_runs import RootOutcome
from tieline_protocol.event_streams import MAX_EVENT_BYTES, EventStreams, history_stream
from tieline_protocol.events import EventMetadata, InvalidEventError, WebhookRequest
from tieline_protocol.run_records import InvalidRecordsError, RunRecord, decode, encode

T = TypeVar("T")

_BULK = 2
COUNTED = 10_000
"""Runs of a list are counted so far."""
MAX_ATTEMPTS = 100
"""Of a run, in the answer about it."""
MAX_STEPS = 1000
"""Of all these attempts together."""
_AWAY = "The event engine cannot be reached: runs and changes since then are missing"


@dataclass(frozen=True)
class RunPage:
    """A part of a list, newest first, and whether there are runs on either side of it."""

    runs: list[Run]
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
        followers: Followers,
        traces: Traces,
    ) -> None:
        self._engine = engine
        self._environments = environments
        self._index = index
        self._followers = followers
        self._traces = traces
        self.bulk = asyncio.Semaphore(_BULK)
        """Held by requests that act on many runs, which have all of them in memory."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What readers have to know about answers of this moment."""
        return () if self._engine.connected else (_AWAY,)

    async def page(self, wanted: RunFilter, page: PageRequest) -> RunPage:
        """A page of runs."""
        await self._followers.need(wanted.organisation)
        found = await self._select(wanted, page, page.first + 1)
        more, runs = len(found) > page.first, found[: page.first]
        if page.backwards:
            runs.reverse()
        # Some may be removed between the two.
        total = max(await self._count(wanted), len(runs))
        if not runs:
            return RunPage([], total, newer=False, older=False)
        if page.backwards:
            return RunPage(runs, total, newer=more, older=True)
        return RunPage(runs, total, newer=page.after is not None, older=more)

    async def _select(self, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
        """The first ``limit`` runs after (or before) the page's position, in the order in which they follow it."""
        reported = await self._read(lambda: self._index.page(wanted, page, limit))
        direct = await self._direct(wanted, page, limit)
        runs = sorted([*reported, *direct], key=lambda run: run.position, reverse=not page.backwards)
        return runs[:limit]

    async def newest(self, wanted: RunFilter) -> Run | None:
        """The newest run, direct ones among them."""
        await self._followers.need(wanted.organisation)
        return next(iter(await self._select(wanted, PageRequest(first=1), 1)), None)

    async def reported(self, wanted: RunFilter, limit: int) -> list[Run]:
        """The newest ``limit`` runs without direct ones, which have ended and have no input."""
        await self._followers.need(wanted.organisation)
        return await self._read(lambda: self._index.page(wanted, PageRequest(first=limit), limit))

    async def get(self, organisation: str, environments: Sequence[str], identifier: str) -> Run | None:
        """The run of one of the environments that is meant by an id."""
        return next(iter(await self.find(organisation, environments, identifier)), None)

    async def find(self, organisation: str, environments: Sequence[str], identifier: str) -> list[Run]:
        """The run with this id of each of the environments that has one. The one that is meant comes first.

        An id is random, so two environments have the same one only where one of them has copied it. Of those in the
        history the first that the engine has stored is the original. Spans come after them, since nobody but who
        sends a span says when that was.
        """
        await self._followers.need(organisation)
        found = await self._read(lambda: self._index.find(organisation, environments, identifier))
        reported = {run.environment for run in found}
        for environment in environments:
            if environment in reported:
                continue
            wanted = RunFilter(organisation=organisation, environments=(environment,))
            query = root_query(wanted, PageRequest(first=1), 1, identifier=identifier)
            try:
                roots = await self._traces.roots(query) if query else []
            except ApiError:
                if not reported:
                    raise
                break
            found += map(run_of_root, roots)
        return found

    async def attempts(
        self, organisation: str, run: Run, *, most: int = MAX_ATTEMPTS, most_steps: int = MAX_STEPS
    ) -> AttemptPage:
        """The newest attempts of a run, with the newest steps."""
        if run.source == "span":
            only = Attempt(
                number=1,
                status=run.status,
                started_at=run.started_at,
                ended_at=run.ended_at,
                error=run.error,
                trace_id=run.trace_id,
            )
            return AttemptPage([only])
        return await self._read(
            lambda: self._index.attempts(organisation, run, most=most, most_steps=most_steps)
        )

    async def by_event(self, streams: EventStreams, task: str, event_id: str) -> Run | None:
        """The run of the event with this id, as far as it is known."""
        await self._followers.need(streams.organisation)
        return await self._read(
            lambda: self._index.by_event(streams.organisation, streams.environment, task, event_id)
        )

    async def input(self, organisation: str, run: Run) -> RunInput | None:
        """What a run was given, None where it is not kept, for people: secrets that pods know are masked where the
        history has it. Otherwise it is from the message that waits or is the dead letter."""
        streams = EventStreams(organisation, run.environment)
        if run.input_at is not None:
            message = await self._engine.message(history_stream(organisation), run.input_at)
            # The environment is part of the subject: another one's message has nothing to say about this run.
            if message is not None and message.subject == streams.history:
                found = await asyncio.to_thread(_input_in, message.data, run.id)
                if found is not None:
                    return found
        message = await self._message(streams, run)
        return input_of(message) if message is not None else None

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

    async def write(self, streams: EventStreams, record: RunRecord) -> None:
        """Adds a record to the history, and waits a moment until this replica has it."""
        stored = await self._engine.ask(
            lambda jetstream: jetstream.publish(streams.history, encode([record]))
        )
        await self._followers.reached(streams.organisation, stored.seq)

    async def _direct(self, wanted: RunFilter, page: PageRequest, limit: int) -> list[Run]:
        """Direct runs that the history does not know: a run that it knows is told by it."""
        found: list[Run] = []
        query = root_query(wanted, page, limit)
        while query is not None and len(found) < limit:
            roots = await self._traces.roots(query)
            pairs = [(root.environment, root.span.run_id) for root in roots]
            known = await self._known(wanted.organisation, pairs)
            found += [run_of_root(root) for root, pair in zip(roots, pairs, strict=True) if pair not in known]
            if len(roots) < limit:
                break
            last = run_of_root(roots[-1]).position
            beyond = PageRequest(
                first=page.first,
                after=page.after if page.backwards else last,
                before=last if page.backwards else page.before,
            )
            query = root_query(wanted, beyond, limit)
        return found[:limit]

    async def _count(self, wanted: RunFilter) -> int:
        total = await self._read(lambda: self._index.count(wanted, COUNTED))
        query = root_query(wanted, PageRequest(first=1), COUNTED)
        if query is not None and total < COUNTED:
            pairs = await self._traces.root_ids(query)
            total += len(pairs) - len(await self._known(wanted.organisation, pairs))
        return min(total, COUNTED)

    async def tally(self, organisation: str, windows: Windows) -> Tally:
        """How many runs were queued in each window, and how many of these failed or are dead letters: each run once,
        and all of them, unlike in lists."""
        await self._followers.need(organisation)
        found = await self._read(lambda: self._index.tally(organisation, windows))

        def add(roots: Sequence[RootOutcome]) -> None:
            known = self._index.known(organisation, [(root.environment, root.run_id) for root in roots])
            for root in roots:
                if (root.environment, root.run_id) not in known:
                    found.add(windows.bucket(root.start), 1, int(root.failed))

        wanted = RunFilter(organisation=organisation, start=windows.before, end=windows.end)
        query = root_query(wanted, PageRequest(first=1), 1)
        if query is not None:
            await self._traces.each_root(query, add)
        return found

    async def backlog(self, organisation: str, most: int) -> list[Waiting]:
        """What waits, in up to ``most`` groups: the one with the oldest run first. Direct runs never wait."""
        await self._followers.need(organisation)
        return await self._read(lambda: self._index.backlog(organisation, most))

    async def _known(self, organisation: str, pairs: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        return await self._read(lambda: self._index.known(organisation, pairs)) if pairs else set()

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
            (streams.queue, streams.event("*", run.id)),
            (streams.queue, streams.keyed_event("*", run.id)),
            (streams.later, streams.waiting(run.id)),
            (streams.later, streams.due(run.id)),
        ]
    return []


def _input_in(content: bytes, run: str) -> RunInput | None:
    try:
        records = decode(content)
    except InvalidRecordsError:
        return None
    for record in records:
        if record.id == run and record.input is not None:
            return RunInput(record.input, record.request, recorded=True)
    return None
