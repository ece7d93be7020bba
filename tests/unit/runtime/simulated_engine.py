"""The event engine and pods in one process, with a clock that is turned: pods die between any two of their requests.

The pods have the real client code: queue, deliveries, keys, steps, waits and settlement. The engine does what JetStream
does with the streams of an environment, as far as these need it.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

from nats.aio.msg import Msg

from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.deliveries import Leases
from tieline.events.engine.keys import KeyedEvents
from tieline.events.engine.queue import EngineQueue
from tieline.events.event import EventTask
from tieline.events.queue import Delivery, EventsUnavailableError
from tieline.events.retry import Reject, Retry, RetryLater
from tieline.events.run_cancellation import CancelledByEvent, run_cancellation
from tieline.events.run_store import RunTakenOver
from tieline.events.run_waits import RunWaits
from tieline.events.steps import RunSteps, SuspendedRun
from tieline.server.debounced_events import DebouncedEvents
from tieline.server.ended_waits import EndedWaits
from tieline.server.event_attempt import Attempt
from tieline.server.event_batches import batch_rule_of
from tieline.server.event_settlement import EventSettlement
from tieline.server.throttled_events import ThrottledEvents
from tieline.telemetry.redaction import Redactor
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunRecord
from tieline_protocol.waits import WaitRule

STREAMS = EventStreams("org", "env")
LEASE = 30.0
START = 1_800_000_000.0
_DUPLICATES = 120.0
_KEPT_STATES = 4
_EXPECTED = "Nats-Expected-Last-Subject-Sequence"


@dataclass
class _Message:
    number: int
    subject: str
    data: bytes
    headers: dict[str, str]
    stored_at: float = 0.0
    deliveries: int = 0
    leased_until: float = 0.0

    def to_msg(self, subject: str = "", reply: str = "") -> Msg:
        stored_at = datetime.fromtimestamp(self.stored_at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f000Z")
        headers = {
            **self.headers,
            "Nats-Sequence": f"{self.number}",
            "Nats-Subject": self.subject,
            "Nats-Time-Stamp": stored_at,
        }
        return Msg(cast(Any, None), subject or self.subject, reply, self.data, headers)


@dataclass
class _Stream:
    name: str
    one_a_subject: bool = False
    messages: dict[str, _Message] = field(default_factory=dict)
    last: int = 0
    ids: dict[str, tuple[int, float]] = field(default_factory=dict)
    states: list[dict[str, _Message]] = field(default_factory=list)
    """What servers that are behind have."""

    def matching(self, subjects: str) -> list[_Message]:
        if "*" not in subjects and ">" not in subjects:
            return [self.messages[subjects]] if subjects in self.messages else []
        wanted = _expression(subjects)
        return [one for subject, one in self.messages.items() if wanted.fullmatch(subject)]


@lru_cache(maxsize=1000)
def _expression(subjects: str) -> re.Pattern[str]:
    """Of the subjects of a filter with wildcards."""
    wildcards = {"*": "[^.]+", ">": ".+"}
    return re.compile(r"\.".join(wildcards.get(token) or re.escape(token) for token in subjects.split(".")))


class SimulatedEngine:
    """The streams of one environment."""

    def __init__(self, seed: int, *, behind: float = 0.0) -> None:
        """``behind`` is how often a read is answered by a server that is behind."""
        self.chance = random.Random(seed)
        self.now = START
        self._behind = behind
        self.queue = _Stream(STREAMS.queue, one_a_subject=True)
        self.later = _Stream(STREAMS.later)
        self.runs = _Stream(STREAMS.runs)
        self.dead = _Stream(STREAMS.dead_letters)
        self._streams = {one.name: one for one in (self.queue, self.later, self.runs, self.dead)}
        self.history: list[RunRecord] = []

    def clock(self) -> float:
        return self.now

    def publish(self, subject: str, data: bytes, headers: dict[str, str]) -> dict[str, Any]:
        """JetStream's answer."""
        stream = self._stream_of(subject)
        identifier = headers.get("Nats-Msg-Id")
        if identifier is not None:
            number, at = stream.ids.get(identifier, (0, 0.0))
            if self.now - at < _DUPLICATES:
                return {"stream": stream.name, "seq": number, "duplicate": True}
        if _EXPECTED in headers:
            about = headers.get(f"{_EXPECTED}-Subject", subject)
            last = max((one.number for one in stream.matching(about)), default=0)
            if last != int(headers[_EXPECTED]):
                return _refused(10071, f"wrong last sequence: {last}")
        if stream.one_a_subject and subject in stream.messages:
            return _refused(10077, "maximum messages per subject exceeded")
        self._remember(stream)
        stream.last += 1
        stream.messages.pop(subject, None)
        stream.messages[subject] = _Message(stream.last, subject, data, dict(headers), self.now)
        if identifier is not None:
            stream.ids[identifier] = (stream.last, self.now)
        return {"stream": stream.name, "seq": stream.last}

    def acknowledge(self, reply: str, content: bytes) -> None:
        _, _, name, _, _, number, *_ = reply.split(".")
        stream = self._streams[name]
        for subject, message in list(stream.messages.items()):
            if message.number != int(number):
                continue
            if content == b"+ACK":
                self._remember(stream)
                del stream.messages[subject]
            elif content.startswith(b"-NAK"):
                message.leased_until = self.now + json.loads(content[5:])["delay"] / 1e9

    def read(self, stream: str, body: dict[str, Any], subject: str) -> _Message | None:
        found = self._streams[stream]
        messages = found.messages
        if self.chance.random() < self._behind and found.states:
            messages = self.chance.choice(found.states)
        if subject:
            return messages.get(subject)
        if "multi_last" in body:
            return next((messages[one] for one in body["multi_last"] if one in messages), None)
        wanted, number = _expression(body["next_by_subj"]), body["seq"]
        found = (one for one in messages.values() if one.number >= number and wanted.fullmatch(one.subject))
        return min(found, key=lambda one: one.number, default=None)

    def api(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        operation, _, name = subject.rpartition(".")
        stream = self._streams[name]
        if operation == "STREAM.INFO":
            subjects = {one.subject: 1 for one in stream.matching(body.get("subjects_filter", ">"))}
            return {
                "config": {"metadata": {}, "max_bytes": 0},
                "state": {"subjects": subjects, "last_seq": stream.last, "bytes": 0},
                "total": len(subjects),
            }
        self._remember(stream)
        if operation == "STREAM.PURGE":
            before = body.get("seq", stream.last + 1)
            purged = [found.subject for found in stream.matching(body["filter"]) if found.number < before]
            for one in purged:
                del stream.messages[one]
            return {"purged": len(purged)}
        assert operation == "STREAM.MSG.DELETE"
        stream.messages = {key: one for key, one in stream.messages.items() if one.number != body["seq"]}
        return {}

    def fire(self) -> None:
        """Move what is due."""
        for subject, message in list(self.later.messages.items()):
            at = message.headers.get("Nats-Schedule", "")
            if at and datetime.fromisoformat(at.removeprefix("@at ")).timestamp() <= self.now:
                self._remember(self.later)
                del self.later.messages[subject]
                headers = {key: value for key, value in message.headers.items() if "Schedule" not in key}
                for one in (_EXPECTED, "Nats-Msg-Id"):
                    headers.pop(one, None)
                self.publish(message.headers["Nats-Schedule-Target"], message.data, headers)

    def deliverable(self) -> Iterator[tuple[str, Msg]]:
        """What pods get now, with its stream."""
        for stream, prefix in ((self.queue, "ev."), (self.later, "due.")):
            for message in list(stream.messages.values()):
                if message.subject.startswith(prefix) and message.leased_until <= self.now:
                    message.deliveries += 1
                    message.leased_until = self.now + LEASE
                    stamp = f"{message.deliveries}.{message.number}.0.{int(self.now * 1e9) % 10**9}.0"
                    yield stream.name, message.to_msg(reply=f"$JS.ACK.{stream.name}.pods.{stamp}")

    @property
    def next_time(self) -> float | None:
        """When something happens by itself."""
        times = [
            datetime.fromisoformat(one.headers["Nats-Schedule"].removeprefix("@at ")).timestamp()
            for one in self.later.messages.values()
            if "Nats-Schedule" in one.headers
        ]
        waiting = [*self.queue.messages.values(), *self.later.messages.values()]
        times += [one.leased_until for one in waiting if one.subject.startswith(("ev.", "due."))]
        return min(times, default=None)

    def _stream_of(self, subject: str) -> _Stream:
        prefix = subject.partition(".")[0]
        return {
            "ev": self.queue,
            "key": self.queue,
            "later": self.later,
            "due": self.later,
            "run": self.runs,
            "dead": self.dead,
        }[prefix]

    def _remember(self, stream: _Stream) -> None:
        if self._behind:
            stream.states = [*stream.states[-_KEPT_STATES:], dict(stream.messages)]


def _refused(code: int, description: str) -> dict[str, Any]:
    return {"error": {"err_code": code, "description": description}}


class _Connection:
    """A pod's way to the engine. See EngineConnection."""

    streams = STREAMS

    def __init__(self, engine: SimulatedEngine) -> None:
        self._engine = engine

    @property
    def heard(self) -> float:
        return self._engine.now

    async def _moment(self) -> None:
        chance = self._engine.chance
        # Now and then a pod hangs for a while.
        for _ in range(chance.randrange(100) if chance.random() < 0.04 else chance.randrange(3)):
            await asyncio.sleep(0)

    async def request(self, subject: str, content: bytes = b"", *, headers: Any = None) -> Msg:
        await self._moment()
        if subject.startswith("$JS.ACK"):
            self._engine.acknowledge(subject, content)
            answer: dict[str, Any] = {}
        else:
            answer = self._engine.publish(subject, content, dict(headers or {}))
        await self._moment()
        return Msg(cast(Any, None), "answer", "", json.dumps(answer).encode(), None)

    async def get(self, subject: str, **body: Any) -> Msg | None:
        await self._moment()
        stream, _, rest = subject.partition(".")
        found = self._engine.read(stream, body, rest)
        await self._moment()
        return None if found is None else found.to_msg()

    async def api(self, subject: str, **body: Any) -> dict[str, Any]:
        await self._moment()
        answer = self._engine.api(subject, body)
        await self._moment()
        return answer


def connection_to(engine: SimulatedEngine) -> EngineConnection:
    """A pod's way to the engine."""
    return cast(EngineConnection, _Connection(engine))


Code = Callable[[RunWaits, Attempt], Awaitable[None]]


class SimulatedPod:
    """A pod, until it is killed."""

    def __init__(
        self,
        engine: SimulatedEngine,
        code: Code,
        rules: list[WaitRule],
        cancel_on: Mapping[str, WaitRule] = MappingProxyType({}),
        tasks: Mapping[str, EventTask] = MappingProxyType({}),
    ) -> None:
        """``cancel_on`` has the events that cancel runs, by the runs' tasks; ``tasks`` all that have options."""
        self._cancel_on = cancel_on
        self._tasks = tasks
        self._engine = engine
        self._code = code
        connection = connection_to(engine)
        self.queue = EngineQueue(connection, lease=LEASE, clock=engine.clock)
        self.queue.leases = Leases(connection, seconds=LEASE, clock=engine.clock)
        self.queue.keys = KeyedEvents(self.queue, self.queue.leases)
        self.queue._handle = self._run
        self._rules = rules
        history = SimpleNamespace(add=engine.history.append, write=self._write)
        self._settlement = EventSettlement(
            self.queue, cast(Any, history), redact=Redactor, version="v1", clock=engine.clock
        )
        own = {rule.name: [one for one in rules if one.name == rule.name] for rule in rules}
        self._ended_waits = EndedWaits(self.queue, self._settlement, own, clock=engine.clock)
        self._debounced = DebouncedEvents(self.queue, self._settlement, clock=engine.clock)
        self._throttled = ThrottledEvents(self.queue, self._settlement, clock=engine.clock)
        self._running: dict[str, asyncio.Future[None]] = {}

    async def start(self) -> None:
        await self.queue.waits.declare(self._rules)

    async def _write(self, record: RunRecord) -> None:
        self._engine.history.append(record)

    def take(self, stream: str, message: Msg) -> None:
        if stream == STREAMS.queue:
            self.queue._take_event(0, message)
        else:
            self.queue._take_due(message)

    @property
    def busy(self) -> bool:
        return bool(self.queue._running)

    async def kill(self) -> None:
        tasks = list(self.queue._running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, delivery: Delivery) -> None:
        run = delivery.metadata.run
        if await self._debounced.leave_key(self._tasks.get(delivery.metadata.task), delivery):
            return
        while (earlier := self._running.get(run)) is not None:
            await asyncio.wait((earlier,))
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._running[run] = ended
        try:
            await self._attempt(delivery)
        finally:
            del self._running[run]
            ended.set_result(None)

    async def _attempt(self, delivery: Delivery) -> None:
        metadata, settlement = delivery.metadata, self._settlement
        deaths = await delivery.interruptions()
        rule = batch_rule_of(self._tasks.get(metadata.task), metadata, delivery.payload)
        kills = deaths if rule is None else 0
        attempt = Attempt(
            metadata=metadata,
            delivery=delivery,
            number=metadata.attempt + kills,
            retry=Retry(),
            started_at=self._engine.now,
            interruptions=kills,
            was_handed_out=deaths > 0,
        )
        try:
            if attempt.may_have_begun and await settlement.settle_ended(attempt):
                return
            attempt.cancellation = run_cancellation(
                self.queue.waits,
                self._cancel_on.get(metadata.task),
                metadata,
                delivery.payload,
                key_hash=delivery.key_hash,
                began_wait=attempt.may_have_begun,
            )
            if attempt.cancellation is not None and await attempt.cancellation.look():
                await settlement.cancel(attempt)
                return
            if await self._ended_waits.end(attempt, has_task=False) is not None:
                return
            if await self._debounced.settle(attempt, self._tasks.get(metadata.task)) is not None:
                return
            if await self._throttled.settle(attempt, self._tasks.get(metadata.task)) is not None:
                return
            await delivery.begins(kills)
            attempt.steps = steps = RunSteps(
                self.queue.runs,
                metadata.run,
                may_have_results=attempt.may_have_begun,
                held=lambda: delivery.held,
                clock=self._engine.clock,
                version="v1",
                check_cancelled=attempt.cancellation.check if attempt.cancellation else None,
            )
            attempt.waits = waits = RunWaits(
                self.queue.waits,
                steps,
                run=metadata.run,
                key_hash=delivery.key_hash,
                clock=self._engine.clock,
            )
            try:
                await self._code(waits, attempt)
            except SuspendedRun as suspended:
                await settlement.wait(attempt, attempt.number, suspended.until)
            except Reject as error:
                await settlement.dead_letter(attempt, error)
            except RetryLater as later:
                until = self._engine.now + later.after
                await settlement.wait(attempt, attempt.number, until)
            except CancelledByEvent:
                await settlement.cancel(attempt)
            else:
                await settlement.succeed(attempt)
        except RunTakenOver:
            # It comes again once nobody renews its lease, as an attempt that was interrupted.
            pass
        except EventsUnavailableError:
            await delivery.release()
