"""Traces are the same at every replica, and after the loss of a replica's disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.integration.engine.test_run_history import LIMITS, eventually
from tests.unit.api.traces.otlp_requests import attribute, body_json, body_protobuf, span_json
from tieline_api.engine.connection import Engine
from tieline_api.traces.backends import EmbeddedTraces
from tieline_api.traces.origins import Origin
from tieline_api.traces.otlp_batch import JSON, PROTOBUF
from tieline_api.traces.query import RunQuery
from tieline_api.traces.spans import Owner
from tieline_api.traces.store import Limits
from tieline_core.engine.streams import ensure_history
from tieline_core.identity.ids import new_id


@pytest.fixture
async def admin(engine: NatsServer) -> AsyncIterator[Client]:
    client = await engine.admin()
    yield client
    await client.close()


@dataclass
class SpanReplica:
    """What a replica of the API keeps of spans."""

    engine: Engine
    traces: EmbeddedTraces


@asynccontextmanager
async def replica(
    server: NatsServer, folder: Path, *, serves: Callable[[str], bool] = lambda _: True
) -> AsyncIterator[SpanReplica]:
    """A replica with its file in ``folder``."""
    connection = Engine((server.url,), server.credentials_file())
    traces = EmbeddedTraces(folder / "traces.db", Limits(), engine=connection, serves=serves)
    await connection.start()
    await traces.start()
    try:
        yield SpanReplica(connection, traces)
    finally:
        await traces.stop()
        await connection.stop()


async def origin_in(admin: Client) -> Origin:
    owner = Owner(organisation=new_id(), project=new_id(), environment=new_id())
    await ensure_history(admin.jetstream(), owner.organisation, LIMITS)
    return Origin(owner=owner, service="acme/shop")


async def send(one: SpanReplica, origin: Origin, *numbers: int, kind: str = JSON) -> None:
    spans = [
        span_json(number, attributes=[attribute("executionId", f"run-{number}"), attribute("task", "orders")])
        for number in numbers
    ]
    body = body_json(*spans) if kind == JSON else body_protobuf(*spans)
    batch = await one.traces.take(origin, kind, body)
    assert batch is not None
    assert not batch.rejected


async def seen(one: SpanReplica, origin: Origin) -> set[str]:
    page = await one.traces.runs(origin, RunQuery(first=1000))
    return {span.execution_id for span in page.entries}


async def until_seen(one: SpanReplica, origin: Origin, *numbers: int) -> None:
    async def there() -> bool:
        return await seen(one, origin) >= {f"run-{number}" for number in numbers}

    await eventually(there)


async def connected(*replicas: SpanReplica) -> None:
    async def all_are() -> bool:
        return all(one.engine.connected for one in replicas)

    await eventually(all_are)


async def test_spans_that_one_replica_receives_are_found_at_all_and_after_a_loss_of_its_disk(
    engine: NatsServer, admin: Client, tmp_path: Path
) -> None:
    origin = await origin_in(admin)
    async with replica(engine, tmp_path / "a") as first, replica(engine, tmp_path / "b") as second:
        await connected(first, second)
        await send(first, origin, *range(1, 200))
        await send(second, origin, *range(200, 300), kind=PROTOBUF)
        for one in (first, second):
            await until_seen(one, origin, *range(1, 300))
        stranger = await origin_in(admin)
        assert await seen(first, stranger) == set()
    async with replica(engine, tmp_path / "c") as third:
        await connected(third)
        assert len(await seen(third, origin)) == 299
        trace = bytes.fromhex(f"{7:032x}")
        (span,) = await third.traces.trace(origin.owner.organisation, origin.owner.project, trace)
        assert span.attributes["task"] == "orders"


async def test_a_restart_reads_no_spans_twice(engine: NatsServer, admin: Client, tmp_path: Path) -> None:
    origin = await origin_in(admin)
    async with replica(engine, tmp_path / "a") as one:
        await connected(one)
        await send(one, origin, 1, 2, 3)
        await until_seen(one, origin, 1, 2, 3)
    async with replica(engine, tmp_path / "a") as again:
        await connected(again)
        await send(again, origin, 4)
        await until_seen(again, origin, 1, 2, 3, 4)
        assert again.traces.written == 1


async def test_spans_that_arrive_while_the_engine_is_away_are_kept_here_and_come_to_all_later(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "engine"
    folder.mkdir()
    with running_nats_server(folder) as engine:
        admin = await engine.admin()
        origin = await origin_in(admin)
        async with replica(engine, tmp_path / "a") as one:
            await connected(one)
            await send(one, origin, 1)
            await until_seen(one, origin, 1)
            await asyncio.to_thread(engine.kill)
            # Some arrive before it is noticed.
            for number in range(2, 40):
                await send(one, origin, number)
                await asyncio.sleep(0.01)
            await until_seen(one, origin, *range(1, 40))
            assert not one.traces.dropped
            await asyncio.to_thread(engine.start)
            await connected(one)
            await send(one, origin, 40)
            await until_seen(one, origin, *range(1, 41))
            async with replica(engine, tmp_path / "b") as other:
                await until_seen(other, origin, *range(1, 41))
        await admin.close()


async def test_an_engine_without_room_for_spans_leaves_them_here(
    engine: NatsServer, admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin = await origin_in(admin)
    monkeypatch.setattr("tieline_api.traces.span_stream.STREAM_BYTES", 1 << 60)
    async with replica(engine, tmp_path / "a") as one:
        await connected(one)
        await send(one, origin, 1, 2)
        await until_seen(one, origin, 1, 2)
        assert not one.traces.dropped


async def test_an_organisation_that_is_not_served_has_no_spans_here(
    engine: NatsServer, admin: Client, tmp_path: Path
) -> None:
    own, other = await origin_in(admin), await origin_in(admin)
    served = own.owner.organisation
    async with (
        replica(engine, tmp_path / "a") as both,
        replica(engine, tmp_path / "b", serves=lambda one: one == served) as one,
    ):
        await connected(both, one)
        await send(both, other, 1)
        await send(both, own, 2)
        await until_seen(one, own, 2)
        await until_seen(both, other, 1)
        assert one.traces.written == 1
