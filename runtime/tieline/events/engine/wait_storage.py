"""Waits in an environment's stream ``run_<env>``, found by the index in their subjects.

The pod with a wait stores the run's next attempt, then the wait, and then looks for kept events. The pod with an event
stores it, and then looks for waits. Both write to the same stream before they read it, from a server that has what they
wrote, so one of the two sees the other.
"""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from nats.aio.msg import Msg

from tieline.events.engine.connection import RefusedByEngineError, parsed
from tieline.events.engine.run_storage import UNTIL_HEADER
from tieline.events.engine.stored_messages import BEHIND, READ_ATTEMPTS, StoredMessages, read_pause
from tieline.events.engine.stream_quota import StreamQuota
from tieline.events.queue import EventsUnavailableError, MessageTooLargeError, QueueFullError
from tieline.events.wait_store import (
    AFTER_WAIT_SECONDS,
    LEAST_KEEP_SECONDS,
    RECORD_SECONDS,
    KeptEvent,
    KeptLine,
    OpenWait,
    Outcome,
    Wait,
    approval_seconds,
)
from tieline_engine.publishing import schedule
from tieline_engine.refusals import TOO_LARGE, WRONG_SEQUENCE
from tieline_protocol.approvals import Approval
from tieline_protocol.event_streams import (
    EXPECTED_SEQUENCE,
    NO_KEY,
    TTL,
    hashed,
    subject_parts,
)
from tieline_protocol.events import HEADER, MESSAGE_ID, EventMetadata, InvalidEventError
from tieline_protocol.kept_results import STEPS_TTL
from tieline_protocol.waits import MAX_RULES, TIMED_OUT, InvalidRuleError, WaitRule

_AT_ONCE = 16
"""Waits that are read at the same time."""
_RULES_SECONDS = 60.0
_NAMES_SECONDS = 5.0
_RECORD_TTL = f"{round(RECORD_SECONDS)}s"
_MOST_KEPT = 100
"""Events with the same index that a wait looks at together: first the oldest, then the newest."""
_TIME = "Nats-Time-Stamp"


