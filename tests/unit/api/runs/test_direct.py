"""Direct runs: what pods may report of them, what the index keeps, and calls of agents on their way to the engine."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.harness.session.waiting import eventually_async, until
from tests.unit.api.runs.run_records import NOW, life, record
from tieline_api.engine.errors import EngineUnavailableError, NoStreamError
from tieline_api.errors import ApiError
from tieline_api.runs.direct import DirectRuns, direct_records
from tieline_api.runs.index import RunIndex
from tieline_api.runs.model import PageRequest, Run, RunFilter
from tieline_api.runs.reading import RunReader
from tieline_core.engine.stored_messages import StoredMessage
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import MAX_HISTORY_BYTES, EventStreams
from tieline_protocol.events import WebhookRequest
from tieline_protocol.run_records import (
    MAX_DIRECT_INPUT,
    InvalidRecordsError,
    RunError,
    RunRecord,
    decode,
    encode,
    packed,
    unpacked,
)

STREAMS = EventStreams(new_id(), new_id())
ALL = RunFilter(organisation=STREAMS.organisation)


def ended(run: str = "", status: str = "succeeded", **fields: Any) -> RunRecord:
    """A record of a direct run, as pods report it."""
    content = {"kind": "webhook", "task": "orders", "started_at": NOW, "ended_at": NOW + 1, **fields}
    return record(run, status, 1, **content)


def read(*records: RunRecord, with_inputs: bool = False) -> tuple[list[RunRecord], int]:
    return direct_records(encode(records), now=NOW + 10, with_inputs=with_inputs)


def test_a_pod_reports_direct_runs_that_have_ended_and_nothing_else() -> None:
    good = [ended(kind=kind) for kind in ("webhook", "schedule", "background")]
    bad = [
        ended(kind="event"),
        ended(kind="call"),
        ended(status="dead"),
        ended(status="cancelled"),
        ended(status="running"),
        ended("no id"),
    ]
    records, malformed = read(*bad, *good)
    assert ([one.id for one in records], malformed) == ([one.id for one in good], len(bad))
    made_up = read(ended(key="k", event_id="e", replay_of=new_id(), attempts=9, next_attempt_at=NOW))[0][0]
    assert (made_up.key, made_up.event_id, made_up.replay_of, made_up.attempts) == (None, None, None, 1)
    for content in (b"", b"[", b"{}", b"[7, null]", b"," * 300_000):
        assert direct_records(content, now=NOW, with_inputs=True)[0] == []


@pytest.mark.parametrize(
    ("queued", "end"), [(NOW + 10**8, NOW + 10**9), (0.0, 8e9), (NOW, 0.0), (NOW, NOW + 10**8)]
)
def test_a_run_has_not_ended_in_the_future_nor_before_it_began(queued: float, end: float) -> None:
    ((found,), _) = read(ended(queued_at=queued, started_at=0.0, ended_at=end))
    assert found.started_at == found.queued_at
    assert found.ended_at is not None
    assert found.queued_at <= found.ended_at <= NOW + 70


def test_inputs_are_kept_where_the_project_says_so() -> None:
    request = WebhookRequest(method="POST", path="/orders")
    run = ended(input=b"body", request=request)
    assert [one.input for one in read(run)[0]] == [None]
    ((kept,), _) = read(run, with_inputs=True)
    assert (kept.input, kept.request) == (b"body", request)
    ((large,), _) = read(ended(input=bytes(MAX_DIRECT_INPUT + 1), request=request), with_inputs=True)
    assert (large.input, large.request) == (None, None)


def test_compressed_records_are_read_within_a_bound() -> None:
    run = ended()
    assert decode(unpacked(packed([run]))) == decode(encode([run]))
    for content in (b"", b"[]", packed([run])[:-3], zlib.compress(bytes(MAX_HISTORY_BYTES + 1))):
        with pytest.raises(InvalidRecordsError):
            unpacked(content)


class Streams:
    """The streams of an organisation as a replica reads them."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.told: list[tuple[str, str, set[str], int]] = []
        self.history = RunReader(index, notify=self._tell)
        self.direct = RunReader(index, direct=True, counts=self.history.counts, notify=self._tell)
        self._numbers = Counter[RunReader]()
        for reader in (self.history, self.direct):
            reader.begin(STREAMS.organisation, "then")

    def write(self, subject: str, *records: RunRecord, at: float = NOW) -> None:
        reader, pack = (self.direct, packed) if subject.startswith("direct.") else (self.history, encode)
        self._numbers[reader] += 1
        message = StoredMessage(self._numbers[reader], subject, {}, pack(records), at)
        reader.take(STREAMS.organisation, [message])

    def _tell(self, organisation: str, kind: str, ids: Iterable[str]) -> None:
        self.told.append((organisation, kind, {*ids}, len(self.runs())))

    def runs(self, **wanted: Any) -> list[Run]:
        found = RunFilter(organisation=STREAMS.organisation, **wanted)
        return self.index.page(found, PageRequest(first=9000), 9000)


