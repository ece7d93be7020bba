"""Signals, progress and batches of events by REST: stored as pods expect them, and for their own environment alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.engine_objects import fetched
from tests.integration.api.resources.deployed_runs import Deployed, deploy
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_progress import Progress
from tieline_protocol.signals import SIGNAL_TASK, SentSignal

pytestmark = pytest.mark.cluster


def signal(deployed: Deployed, run: str, name: str = "go", **body: Any) -> Answer:
    return deployed.client("POST", f"{deployed.path}/{run}/signals/{name}", body)


def test_a_signal_reaches_the_pods_of_its_run(deployed: Deployed) -> None:
    waits = record(
        status="waiting", attempt=1, progress=Progress(text="3 of 10", fraction=0.3, at=7.0, attempt=1)
    )
    deployed.report(waits)
    shown = deployed.run(waits.id)
    expected = {"text": "3 of 10", "fraction": 0.3, "attempt": 1, "at": "1970-01-01T00:00:07.000000Z"}
    assert shown["progress"] == expected
    path = f"{deployed.path}/{waits.id}/signals/go"
    answer = deployed.client(
        "POST", path, raw=b'{"payload": {"n": 1.10, "n": 12345678901234567890123}, "id": "a"}'
    )
    assert (answer.status, answer.json) == (202, {"status": "stored"})
    assert signal(deployed, waits.id, payload="other", id="a").json == {"status": "duplicate"}
    (message,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    assert EventMetadata.parse(message.headers).task == SIGNAL_TASK
    sent = SentSignal.decode(message.data)
    assert (sent.run, sent.name, sent.payload) == (
        waits.id,
        "go",
        '{"n": 1.10, "n": 12345678901234567890123}',
    )
    assert sent.by
    # Without a body the code gets None.
    assert deployed.client("POST", path).status == 202


def test_who_cannot_take_a_signal_is_named(deployed: Deployed, client: Client, engine: NatsServer) -> None:
    ended = record(status="succeeded", attempt=1)
    waits = record(status="waiting", attempt=1)
    deployed.report(ended, waits)
    refused = signal(deployed, ended.id)
    assert (refused.status, "has ended: it is succeeded" in refused.json["message"]) == (409, True)
    assert signal(deployed, new_id()).status == 404
    assert signal(deployed, waits.id, "a%20b").status == 422
    assert signal(deployed, waits.id, "x" * 101).status == 422
    assert signal(deployed, waits.id, payload="x" * 17_000).status == 413
    assert signal(deployed, waits.id, id="").status == 422
    # The run of one project is not reached through another.
    other = deploy(client, engine)
    assert signal(other, waits.id).status == 404
    assert fetched(deployed.engine, deployed.streams, deployed.streams.queue) == []


def test_events_are_sent_together_and_each_has_an_answer(deployed: Deployed) -> None:
    path = f"/environments/{deployed.environment}/events/batch"
    event = b'{"task": "order.created", "key": "k", "payload": 1.10}'
    other = b'{"task": "order.created", "payload": {"id": 2}, "id": "two"}'
    answer = deployed.client("POST", path, raw=b'{"events": [%b, %b]}' % (event, other))
    assert answer.status == 202, answer.raw
    assert (answer.json["stored"], answer.json["duplicates"], answer.json["refused"]) == (2, 0, 0)
    first, second = (one["runId"] for one in answer.json["results"])
    again = deployed.client.ok("POST", path, {"events": [json.loads(other)]}, status=202)
    assert again["results"] == [{"status": "duplicate", "eventId": "two", "runId": second}]
    deployed.until_there(first, second)
    assert deployed.status(first) == deployed.status(second) == "queued"
    wrong = {"events": [json.loads(event), {"task": "a b", "payload": 1}]}
    refused = deployed.client("POST", path, wrong)
    assert (refused.status, refused.json["fields"][0]["field"]) == (422, "events[1].task")
    assert deployed.client("POST", path, {"events": []}).status == 422
    assert deployed.client("POST", path, {"events": [json.loads(event)] * 1001}).status == 422
    unknown = deployed.client("POST", path, {"events": [{"task": "t", "payload": 1, "user": "nobody"}]})
    assert (unknown.status, unknown.json["fields"][0]["field"]) == (422, "events[0].user")
