"""The operator counts runs that ended and failed, from the history that pods write."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.api.engine_objects import LIMITS
from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_core.engine.streams import ensure_history
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.kubernetes import resources as r
from tieline_operator.engine.connection import account_client
from tieline_operator.notifications.run_counts import STALE_SECONDS, RunHistoryCounts
from tieline_operator.reconcilers.notification.detection import WINDOW_MINUTES, RunCounts
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunRecord, RunStatus, encode

PROJECT = o.project()
ENVIRONMENT = environment_id(object_id(PROJECT), "production")
STREAMS = EventStreams(o.ORGANISATION, ENVIRONMENT)


def record(status: RunStatus, run: str = "") -> RunRecord:
    return RunRecord(
        id=run or new_id(), kind="event", task="t", status=status, attempt=1, queued_at=1e9, at=1e9
    )


async def report(engine: NatsServer, *records: RunRecord, content: bytes = b"") -> None:
    client = await engine.pod(STREAMS)
    await client.jetstream(timeout=5).publish(STREAMS.history, content or encode(records))
    await client.close()


async def test_runs_are_counted_once_within_the_window(engine: NatsServer) -> None:
    world = FakeCluster(PROJECT, o.notification())
    world.put(r.NAMESPACES, o.namespace())
    moment, clock = datetime.now(UTC), 0.0
    counting = RunHistoryCounts(
        world,
        trust=lambda: engine.trust,
        open_account=lambda signer: account_client([engine.url], signer),
        now=lambda: moment,
        clock=lambda: clock,
    )

    def counts() -> RunCounts | None:
        return counting.counts(o.NAMESPACE, ENVIRONMENT)

    assert counts() is None
    await counting.poll()
    assert counts() == RunCounts(), "an organisation without a history has had no runs"

    admin = await engine.admin()
    await ensure_history(admin.jetstream(), o.ORGANISATION, LIMITS)
    await admin.close()
    await engine.make_environment(STREAMS, LIMITS)
    again = record("running")
    await report(engine, record("succeeded"), record("failed"), record("dead"), record("queued"), again)
    await report(engine, content=b"no records")
    await counting.poll()
    assert counts() == RunCounts(ended=3, failed=2)
    await report(engine, replace(again, status="failed"), replace(again, status="failed"))
    await counting.poll()
    assert counts() == RunCounts(ended=4, failed=3)
    await counting.poll()
    assert counts() == RunCounts(ended=4, failed=3)

    # Another leader reads the window anew.
    second = RunHistoryCounts(
        world,
        trust=lambda: engine.trust,
        open_account=lambda signer: account_client([engine.url], signer),
    )
    await second.poll()
    assert second.counts(o.NAMESPACE, ENVIRONMENT) == RunCounts(ended=4, failed=3)

    clock += STALE_SECONDS + 1
    assert counts() is None, "without an answer of the engine nothing is known"
    await counting.poll()
    moment += timedelta(minutes=WINDOW_MINUTES + 1)
    assert counts() == RunCounts()


async def test_nothing_is_asked_where_nobody_wants_to_know(engine: NatsServer) -> None:
    world = FakeCluster(PROJECT, o.notification(events=["deploy_failed"]))
    world.put(r.NAMESPACES, o.namespace())
    counting = RunHistoryCounts(world, trust=lambda: engine.trust, open_account=_fails)
    await counting.poll()
    assert counting.counts(o.NAMESPACE, ENVIRONMENT) is None


async def test_many_messages_are_read_in_batches(engine: NatsServer) -> None:
    world = FakeCluster(PROJECT, o.notification())
    world.put(r.NAMESPACES, o.namespace())
    admin = await engine.admin()
    await ensure_history(admin.jetstream(), o.ORGANISATION, LIMITS)
    await engine.make_environment(STREAMS, LIMITS)
    client = await engine.pod(STREAMS)
    for number in range(700):
        await client.publish(STREAMS.history, encode([record("failed" if number % 2 else "succeeded")]))
    await client.flush()
    await client.close()

    async def stored() -> bool:
        # What pods publish without waiting is stored a little later.
        return (await admin.jetstream().stream_info(f"history_{o.ORGANISATION}")).state.messages >= 700

    await eventually_async("all is stored", stored)
    await admin.close()
    counting = RunHistoryCounts(
        world,
        trust=lambda: engine.trust,
        open_account=lambda signer: account_client([engine.url], signer),
    )
    await counting.poll()
    found = counting.counts(o.NAMESPACE, ENVIRONMENT)
    assert found is not None
    assert found.ended >= 700
    assert found.failed >= 350


def _fails(_signer: object) -> NoReturn:
    pytest.fail("The engine was asked")
