"""Runs by REST that are cancelled while they are queued, wait, or run."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from tests.integration.api.engine_objects import (
    fetched,
    message_at,
    stored,
    with_engine,
)
from tests.integration.api.resources.deployed_runs import Deployed
from tests.unit.api.runs.run_records import NOW, life, record
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import PODS
from tieline_protocol.events import EventMetadata, WebhookRequest

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("key", [None, "ann"])
def test_a_queued_run_is_cancelled(deployed: Deployed, key: str | None) -> None:
    queued = deployed.client.ok(
        "POST",
        f"/environments/{deployed.environment}/events",
        {"task": "t", "payload": 1, "key": key},
        status=202,
    )
    path = f"{deployed.path}/{queued['runId']}"
    assert deployed.client.ok("GET", path)["input"] == 1
    assert deployed.client("POST", f"{path}/cancel").status == 202
    shown = deployed.client.ok("GET", path)
    assert (shown["status"], shown["input"]) == ("cancelled", 1)
    streams, run = deployed.streams, queued["runId"]
    for subject in (streams.any_event(run), streams.keyed_event("*", run)):
        assert message_at(deployed.engine, streams, streams.queue, subject) is None
    again = deployed.client("POST", f"{deployed.path}/{queued['runId']}/cancel")
    assert (again.status, again.json["code"]) == (409, "conflict")
    new = deployed.client.ok("POST", f"{path}/replay", status=202)
    assert deployed.client.ok("GET", f"{deployed.path}/{new['id']}")["input"] == 1


def test_a_queued_webhook_that_was_cancelled_is_run_again_as_it_was(deployed: Deployed) -> None:
    queued = record(kind="webhook", task="orders")
    deployed.report(queued)
    request = WebhookRequest(method="POST", path="/orders?a=1", headers=[("Content-Type", "text/plain")])
    deployed.queue(
        EventMetadata(run=queued.id, kind="webhook", task="orders", queued_at=NOW, request=request),
        b"\xffbody",
    )
    path = f"{deployed.path}/{queued.id}"
    before = deployed.client.ok("GET", path)
    assert (before["inputContentType"], before["request"]["path"]) == ("text/plain", "/orders?a=1")
    assert deployed.client("POST", f"{path}/cancel").status == 202
    after = deployed.client.ok("GET", path)
    assert (after["inputBase64"], after["request"]) == (before["inputBase64"], before["request"])
    new = deployed.client.ok("POST", f"{path}/replay", status=202)
    found = message_at(
        deployed.engine, deployed.streams, deployed.streams.queue, deployed.streams.event("orders", new["id"])
    )
    assert found is not None
    assert (found[0], EventMetadata.parse(found[1]).request) == (b"\xffbody", request)


def test_a_run_that_waits_is_cancelled_and_keeps_what_it_has_done(deployed: Deployed) -> None:
    run = new_id()
    deployed.report(*life(run)[:3])
    metadata = EventMetadata(run=run, kind="event", task="order.created", queued_at=NOW, attempt=2)
    deployed.queue(metadata, delay=4e9 - NOW)
    assert stored(deployed.engine, deployed.streams, deployed.streams.later) == 1
    assert deployed.client.ok("GET", f"{deployed.path}/{run}")["input"] == {}
    assert deployed.client("POST", f"{deployed.path}/{run}/cancel").status == 202
    assert stored(deployed.engine, deployed.streams, deployed.streams.later) == 0
    shown = deployed.client.ok("GET", f"{deployed.path}/{run}")
    assert (shown["status"], shown["error"]["message"]) == ("cancelled", "shop answered 503")
    assert shown["input"] == {}
    assert [one["steps"][0]["name"] for one in shown["attemptHistory"]] == ["fetch"]


def test_a_key_goes_on_when_the_run_that_it_waits_with_is_cancelled(deployed: Deployed) -> None:
    run = new_id()
    deployed.report(*life(run, key="ann")[:3])
    metadata = EventMetadata(run=run, kind="event", task="order.created", queued_at=NOW, key="ann")
    key = metadata.key_hash
    deployed.queue(metadata)

    async def wait(client: Nats) -> None:
        """The pod that has the token lets it come back later."""
        headers = {
            "Nats-Schedule": "@at 2096-01-01T00:00:00Z",
            "Nats-Schedule-Target": deployed.streams.due_key(key),
        }
        await client.jetstream().publish(deployed.streams.waiting_key(key), b"", headers=headers)
        queue = await client.jetstream().pull_subscribe_bind(consumer=PODS, stream=deployed.streams.queue)
        (token,) = await queue.fetch(1, timeout=2)
        await token.ack_sync()

    with_engine(deployed.engine, wait, deployed.streams, pod=True)
    assert deployed.client("POST", f"{deployed.path}/{run}/cancel").status == 202
    assert deployed.status(run) == "cancelled"
    assert stored(deployed.engine, deployed.streams, deployed.streams.later) == 0
    (token,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    assert token.subject == deployed.streams.key_token(key)


def test_a_pod_that_runs_it_is_told_to_cancel(deployed: Deployed) -> None:
    run = new_id()
    deployed.report(*life(run)[:2])

    async def listen(client: Nats) -> Any:
        listening = await client.subscribe(deployed.streams.control)
        await client.flush()
        path = f"{deployed.path}/{run}/cancel"
        answer = await asyncio.to_thread(deployed.client, "POST", path)
        assert answer.status == 202
        return json.loads((await listening.next_msg(timeout=5)).data)

    assert with_engine(deployed.engine, listen, deployed.streams, pod=True) == {"run": run}
    assert deployed.status(run) == "running"
