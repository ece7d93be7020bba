"""The operator counts runs that ended and failed, from the history that pods write."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import NoReturn

import pytest
from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually_async
from tests.integration.api.engine_objects import LIMITS
from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_core.engine.streams import ensure_history
from tieline_core.engine.trust import AccountSigner
from tieline_core.identity.ids import environment_id, new_id, object_id
from tieline_core.kubernetes import resources as r
from tieline_operator.engine.connection import account_client
from tieline_operator.notifications.run_counts import STALE_SECONDS, RunHistoryCounts
from tieline_operator.reconcilers.notification.detection import WINDOW_MINUTES, DeadRun, RunCounts
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.events import HEADER, EventMetadata
from tieline_protocol.run_records import RunError, RunRecord, RunStatus, encode, packed

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
    cluster = FakeCluster(PROJECT, o.notification())
    cluster.put(r.NAMESPACES, o.namespace())
    moment, clock = datetime.now(UTC), 0.0
    counting = RunHistoryCounts(
        cluster,
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
    failed = replace(record("dead"), error=RunError(type="KeyError", message="'id'"))
    dead = DeadRun(id=failed.id, task="t", error="KeyError")
    await report(engine, record("succeeded"), record("failed"), failed, record("queued"), again)
    await report(engine, content=b"no records")
    await counting.poll()
    assert counts() == RunCounts(ended=3, failed=2, last_dead=dead)
    await report(engine, replace(again, status="failed"), replace(again, status="failed"))
    await counting.poll()
    assert counts() == RunCounts(ended=4, failed=3, last_dead=dead)
    await counting.poll()
    assert counts() == RunCounts(ended=4, failed=3, last_dead=dead)

    direct = [replace(one, kind="webhook") for one in (record("succeeded"), record("failed"))]
    admin = await engine.admin()
    for _ in range(2):
        await admin.jetstream().publish(STREAMS.direct, packed(direct))
    await admin.jetstream().publish(STREAMS.calls, packed([replace(record("failed"), kind="call")]))
    await admin.jetstream().publish(STREAMS.direct, b"no records")
    await admin.close()
    await counting.poll()
    assert counts() == RunCounts(ended=6, failed=4, last_dead=dead)

    # Another leader reads the window anew.
    second = RunHistoryCounts(
        cluster,
        trust=lambda: engine.trust,
        open_account=lambda signer: account_client([engine.url], signer),
    )
    await second.poll()
    assert second.counts(o.NAMESPACE, ENVIRONMENT) == RunCounts(ended=6, failed=4, last_dead=dead)

    clock += STALE_SECONDS + 1
    assert counts() is None, "without an answer of the engine nothing is known"
    await counting.poll()
    moment += timedelta(minutes=WINDOW_MINUTES + 1)
    assert counts() == RunCounts()


async def test_the_newest_dead_letter_is_named_however_old_it_is(engine: NatsServer) -> None:
    environment = {
        "name": "production",
        "id": ENVIRONMENT,
        "status": "running",
        "createdAt": "2026-11-01T00:00:00Z",
        "updatedAt": "2026-11-01T00:00:00Z",
        "deadLetters": 1,
    }
    cluster = FakeCluster(o.project(status={"environments": [environment]}), o.notification())
    cluster.put(r.NAMESPACES, o.namespace())
    await engine.make_environment(STREAMS, LIMITS)
    pod = await engine.pod(STREAMS)
    for run in ("first", "last"):
        metadata = EventMetadata(run=run, kind="event", task="t", queued_at=1e9, failure_type="KeyError")
        dead = {HEADER: metadata.header()}
        await pod.jetstream(timeout=5).publish(STREAMS.dead(run), b"", headers=dead)
    await pod.close()
    opened = []

    def open_account(signer: AccountSigner) -> AbstractAsyncContextManager[Client]:
        opened.append(signer.account)
        return account_client([engine.url], signer)

    counting = RunHistoryCounts(
        cluster,
        trust=lambda: engine.trust,
        open_account=open_account,
        now=lambda: datetime.now(UTC) + timedelta(minutes=WINDOW_MINUTES + 1),
    )
    for _ in range(2):
        await counting.poll()
    found = counting.counts(o.NAMESPACE, ENVIRONMENT)
    assert found is not None
    assert found.last_dead == DeadRun(id="last", task="t", error="KeyError")
    own = engine.trust.users.of_environment(STREAMS).account
    assert opened.count(own) == 1, "it is read once"


async def test_nothing_is_asked_where_nobody_wants_to_know(engine: NatsServer) -> None:
    cluster = FakeCluster(PROJECT, o.notification(events=["deploy_failed"]))
    cluster.put(r.NAMESPACES, o.namespace())
    counting = RunHistoryCounts(cluster, trust=lambda: engine.trust, open_account=_fails)
    await counting.poll()
    assert counting.counts(o.NAMESPACE, ENVIRONMENT) is None


async def test_many_messages_are_read_in_batches(engine: NatsServer) -> None:
    cluster = FakeCluster(PROJECT, o.notification())
    cluster.put(r.NAMESPACES, o.namespace())
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
        cluster,
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
