"""What pods report of runs is found at every replica of the API, whatever happens to replica and engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.integration.engine.running_history import Replica, replica
from tests.unit.api.runs.run_records import NOW, life, record
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.runs import reading
from tieline_api.runs.model import PageRequest, Run, RunFilter
from tieline_api.runs.records import CheckedRecord, read_records
from tieline_core.engine.streams import StreamLimits, ensure_history
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import EventStreams, direct_stream, history_stream
from tieline_protocol.run_records import RunRecord, encode, packed

LIMITS = StreamLimits(queue_bytes=1 << 24, runs_bytes=1 << 24, history_bytes=1 << 24)


@dataclass
class Organisation:
    """An organisation with two environments, and the pods of each."""

    id: str
    streams: tuple[EventStreams, EventStreams]
    pods: tuple[Client, Client]
    admin: Client

    async def report(self, *records: RunRecord, environment: int = 0) -> None:
        await self.raw(encode(records), environment=environment)

    async def raw(self, content: bytes, *, environment: int = 0) -> None:
        pod, streams = self.pods[environment], self.streams[environment]
        await pod.jetstream(timeout=5).publish(streams.history, content)

    async def did(self, *records: RunRecord, environment: int = 0) -> None:
        """Direct runs, as the API stores what pods report."""
        subject = self.streams[environment].direct
        await self.admin.jetstream(timeout=5).publish(subject, packed(records))

    @property
    def environments(self) -> tuple[str, ...]:
        return tuple(one.environment for one in self.streams)


@pytest.fixture
async def organisation(engine: NatsServer) -> AsyncIterator[Organisation]:
    admin = await engine.admin()
    made = await make_organisation(engine, admin)
    yield made
    for client in (*made.pods, admin):
        await client.close()


async def make_organisation(engine: NatsServer, admin: Client) -> Organisation:
    identifier = new_id()
    streams = (EventStreams(identifier, new_id()), EventStreams(identifier, new_id()))
    await ensure_history(admin.jetstream(), identifier, LIMITS)
    for one in streams:
        await engine.make_environment(one, LIMITS)
    return Organisation(
        identifier, streams, (await engine.pod(streams[0]), await engine.pod(streams[1])), admin
    )


async def listed(one: Replica, organisation: str, first: int = 1000) -> list[Run]:
    page = await one.history.page(RunFilter(organisation=organisation), PageRequest(first=first))
    assert page.total >= len(page.runs)
    return page.runs


async def eventually(what: Callable[[], Awaitable[bool]], seconds: float = 15) -> None:
    until = time.monotonic() + seconds
    while not await what():
        assert time.monotonic() < until, "it never came"
        await asyncio.sleep(0.05)


async def until_there(one: Replica, organisation: str, runs: Sequence[str]) -> None:
    async def there() -> bool:
        try:
            return {run.id for run in await listed(one, organisation)} >= set(runs)
        except EngineUnavailableError:
            return False

    await eventually(there)


async def test_runs_that_pods_report_are_found_at_every_replica_and_after_the_loss_of_its_disk(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    runs = [new_id() for _ in range(50)]
    for number, run in enumerate(runs):
        await organisation.report(*life(run), environment=number % 2)
    async with replica(engine, tmp_path / "a") as first, replica(engine, tmp_path / "b") as second:
        await until_there(first, organisation.id, runs)
        late = new_id()
        await organisation.report(*life(late)[:2])
        for one in (first, second):
            await until_there(one, organisation.id, [late])
        answers = [await listed(one, organisation.id) for one in (first, second)]
        assert answers[0] == answers[1]
        assert {run.environment for run in answers[0]} == set(organisation.environments)
        assert [run.status for run in answers[0] if run.id == late] == ["running"]
    async with replica(engine, tmp_path / "c") as third:
        await until_there(third, organisation.id, [*runs, late])
        assert await listed(third, organisation.id) == answers[0]


async def test_a_restarted_replica_reads_only_what_it_has_not_read(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    runs = [new_id() for _ in range(3)]
    await organisation.report(*life(runs[0]), *life(runs[1]))
    async with replica(engine, tmp_path / "a") as first:
        await until_there(first, organisation.id, runs[:2])
    await organisation.report(*life(runs[2]))
    async with replica(engine, tmp_path / "a") as again:
        await until_there(again, organisation.id, runs)
        assert again.reader.counts["read"] == len(life(runs[2]))


async def test_the_input_of_a_run_comes_from_the_engine(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    run = new_id()
    await organisation.report(record(), *life(run))
    async with replica(engine, tmp_path / "a") as one:
        await until_there(one, organisation.id, [run])
        found = await one.history.get(organisation.id, organisation.environments, run)
        assert found is not None
        given = await one.history.input(organisation.id, found)
        assert given is not None
        assert given.payload == b'{"id": 1}'
        assert await one.history.get(new_id(), organisation.environments, run) is None
        assert await one.history.get(organisation.id, (new_id(),), run) is None


async def test_an_organisation_that_is_not_served_is_not_read(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    other = await make_organisation(engine, organisation.admin)
    run, hidden = new_id(), new_id()
    await organisation.report(*life(run))
    await other.report(*life(hidden))
    async with replica(engine, tmp_path / "a", serves=lambda one: one == organisation.id) as one:
        await until_there(one, organisation.id, [run])
        assert one.reader.counts["read"] == len(life(run))
        assert one.followers.organisations == 1
    for client in other.pods:
        await client.close()


async def test_what_a_pod_makes_up_changes_no_other_environments_runs(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    victim = new_id()
    await organisation.report(*life(victim))
    before = None
    async with replica(engine, tmp_path / "a") as one:
        await until_there(one, organisation.id, [victim])
        before = await one.history.get(organisation.id, organisation.environments[:1], victim)
        forged = orjson.loads(encode([record(victim, "dead", 99, task="forged")]))[0]
        await organisation.raw(
            orjson.dumps([{**forged, "environment": organisation.environments[0]}]), environment=1
        )
        for content in (b"", b"[", b"\xff" * 100, b"x" * 4_000_000, orjson.dumps([{"id": victim}, 7, None])):
            await organisation.raw(content, environment=1)
        huge = replace(record(status="dead", attempt=1), task="y" * 1_000_000, input=bytes(3_000_000))
        last = new_id()
        await organisation.report(huge, record(last), environment=1)
        await until_there(one, organisation.id, [last])
        after = await one.history.get(organisation.id, organisation.environments[:1], victim)
        assert after == before
        assert one.reader.counts["malformed"] == 7
        (large,) = [run for run in await listed(one, organisation.id) if run.id == huge.id]
        assert len(large.task) <= 128


async def test_a_run_that_another_environment_copies_stays_the_one_that_is_meant_at_every_replica(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    run, direct, last = new_id(), new_id(), new_id()
    await organisation.did(record(direct, "succeeded", 1, kind="webhook"))
    await organisation.report(*life(run)[:3])
    forged = [record(one, "dead", 99, queued_at=0.0, task="forged") for one in (run, direct)]
    await organisation.report(*forged, environment=1)
    await organisation.report(*life(run)[3:], record(last))
    async with replica(engine, tmp_path / "a") as one, replica(engine, tmp_path / "b") as other:
        for each in (one, other):
            await until_there(each, organisation.id, [last])
            found = await each.history.find(organisation.id, organisation.environments, run)
            assert [copy.environment for copy in found] == list(organisation.environments)
            assert (found[0].status, found[0].attempt, found[1].task) == ("succeeded", 2, "forged")
            assert await each.history.get(organisation.id, organisation.environments, run) == found[0]
            given = await each.history.input(organisation.id, found[0])
            assert given is not None
            found = await each.history.find(organisation.id, organisation.environments, direct)
            assert [(copy.direct, copy.environment) for copy in found] == [
                (True, organisation.environments[0]),
                (False, organisation.environments[1]),
            ]


async def test_a_record_from_the_future_does_not_stay_on_top(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    now = time.time()
    hostile, later = record(queued_at=now + 10**8), record(queued_at=now + 65)
    await organisation.report(hostile, environment=1)
    await organisation.report(later)
    async with replica(engine, tmp_path / "a") as one:
        await until_there(one, organisation.id, [hostile.id, later.id])
        queued = {run.id: run.queued_at / 10**9 for run in await listed(one, organisation.id)}
        assert queued[hostile.id] <= time.time() + 60


async def test_a_message_that_can_never_be_kept_holds_up_no_others(
    engine: NatsServer, organisation: Organisation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a fault of ours would let one through."""
    bad, *good = (record() for _ in range(20))

    def read(content: bytes, **options: Any) -> tuple[list[CheckedRecord], int]:
        found, malformed = read_records(content, **options)
        wrong = [
            replace(one, record=replace(one.record, attempts=2**64)) if one.record.id == bad.id else one
            for one in found
        ]
        return wrong, malformed

    monkeypatch.setattr(reading, "read_records", read)
    for one in (*good[:10], bad, *good[10:]):
        await organisation.report(one)
    async with replica(engine, tmp_path / "a") as first:
        await until_there(first, organisation.id, [run.id for run in good])
        assert (first.reader.counts["malformed"], first.reader.counts["read"]) == (1, len(good))
        assert first.reader.counts["failed"] == 0


