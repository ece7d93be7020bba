"""Runs that wait, with everything that is recorded of them: what is replayed against code before it is deployed."""

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nats.errors
import orjson
from nats.aio.client import Client

from tieline_api.engine.environments import EnvironmentEngines
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import EngineRequests
from tieline_common.semaphores import OwnSemaphores
from tieline_core.engine.stored_messages import EngineReadError, ReadLimits, StoredMessage, read_subject
from tieline_core.identity.ids import parse_id
from tieline_protocol.approvals import wait_name
from tieline_protocol.event_streams import STEP_HEADER, EventStreams, hashed, subject_parts
from tieline_protocol.events import EventMetadata, InvalidEventError
from tieline_protocol.waits import TIMED_OUT

MOST_BYTES = 8 * 1024 * 1024
"""Of payloads and results in an answer."""
_RUN_LIMITS = ReadLimits(messages=2100, bytes=2 * 1024 * 1024)
_RUN_SECONDS = 20.0
_AT_ONCE = 4
_STEP_PARTS, _OUTCOME_PARTS = 5, 4


class _EndedError(Exception):
    """The run has ended meanwhile."""


class _NotReadError(Exception):
    """A run that is not handed out: it is too large, or cannot be read."""


@dataclass(frozen=True, kw_only=True)
class RecordedStep:
    """A step that is done."""

    name: str
    occurrence: int
    place: int
    work: str
    version: str
    result: str
    """JSON."""


@dataclass(frozen=True, kw_only=True)
class RecordedOutcome:
    """How a wait has ended."""

    wait: str
    """Which wait of the run it is."""
    event: "RecordedEvent | None"
    """None for a timeout."""


@dataclass(frozen=True, kw_only=True)
class RecordedEvent:
    """An event as it is stored."""

    metadata: Mapping[str, Any]
    payload: bytes


@dataclass(frozen=True, kw_only=True)
class Sleeper:
    """A run that waits."""

    event: RecordedEvent
    steps: Sequence[RecordedStep]
    outcomes: Sequence[RecordedOutcome]

    @property
    def size(self) -> int:
        """Bytes of payloads and results."""
        events = [self.event, *(one.event for one in self.outcomes if one.event)]
        return sum(len(one.payload) for one in events) + sum(len(one.result) for one in self.steps)


@dataclass(frozen=True, kw_only=True)
class FoundSleepers:
    """Some of the runs that wait in an environment."""

    runs: Sequence[Sleeper]
    total: int
    """How many have recorded steps."""


class Sleepers:
    """The runs with recorded steps of environments. Methods raise ApiError."""

    def __init__(self, environments: EnvironmentEngines) -> None:
        self._environments = environments
        self._at_once = OwnSemaphores(_AT_ONCE)

    async def read(self, streams: EventStreams, *, most: int) -> FoundSleepers:
        """At most ``most`` of an environment's runs, spread over their age, as far as they fit into MOST_BYTES."""
        engine = self._environments.of(streams)
        try:
            claims = await engine.subjects(streams.runs, streams.steps_claim("*"))
        except NoStreamError:
            return FoundSleepers(runs=(), total=0)
        # Code of the environment may write there, too.
        known = sorted(run for claim in claims if parse_id(run := subject_parts(claim)[0]) == run)
        runs: list[Sleeper] = []
        left, ended = MOST_BYTES, 0
        # Not by age: what does not fit would be the youngest.
        for batch in batched(sorted(spread(known, most), key=hashed), _AT_ONCE):
            found = await asyncio.gather(
                *(self._read(engine, streams, run) for run in batch), return_exceptions=True
            )
            ended += sum(isinstance(one, _EndedError) for one in found)
            for one in found:
                if isinstance(one, Sleeper):
                    left -= one.size
                    if left >= 0:
                        runs.append(one)
                elif not isinstance(one, _EndedError | _NotReadError):
                    raise one
            if left < 0:
                # The records of further runs would take memory for nothing.
                break
        runs.sort(key=lambda one: str(one.event.metadata["run"]))
        return FoundSleepers(runs=runs, total=len(known) - ended)

    async def _read(self, engine: EngineRequests, streams: EventStreams, run: str) -> Sleeper:
        """Raises _EndedError and _NotReadError."""
        async with self._at_once.of(streams.organisation):
            try:
                return await _sleeper(engine, streams, run)
            except NoStreamError:
                raise _EndedError from None


