"""What a pod keeps of runs in its environment's stream ``run_<env>``: results of steps, attempts, and ends."""

import contextlib
import json
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tieline.events.engine.connection import RefusedByEngineError, parsed
from tieline.events.engine.stored_messages import (
    BEHIND,
    READ_ATTEMPTS,
    StoredMessages,
    first_that_fits,
    read_pause,
)
from tieline.events.queue import EventsUnavailableError
from tieline.events.run_store import Interruption, KeptStep, RunTakenOver, StepPlace, StepsClaim
from tieline_engine.refusals import WRONG_SEQUENCE
from tieline_protocol.event_streams import EXPECTED_SEQUENCE, STEP_HEADER, TTL, subject_parts
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.kept_results import STEPS_TTL, step_header

logger = logging.getLogger("tieline.events")

_EXPECTED_SUBJECT = "Nats-Expected-Last-Subject-Sequence-Subject"
"""The header with another subject than the message's own, which may have wildcards."""
UNTIL_HEADER = "Tieline-Until"
_WAITS_HEADER = "Tieline-Waits"
_STEP_PARTS = 4
"""Parts of a step's subject after that of its run."""
_ENDED_TTL = "1h"
_INTERRUPTION_TTL = "24h"
RELEASED = -1
"""In the place of the number of interruptions: whoever had the event let go of it alive, so that the next one counts
none."""


@dataclass(frozen=True)
class RunState:
    """What the next attempt of a run has to know."""

    metadata: EventMetadata
    until: float
    """When it is to be tried again; 0 for now."""
    begins_waits: bool
    """Whether the pod that wrote this has not begun its waits yet: it may have died, and missed what ends them."""
    number: int
    """Of the message."""


