"""Requests of pods to the engine: how many there are, and what is made of answers that come in parts."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from nats.aio.msg import Msg

from tieline.events.engine.connection import EngineConnection
from tieline.events.engine.deliveries import Leases
from tieline.events.engine.keys import KeyedEvents
from tieline.events.engine.queue import EngineQueue
from tieline.events.engine.run_storage import RunState
from tieline.events.engine.storage import EngineStorage
from tieline.events.engine.waiting_limit import WaitingLimit
from tieline.events.queue import EventsUnavailableError, QueueFullError
from tieline_protocol.event_streams import MAX_BYTES, EventStreams
from tieline_protocol.events import HEADER, MESSAGE_ID, EventMetadata

pytestmark = pytest.mark.fast

STREAMS = EventStreams("org", "env")
PAGE = 100_000


class _Engine:
    """A connection to a server that has events, tokens and a number of bytes that wait."""

    streams = STREAMS

    def __init__(self) -> None:
        self.subjects: dict[str, list[str]] = {}
        self.stored = 0
        self.away = False
        self.asked = 0

    async def api(self, subject: str, **body: Any) -> dict[str, Any]:
        self.asked += 1
        if self.away:
            raise EventsUnavailableError("away")
        found = self.subjects.get(body.get("subjects_filter", ""), [])
        offset = body.get("offset", 0)
        return {
            "config": {"metadata": {MAX_BYTES: "1000"}},
            "state": {"bytes": self.stored, "subjects": dict.fromkeys(found[offset : offset + PAGE], 1)},
            "total": len(found),
            "offset": offset,
        }


class _Storage(EngineStorage):
    def __init__(self, engine: _Engine) -> None:
        super().__init__(engine)  # type: ignore[arg-type]
        self.tokens: list[str] = []

    async def publish_token(self, key_hash: str, headers: object = None) -> None:
        self.tokens.append(key_hash)


async def test_lost_tokens_are_found_among_more_keys_than_an_answer_has() -> None:
    engine = _Engine()
    keys = [f"{number:032x}" for number in range(PAGE * 2 + 3)]
    engine.subjects[STREAMS.keyed_event("*", "*")] = [STREAMS.keyed_event(key, "run") for key in keys]
    engine.subjects[STREAMS.key_token("*")] = [STREAMS.key_token(key) for key in keys[:-1]]
    storage = _Storage(engine)
    await KeyedEvents(storage, Leases(storage.connection, seconds=30)).publish_lost_tokens()
    assert storage.tokens == [keys[-1]]


async def test_how_much_waits_is_asked_for_every_ten_seconds_while_events_are_published() -> None:
    engine, now = _Engine(), 1000.0
    connection: EngineConnection = engine  # type: ignore[assignment]
    limit = WaitingLimit(connection, clock=lambda: now)
    for _ in range(100):
        await limit.check()
    assert engine.asked == 1
    engine.stored = 1000
    now += 9
    await limit.check()
    assert engine.asked == 1
    now += 3600  # nobody publishes
    with pytest.raises(QueueFullError, match="1,000 bytes that wait"):
        await limit.check()
    assert engine.asked == 2
    engine.stored = 999
    now += 3600
    await limit.check()
    assert engine.asked == 3


async def test_what_cannot_be_asked_for_refuses_nobody() -> None:
    engine, now = _Engine(), 1000.0
    connection: EngineConnection = engine  # type: ignore[assignment]
    limit = WaitingLimit(connection, clock=lambda: now)
    engine.stored = 2000
    with pytest.raises(QueueFullError):
        await limit.check()
    engine.away = True
    now += 3600
    await limit.check()
    await limit.check()
    assert engine.asked == 2


KEYED = EventMetadata(run="run", kind="event", task="ship", queued_at=1, key="7")


class _Deduplicating(_Engine):
    """Stores messages by subject, and none of an id that it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: dict[str, bytes] = {}
        self._ids: set[str] = set()

    async def request(self, subject: str, payload: bytes, *, headers: dict[str, str]) -> Any:
        identifier = headers.get(MESSAGE_ID, subject)
        is_known = identifier in self._ids
        self._ids.add(identifier)
        if not is_known:
            self.messages[subject] = payload
        return Msg(None, data=json.dumps({"stream": "s", "seq": 1, "duplicate": is_known}).encode())  # type: ignore[arg-type]


async def test_an_event_that_moves_to_another_key_is_no_duplicate() -> None:
    engine = _Deduplicating()
    queue = EngineQueue(engine)  # type: ignore[arg-type]
    shared = replace(KEYED, shared_key=True)
    # The time of a delayed event has come, and its task shares its key.
    await queue.requeue(KEYED, b"{}")
    await queue.requeue(shared, b"{}")
    assert STREAMS.keyed_event(shared.key_hash, "run") in engine.messages


async def test_an_event_that_a_pod_began_with_may_have_steps() -> None:
    class Runs:
        async def state(self, run: str) -> RunState:
            return RunState(KEYED, 0, begins_waits=False, number=1)

    storage = _Storage(_Engine())
    storage.runs = Runs()  # type: ignore[assignment]
    keys = KeyedEvents(storage, Leases(storage.connection, seconds=30))
    head = Msg(None, headers={HEADER: KEYED.header(), "Nats-Sequence": "1"})  # type: ignore[arg-type]
    lease: Any = SimpleNamespace(has_slot=False)
    delivery = await keys._delivery(lease, KEYED.key_hash, head, crashed=False, may_have_state=True)
    assert delivery is not None
    assert delivery.metadata.has_steps, "so that it stays behind its key"


async def test_a_pod_that_died_before_its_waits_began_excuses_one_crash() -> None:
    saved: list[tuple[int, bool]] = []

    class Runs:
        async def state(self, run: str) -> RunState:
            return RunState(KEYED, 0, begins_waits=not saved, number=1)

        async def save_state(self, metadata: EventMetadata, until: float, *, begins_waits: bool) -> None:
            saved.append((metadata.interruptions, begins_waits))

    storage = _Storage(_Engine())
    storage.runs = Runs()  # type: ignore[assignment]
    keys = KeyedEvents(storage, Leases(storage.connection, seconds=30))
    head = Msg(None, headers={HEADER: KEYED.header(), "Nats-Sequence": "1"})  # type: ignore[arg-type]
    lease: Any = SimpleNamespace(has_slot=False)
    counted = []
    for _ in range(3):
        delivery = await keys._delivery(lease, KEYED.key_hash, head, crashed=True, may_have_state=True)
        assert delivery is not None
        counted.append(await delivery.interruptions())
        await delivery.begins(counted[-1])
    assert counted == [0, 1, 1], "the metadata of this test's state stays as it is"
    assert saved == [(0, False), (1, False), (1, False)]