class WaitStorage:
    """See WaitStore."""

    def __init__(
        self, messages: StoredMessages, stream_quota: StreamQuota, *, clock: Callable[[], float] = time.time
    ) -> None:
        self._messages = messages
        self._connection = messages.connection
        self._streams = messages.connection.streams
        self._clock = clock
        self._stream_quota = stream_quota
        self._rules: dict[str, tuple[float, WaitRule | None]] = {}
        self._names: frozenset[str] = frozenset()
        self._names_at: float | None = None
        self._reading_names = asyncio.Lock()

    async def declare(self, rules: Collection[WaitRule]) -> None:
        """See WaitStore."""
        for rule in rules:
            await self._store(self._streams.wait_rule(rule.name, rule.id), rule.encode(), {TTL: _RECORD_TTL})

    async def rules(self, name: str) -> Sequence[WaitRule]:
        """See WaitStore. Their subjects are read each time, their contents once a minute."""
        subjects, _ = await self._messages.subjects_and_last(
            self._streams.runs, self._streams.wait_rule(name, "*")
        )
        found = [await self._rule(subject) for subject in sorted(subjects)[:MAX_RULES]]
        return [rule for rule in found if rule is not None and rule.name == name]

    async def may_have_rules(self, name: str) -> bool:
        """See WaitStore."""
        if not self._are_names_fresh:
            async with self._reading_names:
                if not self._are_names_fresh:
                    now = time.monotonic()
                    self._names, self._names_at = await self._read_names(), now
        return bool(self._names) and hashed(name) in self._names

    @property
    def _are_names_fresh(self) -> bool:
        return self._names_at is not None and time.monotonic() - self._names_at <= _NAMES_SECONDS

    async def _read_names(self) -> frozenset[str]:
        subjects, _ = await self._messages.subjects_and_last(
            self._streams.runs, self._streams.wait_rule("*", "*")
        )
        return frozenset(subject_parts(subject)[1] for subject in subjects)

    async def keep(self, index: str, event: KeptEvent, seconds: float, *, at_least: float = 0.0) -> int:
        """See WaitStore. While steps take much of the stream, events are kept for the shortest time."""
        least = max(at_least, LEAST_KEEP_SECONDS)
        kept_for = max(seconds, least) if await self._stream_quota.left() else least
        subject = self._streams.kept_event(index, event.metadata.run)
        headers = {HEADER: event.metadata.header(), TTL: f"{round(kept_for)}s", EXPECTED_SEQUENCE: "0"}
        for number in range(1, READ_ATTEMPTS + 1):
            try:
                return await self._store(subject, event.payload, headers)
            except _WrongSequenceError:
                found = await self._present(self._streams.runs, subject)
                if found is not None:
                    return _number(found)
                await read_pause(number)
        raise EventsUnavailableError(BEHIND)

    async def drop_older(self, index: str, event: KeptEvent) -> None:
        """See WaitStore."""
        subjects = await self._messages.subjects(self._streams.runs, self._streams.kept_event(index, "*"))
        own = self._streams.kept_event(index, event.metadata.run)
        for subject in sorted(subjects - {own})[:_MOST_KEPT]:
            found = await self._connection.get(f"{self._streams.runs}.{subject}")
            kept = None if found is None else _event(found)
            if kept is not None and event.is_newer_than(kept):
                await self._messages.purge(self._streams.runs, subject)

    async def line(self, index: str) -> KeptLine:
        """See WaitStore."""
        found = await self._connection.get(f"{self._streams.runs}.{self._streams.line(index)}")
        return KeptLine() if found is None else KeptLine(content=found.data, number=_number(found))

    async def keep_line(self, index: str, content: bytes, seconds: float, *, expected: int) -> bool:
        """See WaitStore."""
        headers = {TTL: f"{math.ceil(seconds)}s", EXPECTED_SEQUENCE: str(expected)}
        return await self._unless_changed(self._streams.line(index), content, headers)

    async def find(self, wait: OpenWait) -> KeptEvent | None:
        """See WaitStore."""
        return await self._find(wait, since=0)

    async def waits(self, index: str, *, before: int) -> Sequence[Wait]:
        """See WaitStore."""
        subjects = sorted(await self._subjects(self._streams.waits(index), before))
        begun: list[bool] = []
        for start in range(0, len(subjects), _AT_ONCE):
            some = subjects[start : start + _AT_ONCE]
            begun += await asyncio.gather(*(self._is_before(subject, before) for subject in some))
        return [
            Wait(index=index, run=run, name=name, key_hash=None if key == NO_KEY else key)
            for _, _, run, name, key in (
                subject_parts(one) for one, had in zip(subjects, begun, strict=True) if had
            )
        ]

    async def _is_before(self, subject: str, number: int) -> bool:
        found = await self._present(self._streams.runs, subject)
        return found is not None and _number(found) < number

    async def ask(self, approval: Approval) -> None:
        """See WaitStore."""
        ttl = f"{round(approval_seconds(approval, self._clock()))}s"
        subject = self._streams.approval(approval.id, approval.run)
        # An earlier attempt has stored it where that is refused.
        await self._unless_changed(subject, approval.encode(), {TTL: ttl, EXPECTED_SEQUENCE: "0"})

    async def begin(self, waits: Collection[OpenWait]) -> None:
        """See WaitStore."""
        for wait in waits:
            seconds = max(wait.until - self._clock(), 0) + AFTER_WAIT_SECONDS
            number = await self._store(self._subject(wait), b"", {TTL: f"{round(seconds)}s"})
            event = await self._find(wait, since=number)
            if event is not None:
                await self.decide(wait, Outcome(event=event))
            # An event may have ended it while an earlier delivery of the run waited, which it has woken.
            if event is not None or await self._subjects(self._outcome(wait), number):
                await self.wake(wait)
                await self.close(wait)

    async def close(self, wait: Wait) -> None:
        """See WaitStore."""
        await self._messages.purge(self._streams.runs, self._subject(wait))

    async def decide(self, wait: Wait, outcome: Outcome) -> Outcome:
        """See WaitStore."""
        content, headers = _written(outcome)
        for number in range(1, READ_ATTEMPTS + 1):
            try:
                first = {EXPECTED_SEQUENCE: "0", TTL: _RECORD_TTL}
                await self._store(self._outcome(wait), content, {**headers, **first})
            except _WrongSequenceError:
                # A server that is behind may not have it yet.
                if (earlier := await self.outcome(wait)) is not None:
                    return earlier
                await read_pause(number)
            else:
                return outcome
        raise EventsUnavailableError(BEHIND)

    async def outcome(self, wait: Wait) -> Outcome | None:
        """See WaitStore."""
        found = await self._connection.get(f"{self._streams.runs}.{self._outcome(wait)}")
        return None if found is None else _read(found)

    async def wake(self, wait: Wait) -> None:
        """See WaitStore."""
        if wait.key_hash is None:
            await self._wake_run(wait.run)
        else:
            await self._wake_key(wait.run, wait.key_hash)

    async def forget(self, run: str, open_waits: Collection[Wait]) -> None:
        """See WaitStore. A pod may have died before it removed the attempt."""
        for wait in open_waits:
            await self.close(wait)
        await self._messages.purge(self._streams.later, self._streams.waiting(run))

    async def _wake_run(self, run: str) -> None:
        """Queue the attempt that waits for its time, and then remove it from there.

        After a death between the two, both are repeated. An attempt that the run has stored since is not removed. A
        server that is behind may answer with an earlier attempt than waits: then it is asked again.
        """
        later, waiting = self._streams.later, self._streams.waiting(run)
        for number in range(1, READ_ATTEMPTS + 1):
            found = await self._present(later, waiting)
            if found is None or await self._continue_now(run, found):
                return
            if waiting not in await self._messages.subjects(later, waiting):
                return
            await read_pause(number)
        raise EventsUnavailableError(BEHIND)

    async def _continue_now(self, run: str, found: Msg) -> bool:
        """Whether this attempt was the one that waited; it does not any more."""
        streams, headers, number = self._streams, found.headers or {}, _number(found)
        waiting = streams.waiting(run)
        try:
            metadata = EventMetadata.parse(headers)
        except InvalidEventError:
            return True
        try:
            queued = {HEADER: headers[HEADER], MESSAGE_ID: f"{run}/wake/{number}"}
            await self._store(streams.event(metadata.task, run, metadata.priority), found.data, queued)
        except QueueFullError:
            # There is no room, or the run's event is there yet, and is about to be acknowledged. It comes by its time,
            # which is now and takes a fifth of a second.
            now = schedule(streams.due(run), self._clock())
            kept = {HEADER: headers[HEADER]}
            return await self._unless_changed(
                waiting, found.data, {**kept, **now, EXPECTED_SEQUENCE: str(number)}
            )
        return bool(await self._messages.purge(streams.later, waiting, before=number + 1))

    async def _wake_key(self, run: str, key_hash: str) -> None:
        """Continue the oldest event of a key: clear the time in its state, and make the key's token come now."""
        streams = self._streams
        state = streams.run_state(run)
        for number in range(1, READ_ATTEMPTS + 1):
            found = await self._present(streams.runs, state)
            if found is None:
                return
            headers = found.headers or {}
            # Where it is cleared already, too: a server that is behind may show an earlier one.
            kept = {HEADER: headers[HEADER], UNTIL_HEADER: "0", TTL: STEPS_TTL}
            expected = {EXPECTED_SEQUENCE: str(_number(found))}
            if await self._unless_changed(state, found.data, {**kept, **expected}):
                break
            await read_pause(number)
        else:
            raise EventsUnavailableError(BEHIND)
        waiting = streams.waiting_key(key_hash)
        token = await self._connection.get(f"{streams.later}.{waiting}")
        if not await self._messages.store(streams.key_token(key_hash), b"", {}):
            # The pod that has the token may be about to let it go, and then looks for the one that waits.
            due = schedule(streams.due_key(key_hash), self._clock())
            await self._messages.store(waiting, b"", due)
        elif token is not None:
            await self._messages.purge(streams.later, waiting, before=_number(token) + 1)

    async def _unless_changed(self, subject: str, content: bytes, headers: Mapping[str, str]) -> bool:
        """Whether it was stored: the message at the subject still had the expected number."""
        try:
            await self._store(subject, content, headers)
        except _WrongSequenceError:
            return False
        return True

    async def _rule(self, subject: str) -> WaitRule | None:
        now = time.monotonic()
        read_at, rule = self._rules.get(subject, (None, None))
        if read_at is None or now - read_at > _RULES_SECONDS:
            found = await self._present(self._streams.runs, subject)
            try:
                rule = None if found is None else WaitRule.decode(found.data)
            except InvalidRuleError:
                rule = None
            self._rules[subject] = (now, rule)
        return rule

    async def _find(self, wait: OpenWait, *, since: int) -> KeptEvent | None:
        subjects = await self._subjects(self._streams.kept_event(wait.index, "*"), since)
        # Runs' ids begin with the time.
        left = sorted(one for one in subjects if subject_parts(one)[2] not in wait.taken)
        # The oldest may be from before the wait: what has just come is among the newest.
        for some in (left[:_MOST_KEPT], left[_MOST_KEPT:][-_MOST_KEPT:]):
            if (event := wait.ended_by(await self._read_kept(some))) is not None:
                return event
        return None

    async def _read_kept(self, subjects: Sequence[str]) -> Sequence[KeptEvent]:
        found = [await self._present(self._streams.runs, subject) for subject in subjects]
        return [event for one in found if one is not None and (event := _event(one)) is not None]

    async def _subjects(self, subjects: str, since: int) -> set[str]:
        return await self._messages.subjects_since(self._streams.runs, subjects, since)

    async def _present(self, stream: str, subject: str) -> Msg | None:
        """The message at a subject; None only where the stream's leader has none."""
        for number in range(1, READ_ATTEMPTS + 1):
            found = await self._connection.get(f"{stream}.{subject}")
            if found is not None or subject not in await self._messages.subjects(stream, subject):
                return found
            await read_pause(number)
        raise EventsUnavailableError(BEHIND)

    async def _store(self, subject: str, content: bytes, headers: Mapping[str, str]) -> int:
        """The message's number. Raises _WrongSequenceError where it is not what the headers expect."""
        try:
            answer = parsed(await self._connection.request(subject, content, headers=headers))
        except RefusedByEngineError as error:
            if error.code in WRONG_SEQUENCE:
                raise _WrongSequenceError from None
            if error.code in TOO_LARGE:
                raise MessageTooLargeError(error.description) from None
            raise QueueFullError(
                f"The event engine keeps no more waits of this environment now: {error.description}"
            ) from None
        return int(answer["seq"])

    def _subject(self, wait: Wait) -> str:
        return self._streams.wait(wait.index, wait.run, wait.name, wait.key_hash)

    def _outcome(self, wait: Wait) -> str:
        if wait.approval is not None:
            return self._streams.answered(wait.approval)
        return self._streams.outcome(wait.run, wait.name)


class _WrongSequenceError(Exception):
    """The subject's last message is another one."""


def _written(outcome: Outcome) -> tuple[bytes, dict[str, str]]:
    if outcome.event is None:
        return b"", {TIMED_OUT: "1"}
    return outcome.event.payload, {HEADER: outcome.event.metadata.header()}


def _read(found: Msg) -> Outcome:
    if TIMED_OUT in (found.headers or {}):
        return Outcome()
    event = _event(found)
    if event is None:
        raise EventsUnavailableError("What ended a wait cannot be read")
    return Outcome(event=event)


def _number(found: Msg) -> int:
    return int((found.headers or {})["Nats-Sequence"])


def _event(found: Msg) -> KeptEvent | None:
    try:
        metadata = EventMetadata.parse(found.headers)
    except InvalidEventError:
        return None
    return KeptEvent(metadata=metadata, payload=found.data, kept_at=_stored_at(found))


def _stored_at(found: Msg) -> float:
    """When the engine stored a message; 0 where it does not say so."""
    try:
        return datetime.fromisoformat((found.headers or {})[_TIME]).timestamp()
    except (KeyError, ValueError):
        return 0.0