class RunStorage:
    """See RunStore. All of it raises EventsUnavailableError."""

    def __init__(self, messages: StoredMessages) -> None:
        self._messages = messages
        self._connection = messages.connection
        self._streams = messages.connection.streams

    async def step_result(self, run: str, step: StepPlace, *, claim: StepsClaim) -> KeptStep:
        """See RunStore.

        Any server of a cluster answers, and one that is behind does not have it yet: it is asked again.
        """
        streams = self._streams
        subject = streams.hashed_step(run, step.name_hash, step.occurrence, step.place)
        for number in range(1, READ_ATTEMPTS + 1):
            found = await self._connection.get(streams.runs, multi_last=[subject, streams.ended(run)])
            headers = (found and found.headers) or {}
            if found is not None and headers.get("Nats-Subject") == subject:
                return _kept(step, headers, found.data)
            if found is not None:
                # Another pod has run it to its end meanwhile, and let go of the results.
                raise RunTakenOver
            await read_pause(number)
        raise EventsUnavailableError(BEHIND)

    async def claim_steps(self, run: str, *, any_kept: bool) -> StepsClaim:
        """See RunStore. A claim is a message; whoever saves a step says that its own is the last one."""
        subject = self._streams.steps_claim(run)
        if not any_kept:
            nothing = {_EXPECTED_SUBJECT: self._streams.all_of_run(run), EXPECTED_SEQUENCE: "0"}
            number = await self._save_of_step(subject, b"", nothing)
            if number is not None:
                return StepsClaim(number, any_kept=False)
        number = await self._save_of_step(subject, b"", {})
        if number is None:
            raise AssertionError("nothing is expected")
        return StepsClaim(number, any_kept=True, recorded=await self._recorded(run, since=number))

    async def _recorded(self, run: str, *, since: int) -> Collection[StepPlace]:
        """The steps of a run whose claim has the number ``since``. Raises RunTakenOver where the run has ended."""
        streams = self._streams
        subjects = await self._messages.subjects_since(streams.runs, streams.all_of_run(run), since)
        if streams.ended(run) in subjects:
            raise RunTakenOver
        parts = [subject_parts(subject)[1:] for subject in subjects]
        return [
            StepPlace(name_hash=name_hash, occurrence=int(occurrence), place=int(place))
            for kind, name_hash, occurrence, place in (one for one in parts if len(one) == _STEP_PARTS)
            if kind == "step"
        ]

    async def save_step(self, run: str, step: KeptStep, *, claim: StepsClaim) -> None:
        """See RunStore."""
        subject = self._streams.step(run, step.name, step.occurrence, place=step.place)
        claimed = {_EXPECTED_SUBJECT: self._streams.steps_claim(run), EXPECTED_SEQUENCE: str(claim.number)}
        about = step_header(step.name, work=step.work, version=step.version)
        if await self._save_of_step(subject, step.result, {**claimed, STEP_HEADER: about}) is None:
            raise RunTakenOver

    async def _save_of_step(self, subject: str, content: bytes, expected: Mapping[str, str]) -> int | None:
        """The message's number; None where what it expects is not so."""
        try:
            answer = parsed(
                await self._connection.request(subject, content, headers={**expected, TTL: STEPS_TTL})
            )
        except RefusedByEngineError as error:
            if error.code in WRONG_SEQUENCE:
                return None
            raise EventsUnavailableError(
                f"The event engine keeps no more steps of this environment now: {error.description}"
            ) from None
        return int(answer["seq"])

    async def forget_steps(self, run: str) -> None:
        """See RunStore."""
        marked = await self._mark_ended(run, b"") is not None
        for subjects in (self._streams.steps(run), self._streams.run_state(run)):
            await self._messages.purge(self._streams.runs, subjects)
        # A full stream must not keep runs from ending, as that is what makes room in it.
        if not marked and await self._mark_ended(run, b"") is None:
            logger.warning("There is no room to note that the run %s has ended", run)

    async def is_cancelled(self, run: str) -> bool:
        """See RunStore."""
        return await self._connection.get(f"{self._streams.runs}.{self._streams.cancelled(run)}") is not None

    async def interruption(self, run: str) -> Interruption | None:
        """See RunStore."""
        found = await self._connection.get(f"{self._streams.runs}.{self._streams.interruption(run)}")
        try:
            return None if found is None else Interruption(**json.loads(found.data))
        except (TypeError, ValueError):
            return None

    async def save_interruption(self, run: str, interruption: Interruption) -> None:
        """Keep why this pod ends in the middle of a run. Raises QueueFullError where there is no room."""
        content = json.dumps(vars(interruption)).encode()
        await self._messages.store(self._streams.interruption(run), content, {TTL: _INTERRUPTION_TTL})

    async def claim_end(self, run: str, content: bytes) -> bytes | None:
        """See RunStore. Where there is no room to note it, it counts as the first."""
        if await self._mark_ended(run, content) is not False:
            return None
        first = await self.end_of(run)
        # This one, where its answer got lost.
        return None if first == content else first

    async def end_of(self, run: str) -> bytes | None:
        """See RunStore."""
        found = await self._connection.get(f"{self._streams.runs}.{self._streams.ended(run)}")
        return None if found is None else found.data

    async def has_ended(self, run: str) -> bool:
        """See RunStore."""
        return bool(await self._messages.subjects(self._streams.runs, self._streams.ended(run)))

    async def _mark_ended(self, run: str, content: bytes) -> bool | None:
        """Whether this is the run's first end; None where there is no room to note it."""
        headers = {EXPECTED_SEQUENCE: "0", TTL: _ENDED_TTL}
        try:
            parsed(await self._connection.request(self._streams.ended(run), content, headers=headers))
        except RefusedByEngineError as error:
            return False if error.code in WRONG_SEQUENCE else None
        return True

    async def state(self, run: str) -> RunState | None:
        """What ``save_state`` kept. Raises InvalidEventError, too."""
        found = await self._connection.get(f"{self._streams.runs}.{self._streams.run_state(run)}")
        if found is None:
            return None
        headers = found.headers or {}
        return RunState(
            EventMetadata.parse(headers),
            float(headers.get(UNTIL_HEADER, 0)),
            begins_waits=_WAITS_HEADER in headers,
            number=int(headers["Nats-Sequence"]),
        )

    async def is_current(self, state: RunState) -> bool:
        """Whether nobody has written the state since it was read. It is written again, so that the engine says so."""
        content = {HEADER: state.metadata.header(), **_about(state.until, begins_waits=state.begins_waits)}
        expected = {EXPECTED_SEQUENCE: str(state.number)}
        subject = self._streams.run_state(state.metadata.run)
        try:
            parsed(await self._connection.request(subject, b"", headers={**content, **expected}))
        except RefusedByEngineError as error:
            # Where there is no room, nobody else can have written it.
            return error.code not in WRONG_SEQUENCE
        return True

    async def waits_have_begun(self, run: str) -> None:
        """Note it in the state, unless somebody has woken the run since."""
        state = await self.state(run)
        if state is not None and state.begins_waits:
            await self.is_current(replace(state, begins_waits=False))

    async def save_state(self, metadata: EventMetadata, until: float, *, begins_waits: bool = False) -> None:
        """Keep what the next attempt of a run has to know."""
        more = _about(until, begins_waits=begins_waits)
        subject = self._streams.run_state(metadata.run)
        await first_that_fits(
            metadata, lambda one: self._messages.store(subject, b"", {HEADER: one.header(), **more})
        )

    async def save_released(self, metadata: EventMetadata) -> None:
        """Keep that the pod which lets go of an event did not die with it, if there is room. Raises nothing."""
        with contextlib.suppress(EventsUnavailableError):
            await self.save_state(replace(metadata, interruptions=RELEASED), 0)


def _about(until: float, *, begins_waits: bool) -> dict[str, str]:
    """The headers of a state beside its metadata."""
    waits = {_WAITS_HEADER: "1"} if begins_waits else {}
    return {UNTIL_HEADER: f"{until:.3f}", TTL: STEPS_TTL, **waits}


def _kept(step: StepPlace, headers: Mapping[str, str], result: bytes) -> KeptStep:
    about = json.loads(headers.get(STEP_HEADER, "{}"))
    return KeptStep(
        name=about.get("name", ""),
        occurrence=step.occurrence,
        place=step.place,
        work=about.get("work", ""),
        version=about.get("version", ""),
        run=about.get("run", ""),
        result=result,
    )