@pytest.fixture
def streams(tmp_path: Path) -> Iterator[Streams]:
    index = RunIndex(tmp_path / "runs.db", max_bytes=4 << 20)
    yield Streams(index)
    index.close()


def test_what_has_changed_is_told_once_the_index_has_it(streams: Streams) -> None:
    event, direct = new_id(), ended()
    streams.write(STREAMS.history, *life(event))
    streams.write(STREAMS.direct, direct)
    streams.write(STREAMS.direct, ended("no id"))
    assert streams.told == [
        (STREAMS.organisation, "run", {event}, 1),
        (STREAMS.organisation, "run", {direct.id}, 2),
    ]


def test_both_streams_are_one_list_and_each_goes_on_where_it_was_read_to(streams: Streams) -> None:
    event, direct, call = new_id(), ended(queued_at=NOW + 1), ended(kind="call", queued_at=NOW + 2)
    streams.write(STREAMS.history, *life(event))
    streams.write(STREAMS.direct, direct)
    streams.write(STREAMS.direct, direct)
    streams.write(STREAMS.calls, call)
    assert [(run.id, run.kind, run.direct) for run in streams.runs()] == [
        (call.id, "call", True),
        (direct.id, "webhook", True),
        (event, "event", False),
    ]
    assert streams.index.count(ALL, 10) == 3
    assert [run.id for run in streams.runs(kind="call")] == [call.id]
    assert streams.history.begin(STREAMS.organisation, "then") == 1
    assert streams.direct.begin(STREAMS.organisation, "then") == 3
    streams.direct.sweep(STREAMS.organisation, 3)
    assert [run.id for run in streams.runs()] == [call.id, event]
    assert streams.direct.begin(STREAMS.organisation, "now") == 0
    assert [run.id for run in streams.runs()] == [event]
    assert (
        len(streams.index.attempts(STREAMS.organisation, streams.runs()[0], most=9, most_steps=9).attempts)
        == 2
    )
    streams.history.forget(STREAMS.organisation)
    assert streams.runs() == []


def test_runs_are_of_the_kinds_that_may_be_reported_there(streams: Streams) -> None:
    streams.write(STREAMS.history, ended(kind="call"))
    streams.write(STREAMS.direct, ended(kind="call"), ended(kind="event"))
    streams.write(STREAMS.calls, ended(kind="webhook"))
    streams.write(f"direct.{new_id()}.{STREAMS.environment}", ended())
    streams.direct.take(STREAMS.organisation, [StoredMessage(9, STREAMS.direct, {}, b"[]", NOW)])
    assert streams.runs() == []
    assert streams.history.counts["malformed"] == 6


def test_a_call_or_an_event_keeps_its_id_from_what_pods_report_under_it(streams: Streams) -> None:
    call, event, early = ended(kind="call", task="createOrder"), new_id(), new_id()
    streams.write(STREAMS.calls, call)
    streams.write(STREAMS.history, *life(event))
    streams.write(STREAMS.history, record(call.id, "dead", 99, task="forged", input=b"forged"))
    streams.write(STREAMS.direct, ended(call.id, "failed"), ended(event, "failed"), ended(early))
    streams.write(STREAMS.history, record(early, "dead", 3))
    found = {run.id: run for run in streams.runs()}
    assert (found[call.id].task, found[call.id].status, found[call.id].input_at) == (
        "createOrder",
        "succeeded",
        None,
    )
    assert (found[event].status, found[event].attempt, found[event].direct) == ("succeeded", 2, False)
    # An event's record says more than that of a direct run, whichever comes first.
    assert (found[early].status, found[early].attempt) == ("dead", 3)


def test_direct_runs_displace_no_other_runs_of_their_environment(streams: Streams) -> None:
    error = RunError(type="E", message="x" * 1000)
    dead = [record(status="dead", attempt=1, error=error, queued_at=NOW - 10**6) for _ in range(300)]
    streams.write(STREAMS.history, *dead)
    for _ in range(60):
        streams.write(STREAMS.direct, *(ended(status="failed", error=error) for _ in range(100)))
    last = ended()
    streams.write(STREAMS.direct, last)
    streams.index.bound()
    kept = {run.id for run in streams.runs()}
    assert kept >= {last.id, *(one.id for one in dead)}
    assert len(kept) < 6000