def batched(runs: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """In parts of at most ``size``.

    >>> list(batched(["a", "b", "c"], 2))
    [['a', 'b'], ['c']]
    """
    for start in range(0, len(runs), size):
        yield runs[start : start + size]


def spread(runs: Sequence[str], most: int) -> Sequence[str]:
    """At most ``most`` of them, at equal distances.

    >>> spread(["a", "b", "c", "d", "e"], 2), spread(["a"], 2)
    (['a', 'c'], ['a'])
    """
    if len(runs) <= most:
        return runs
    return [runs[number * len(runs) // most] for number in range(most)]


async def _sleeper(engine: EngineRequests, streams: EventStreams, run: str) -> Sleeper:
    event = await _event(engine, streams, run)
    messages = await _messages(engine, streams, run)
    steps = [_step(message) for message in messages if len(subject_parts(message.subject)) == _STEP_PARTS]
    outcomes = [
        _outcome(parts[3], message)
        for message in messages
        if len(parts := subject_parts(message.subject)) == _OUTCOME_PARTS and parts[2] == "~outcome"
    ]
    for approval in filter(None, map(_approval, steps)):
        answered = await engine.first_at(streams.runs, streams.answered(approval))
        if answered is not None:
            outcomes.append(_outcome(wait_name(approval), answered))
    return Sleeper(event=event, steps=steps, outcomes=outcomes)


async def _event(engine: EngineRequests, streams: EventStreams, run: str) -> RecordedEvent:
    """The run's event, wherever it waits. Raises _EndedError where it is nowhere."""
    for stream, subject in (
        (streams.later, streams.waiting(run)),
        (streams.later, streams.due(run)),
        (streams.queue, streams.any_event(run)),
        (streams.queue, streams.keyed_event("*", run)),
    ):
        message = await engine.first_at(stream, subject)
        if message is not None:
            return _recorded(message)
    raise _EndedError


async def _messages(engine: EngineRequests, streams: EventStreams, run: str) -> Sequence[StoredMessage]:
    """What is kept of a run's steps. Raises _NotReadError for a run that has more than is handed out."""

    async def read(client: Client) -> list[StoredMessage]:
        found: list[StoredMessage] = []
        try:
            async for page in read_subject(
                client, streams.runs, streams.steps(run), start=1, limits=_RUN_LIMITS
            ):
                found += page
        except nats.errors.NoRespondersError:
            raise NoStreamError from None
        except EngineReadError:
            raise EngineUnavailableError from None
        return found

    found = await engine.ask_client(read, seconds=_RUN_SECONDS)
    if len(found) >= _RUN_LIMITS.messages or sum(len(one.data) for one in found) >= _RUN_LIMITS.bytes:
        raise _NotReadError
    return found


def _step(message: StoredMessage) -> RecordedStep:
    _, _, _, occurrence, place = subject_parts(message.subject)
    try:
        about = json.loads(message.headers[STEP_HEADER])
        return RecordedStep(
            name=str(about["name"]),
            occurrence=int(occurrence),
            place=int(place),
            work=str(about["work"]),
            version=str(about["version"]),
            result=message.data.decode(),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _NotReadError from None


def _outcome(wait: str, message: StoredMessage) -> RecordedOutcome:
    return RecordedOutcome(wait=wait, event=None if TIMED_OUT in message.headers else _recorded(message))


def _recorded(message: StoredMessage) -> RecordedEvent:
    try:
        metadata = EventMetadata.parse(message.headers)
    except InvalidEventError:
        raise _NotReadError from None
    # As it is written, without what this release does not know.
    return RecordedEvent(metadata=orjson.loads(metadata.header()), payload=message.data)


def _approval(step: RecordedStep) -> str | None:
    """The id of the approval that a step asks for."""
    if not step.name.startswith("approve: "):
        return None
    try:
        identifier = orjson.loads(step.result)["approval"]
    except (KeyError, TypeError, ValueError):
        return None
    return identifier if parse_id(identifier) == identifier else None