async def test_a_history_that_is_deleted_and_made_again_begins_anew(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    old, new = new_id(), new_id()
    await organisation.report(*life(old))
    async with replica(engine, tmp_path / "a") as one:
        await until_there(one, organisation.id, [old])
        await organisation.admin.jetstream().delete_stream(history_stream(organisation.id))
        await ensure_history(organisation.admin.jetstream(), organisation.id, LIMITS)
        await organisation.report(*life(new))
        await until_there(one, organisation.id, [new])
        assert [run.id for run in await listed(one, organisation.id)] == [new]


async def test_runs_that_the_engine_keeps_no_longer_are_not_found_any_more(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    limits = replace(LIMITS, history_bytes=100_000)
    await ensure_history(organisation.admin.jetstream(), organisation.id, limits)
    old, new = new_id(), new_id()
    await organisation.report(*life(old))
    async with replica(engine, tmp_path / "a") as one:
        await until_there(one, organisation.id, [old])
        for _ in range(30):
            await organisation.report(record(status="succeeded", attempt=1, input=bytes(5000)))
        await organisation.report(*life(new))
        await until_there(one, organisation.id, [new])
        await one.followers.sweep()
        found = {run.id for run in await listed(one, organisation.id)}
        assert new in found
        assert old not in found
        async with replica(engine, tmp_path / "b") as fresh:
            await until_there(fresh, organisation.id, [new])
            assert {run.id for run in await listed(fresh, organisation.id)} == found


async def test_direct_runs_stand_among_the_others_and_are_listed_once(
    engine: NatsServer, organisation: Organisation, tmp_path: Path
) -> None:
    queued, direct, scheduled = new_id(), new_id(), new_id()
    await organisation.report(record(queued, kind="webhook", queued_at=NOW + 1))
    for _ in range(2):
        await organisation.did(
            record(queued, "succeeded", 1, kind="webhook", queued_at=NOW + 1),
            record(direct, "succeeded", 1, kind="webhook", task="orders", user="ann", queued_at=NOW + 2),
            record(scheduled, "succeeded", 1, kind="schedule", queued_at=NOW + 3, input=b"due"),
            record(new_id(), "succeeded", 1, kind="event"),
        )
    async with replica(engine, tmp_path / "a") as one:
        await until_there(one, organisation.id, [queued, direct, scheduled])
        found = await listed(one, organisation.id)
        assert [(run.id, run.kind, run.status) for run in found] == [
            (scheduled, "schedule", "succeeded"),
            (direct, "webhook", "succeeded"),
            (queued, "webhook", "queued"),
        ]
        page = PageRequest(first=1)
        seen: list[str] = []
        while True:
            part = await one.history.page(RunFilter(organisation=organisation.id), page)
            seen += [run.id for run in part.runs]
            assert part.total == 3
            if not part.older:
                break
            page = PageRequest(first=1, after=part.runs[-1].position)
        assert seen == [scheduled, direct, queued]
        back = await one.history.page(
            RunFilter(organisation=organisation.id), PageRequest(first=5, before=part.runs[-1].position)
        )
        assert [run.id for run in back.runs] == [scheduled, direct]
        got = await one.history.get(organisation.id, organisation.environments, direct)
        assert got is not None
        assert (got.user, got.task, got.direct) == ("ann", "orders", True)
        (attempt,) = (await one.history.attempts(organisation.id, got)).attempts
        assert (attempt.number, attempt.status) == (1, "succeeded")
        assert await one.history.input(organisation.id, got) is None
        given = await one.history.input(organisation.id, found[0])
        assert given is not None
        assert (given.payload, given.recorded) == (b"due", True)
        # Each stream has its own bound and age; what one loses, the other keeps.
        await organisation.admin.jetstream().purge_stream(direct_stream(organisation.id))
        await organisation.did(record(kind="webhook", status="succeeded", attempt=1))
        await one.followers.sweep()
        assert queued in {run.id for run in await listed(one, organisation.id)}
        assert direct not in {run.id for run in await listed(one, organisation.id)}


async def test_an_engine_that_is_away_is_said_and_heals(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    with running_nats_server(folder) as engine:
        admin = await engine.admin()
        organisation = await make_organisation(engine, admin)
        run, later = new_id(), new_id()
        await organisation.report(*life(run))
        async with replica(engine, tmp_path / "a") as one, replica(engine, tmp_path / "b") as fresh:
            await until_there(one, organisation.id, [run])
            await asyncio.to_thread(engine.kill)
            await eventually(lambda: _is(not one.engine.connected and not fresh.engine.connected))
            assert [found.id for found in await listed(one, organisation.id)] == [run]
            assert one.history.warnings(organisation.id)
            with pytest.raises(EngineUnavailableError) as refused:
                await fresh.history.page(RunFilter(organisation=new_id()), PageRequest(first=1))
            assert refused.value.status == 503
            assert refused.value.headers["Retry-After"]
            with pytest.raises(EngineUnavailableError):
                await one.history.write(organisation.streams[0], record(later))
            await asyncio.to_thread(engine.start)
            await eventually(lambda: _is(one.engine.connected))
            await organisation.report(*life(later))
            for found in (one, fresh):
                await until_there(found, organisation.id, [run, later])
                assert not found.history.warnings(organisation.id)
        for client in (*organisation.pods, admin):
            await client.close()


async def test_a_replica_starts_before_its_credentials_and_the_engine(tmp_path: Path) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    with running_nats_server(folder) as engine:
        admin = await engine.admin()
        organisation = await make_organisation(engine, admin)
        await organisation.report(*life(run := new_id()))
        text = engine.credentials_file().read_text()
        await asyncio.to_thread(engine.kill)
        engine.credentials_file().write_text("")
        async with replica(engine, tmp_path / "a") as one:
            await asyncio.sleep(0.5)
            assert not one.engine.connected
            await asyncio.to_thread(engine.start)
            await asyncio.sleep(1)
            assert not one.engine.connected
            engine.credentials_file().write_text(text)
            await until_there(one, organisation.id, [run])
            await eventually(lambda: _is(one.engine.storage_bytes > 0))
            assert one.engine.storage_limit_bytes == 0, "the account has no limit"
        for client in (*organisation.pods, admin):
            await client.close()


async def _is(value: bool) -> bool:
    return value