def test_who_was_first_with_an_id_the_engines_clock_says(streams: Streams) -> None:
    run, other = new_id(), EventStreams(STREAMS.organisation, new_id())
    for number in range(3):
        streams.write(STREAMS.direct, ended(), at=NOW + number)
    streams.write(STREAMS.direct, ended(run), at=NOW + 5)
    streams.write(other.history, record(run, "dead", 9), at=NOW + 9)
    found = streams.index.find(STREAMS.organisation, [other.environment, STREAMS.environment], run)
    assert [one.environment for one in found] == [STREAMS.environment, other.environment]


def test_what_can_be_done_again_leaves_out_direct_runs_without_input(streams: Streams) -> None:
    event, kept = new_id(), ended(input=b"{}")
    streams.write(STREAMS.history, *life(event))
    streams.write(STREAMS.direct, ended(), kept)
    found = {run.id: run.input_at for run in streams.runs(actionable=True)}
    assert found == {event: 1, kept.id: 1}


class Engine:
    """Takes messages, or raises."""

    def __init__(self, *, refused: str = "") -> None:
        """``refused`` is a subject without a stream."""
        self.refused = refused
        self.error: Exception | None = None
        self.connected = True
        self.asked = 0
        self.stored: list[tuple[str, list[RunRecord]]] = []

    async def ask(self, work: Any) -> None:
        self.asked += 1
        if self.error is not None:
            raise self.error

        async def publish(subject: str, content: bytes) -> None:
            if subject == self.refused:
                raise NoStreamError
            self.stored.append((subject, decode(unpacked(content))))

        await work(SimpleNamespace(publish=publish))


async def until_asked(engine: Engine, often: int) -> None:
    async def asked() -> bool:
        return engine.asked >= often

    await eventually_async("the engine to be asked", asked, within=20)


async def test_a_call_waits_for_the_engine_and_is_stored_once_it_is_back() -> None:
    engine, counts = Engine(), Counter[str]()
    runs = DirectRuns(engine, counts)  # type: ignore[arg-type]
    await runs.start()
    engine.error, engine.connected = EngineUnavailableError(), False
    call, other = ended(kind="call"), EventStreams(new_id(), new_id())
    runs.called(STREAMS, call)
    runs.called(other, ended(kind="call"))
    await until_asked(engine, 3)
    engine.error, engine.connected = None, True
    await runs.stop()
    assert {(subject, len(records)) for subject, records in engine.stored} == {
        (STREAMS.calls, 1),
        (other.calls, 1),
    }
    assert not +counts


async def test_calls_that_are_refused_delay_no_other_organisation() -> None:
    engine = Engine(refused=STREAMS.calls)
    runs = DirectRuns(engine, Counter())  # type: ignore[arg-type]
    other = EventStreams(new_id(), new_id())
    for _ in range(500):
        runs.called(STREAMS, ended(kind="call"))
    calls = [ended(kind="call") for _ in range(3)]
    for call in calls:
        runs.called(other, call)
    await runs.start()
    await until(lambda: len(engine.stored) == len(calls))
    assert engine.asked < 10, "one attempt for those that are refused"
    engine.refused = ""
    await runs.stop()
    assert len(engine.stored) == 503


async def test_calls_beyond_the_bound_are_dropped_and_counted() -> None:
    counts = Counter[str]()
    runs = DirectRuns(Engine(), counts)  # type: ignore[arg-type]
    for _ in range(10_003):
        runs.called(STREAMS, ended(kind="call"))
    assert counts == {"dropped": 3}


async def test_reports_without_a_stream_or_without_room_are_sent_again() -> None:
    engine = Engine()
    runs = DirectRuns(engine, Counter())  # type: ignore[arg-type]
    engine.error = NoStreamError()
    with pytest.raises(ApiError) as refused:
        await runs.store(STREAMS, [ended()])
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (503, "2")
    organisations = ["one"] * 4 + [str(number) for number in range(12)]
    rooms = [runs.report(one) for one in organisations]
    for number, room in enumerate(rooms):
        if number == 4:
            with pytest.raises(ApiError):
                await runs.report("one").__aenter__()
        await room.__aenter__()
    with pytest.raises(ApiError) as full:
        await runs.report("another").__aenter__()
    assert full.value.status == 429
    for room in rooms:
        await room.__aexit__(None, None, None)
    async with runs.report("one"):
        pass


def test_records_are_read_as_json_only() -> None:
    assert direct_records(orjson.dumps({"id": new_id()}), now=NOW, with_inputs=False) == ([], 1)
