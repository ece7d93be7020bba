"""Runs by REST: found, filtered and paged, run again and cancelled, at every replica and while the engine heals."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.api.engine_objects import (
    fetched,
    make_streams,
    message_at,
    report,
    stored,
    with_engine,
)
from tests.integration.api.objects import MAIN, make_project
from tests.integration.api.pods import account_token
from tests.unit.api.runs.run_records import NOW, life, record
from tests.unit.api.traces.otlp_requests import attribute, body_json, span_json
from tieline_api.use_cases.run_actions import time_of
from tieline_core.engine.publisher import publish_event
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import PODS, EventStreams, hashed
from tieline_protocol.events import EventMetadata, WebhookRequest
from tieline_protocol.run_records import RunRecord, StepRecord

pytestmark = pytest.mark.cluster


@dataclass
class Deployed:
    """A project with an environment that is deployed, and its streams."""

    client: Client
    engine: NatsServer
    project: dict[str, Any]
    streams: EventStreams

    @property
    def path(self) -> str:
        return f"/projects/{self.project['id']}/runs"

    @property
    def environment(self) -> str:
        return self.streams.environment

    def report(self, *records: RunRecord) -> None:
        report(self.engine, self.streams.organisation, self.environment, *records)
        self.until_there(*(one.id for one in records))

    def until_there(self, *runs: str) -> None:
        eventually("the runs", lambda: set(runs) <= set(self.ids("first=200")))

    def ids(self, query: str = "") -> list[str]:
        return [run["id"] for run in self.client.ok("GET", f"{self.path}?{query}")["items"]]

    def run(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.ok("GET", f"{self.path}/{run}")
        return found

    def status(self, run: str) -> str:
        return str(self.run(run)["status"])

    def queue(self, metadata: EventMetadata, payload: bytes = b"{}", delay: float = 0) -> None:
        """What a pod does that publishes an event."""

        async def publish(client: Nats) -> None:
            at = time_of(metadata.queued_at + delay) if delay else None
            await publish_event(client.jetstream(), self.streams, metadata, payload, at=at, seconds=5)

        with_engine(self.engine, publish, self.streams, pod=True)


def deploy(client: Client, engine: NatsServer) -> Deployed:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    streams = make_streams(engine, client.organisation, project["environments"][0]["id"])
    return Deployed(client, engine, project, streams)


@pytest.fixture
def deployed(client: Client, engine: NatsServer) -> Deployed:
    return deploy(client, engine)


def test_a_run_that_a_pod_reports_is_shown_with_its_attempts_and_its_input(deployed: Deployed) -> None:
    run = new_id()
    deployed.report(*life(run))
    shown = deployed.client.ok("GET", f"{deployed.path}/{run.lower()}")
    history, steps, given = (shown.pop(name) for name in ("attemptHistory", "steps", "input"))
    assert shown == {
        "id": run,
        "kind": "event",
        "task": "order.created",
        "status": "succeeded",
        "environmentId": deployed.environment,
        "user": {"externalId": "ann"},
        "version": {"name": "v1"},
        "attempt": 2,
        "attempts": 10,
        "queuedAt": "2025-11-24T16:00:00.000000Z",
        "startedAt": "2025-11-24T16:00:09.000000Z",
        "endedAt": "2025-11-24T16:00:10.000000Z",
        "traceId": "b" * 32,
    }
    assert given == {"id": 1}
    assert [step["name"] for step in steps] == ["fetch"]
    assert [(one["attempt"], one["status"]) for one in history] == [(1, "waiting"), (2, "succeeded")]
    assert history[0]["error"]["upstream"] == {"status": 503, "body": "closed"}
    page = deployed.client.ok("GET", deployed.path)
    assert page == {"totalCount": 1, "items": [shown]}
    everywhere = deployed.client.ok("GET", "/runs?first=200&version=v1&end=2025-11-24T16:00:01Z")["items"]
    assert shown in everywhere


def test_lists_have_filters_and_pages(deployed: Deployed) -> None:
    more: dict[int, dict[str, Any]] = {1: {"key": "ann"}, 2: {"event_id": "order-2"}}
    runs = [record(queued_at=NOW + number, **more.get(number, {})) for number in range(5)]
    dead = record(
        status="dead", attempt=3, kind="webhook", task="orders", user="ben", queued_at=NOW + 9, trace_id="d" * 32
    )  # fmt: skip
    deployed.report(*runs, dead)
    newest_first = [dead.id, *(one.id for one in reversed(runs))]
    assert deployed.ids() == newest_first
    found: list[str] = []
    page = deployed.client.ok("GET", f"{deployed.path}?first=2")
    assert page["totalCount"] == 6
    assert "prev" not in page
    while True:
        found += [run["id"] for run in page["items"]]
        if "next" not in page:
            break
        last, page = page, deployed.client.ok("GET", f"{deployed.path}?first=2&after={page['next']}")
    assert found == newest_first
    back = deployed.client.ok("GET", f"{deployed.path}?first=2&before={page['prev']}")
    assert back["items"] == last["items"]
    assert (deployed.run(runs[1].id)["key"], deployed.run(runs[2].id)["eventId"]) == ("ann", "order-2")
    for query, expected in {
        "status=dead": [dead.id],
        "kind=webhook": [dead.id],
        "task=orders&user=ben": [dead.id],
        "user=nobody": [],
        "end=2025-11-24T16:00:01Z": [runs[0].id],
        "start=2025-11-24T16:00:09Z": [dead.id],
        "project_env=production": newest_first,
        "project_env=other": [],
        "search=nothing": [],
        "key=ann": [runs[1].id],
        "event_id=order-2": [runs[2].id],
        f"trace_id={'D' * 32}": [dead.id],
        f"trace_id={'e' * 32}": [],
    }.items():
        assert deployed.ids(query) == expected, query
    other = deploy(deployed.client, deployed.engine)
    for path in (
        f"{other.path}?after={last['next']}",
        f"{deployed.path}?after=abc",
        "/runs?status=great",
        "/runs?trace_id=abc",
    ):
        assert deployed.client("GET", path).status in (400, 422), path


def test_runs_of_another_project_or_organisation_are_not_there(deployed: Deployed, neighbour: Client) -> None:
    run = new_id()
    deployed.report(*life(run))
    other = make_project(deployed.client)
    for client, path in (
        (deployed.client, f"/projects/{other['id']}/runs/{run}"),
        (deployed.client, f"{deployed.path}/{new_id()}"),
        (deployed.client, f"{deployed.path}/no-id"),
        (neighbour, f"{deployed.path}/{run}"),
        (neighbour, f"/projects/{make_project(neighbour)['id']}/runs/{run}"),
    ):
        for method, suffix in (("GET", ""), ("POST", "/replay"), ("POST", "/cancel")):
            assert client(method, path + suffix).status == 404
    assert neighbour.ok("GET", "/runs")["items"] == []


def test_a_run_is_run_again_with_its_own_input_or_another(deployed: Deployed) -> None:
    old = new_id()
    deployed.report(*life(old, key="ann/1"))
    first = deployed.client.ok("POST", f"{deployed.path}/{old}/replay", status=202)
    second = deployed.client.ok("POST", f"{deployed.path}/{old}/replay", {"payload": {"id": 2}}, status=202)
    for new, payload in ((first, {"id": 1}), (second, {"id": 2})):
        assert (new["status"], new["replayOf"], new["task"]) == ("queued", old, "order.created")
        subject = deployed.streams.keyed_event(hashed("ann/1"), new["id"])
        found = message_at(deployed.engine, deployed.streams, deployed.streams.queue, subject)
        assert found is not None
        assert json.loads(found[0]) == payload
        metadata = EventMetadata.parse(found[1])
        assert (metadata.run, metadata.replay_of, metadata.user, metadata.key) == (
            new["id"], old, "ann", "ann/1",
        )  # fmt: skip
        assert deployed.status(new["id"]) == "queued"
    (token,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    assert ".~key." in token.subject


def test_a_dead_letter_is_run_again_as_the_webhook_that_it_was(deployed: Deployed) -> None:
    dead = record(status="dead", attempt=3, kind="webhook", task="orders")
    deployed.report(dead)
    request = WebhookRequest(method="POST", path="/orders?a=1", headers=[("Content-Type", "text/plain")])
    metadata = EventMetadata(run=dead.id, kind="webhook", task="orders", queued_at=NOW, request=request)

    async def bury(client: Nats) -> None:
        headers = {"Tieline-Event": metadata.header()}
        await client.jetstream().publish(deployed.streams.dead(dead.id), b"\xffbody", headers=headers)

    with_engine(deployed.engine, bury, deployed.streams, pod=True)
    shown = deployed.client.ok("GET", f"{deployed.path}/{dead.id}")
    assert base64.b64decode(shown["inputBase64"]) == b"\xffbody"
    assert (shown["inputContentType"], shown["request"]["path"]) == ("text/plain", "/orders?a=1")
    for _ in range(2):
        new = deployed.client.ok("POST", f"{deployed.path}/{dead.id}/replay", status=202)
        subject = deployed.streams.event("orders", new["id"])
        found = message_at(deployed.engine, deployed.streams, deployed.streams.queue, subject)
        assert found is not None
        assert found[0] == b"\xffbody"
        assert EventMetadata.parse(found[1]).request == request
        # The letter is done with; the history has what it said.
        assert stored(deployed.engine, deployed.streams, deployed.streams.dead_letters) == 0
        again = deployed.client.ok("GET", f"{deployed.path}/{dead.id}")
        assert again == {**shown, "replayedBy": new["id"]}


def bury(deployed: Deployed, *dead: RunRecord) -> None:
    """Reports runs as dead, with a dead letter each."""
    deployed.report(*dead)

    async def publish(client: Nats) -> None:
        for run in dead:
            metadata = EventMetadata(run=run.id, kind="event", task="order.created", queued_at=NOW)
            headers = {"Tieline-Event": metadata.header()}
            await client.jetstream().publish(deployed.streams.dead(run.id), b"{}", headers=headers)

    with_engine(deployed.engine, publish, deployed.streams, pod=True)


def test_replaying_many_removes_their_dead_letters(deployed: Deployed) -> None:
    dead = [record(status="dead", attempt=3, input=b"{}", queued_at=NOW + one) for one in range(3)]
    bury(deployed, *dead)
    counted = deployed.client.ok(
        "POST", f"{deployed.path}/replay", {"status": "dead", "dryRun": True}, status=202
    )
    assert (counted["count"], stored(deployed.engine, deployed.streams, deployed.streams.dead_letters)) == (
        3,
        3,
    )
    deployed.client.ok("POST", f"{deployed.path}/replay", {"status": "dead"}, status=202)
    assert stored(deployed.engine, deployed.streams, deployed.streams.dead_letters) == 0
    assert deployed.ids("status=dead&replayed=false") == []
    assert len(deployed.ids("status=dead&replayed=true")) == 3


def test_a_dead_letter_is_discarded_and_the_run_stays_in_the_history(deployed: Deployed) -> None:
    lost, kept = (record(status="dead", attempt=3, input=given) for given in (None, b'{"id": 1}'))
    bury(deployed, lost, kept)
    for run in (lost, kept, lost):
        answer = deployed.client("POST", f"{deployed.path}/{run.id}/discard")
        assert (answer.status, answer.raw) == (202, b"")
    assert stored(deployed.engine, deployed.streams, deployed.streams.dead_letters) == 0
    shown = deployed.run(lost.id)
    assert (shown["status"], "discardedAt" in shown, "input" in shown) == ("dead", True, False)
    assert deployed.ids("status=dead&discarded=false") == []
    assert set(deployed.ids("status=dead&discarded=true")) == {lost.id, kept.id}
    refused = deployed.client("POST", f"{deployed.path}/{lost.id}/replay")
    assert (refused.status, "discarded" in refused.json["message"]) == (409, True)
    for run, body in ((kept, None), (lost, {"payload": {"id": 2}})):
        new = deployed.client.ok("POST", f"{deployed.path}/{run.id}/replay", body, status=202)
        assert new["replayOf"] == run.id


def test_many_dead_letters_are_discarded_and_others_stay(deployed: Deployed) -> None:
    dead = [record(status="dead", attempt=3, task=task) for task in ("a", "a", "b")]
    bury(deployed, *dead)
    deployed.report(record(status="failed", attempt=1, task="a"))
    for dry_run, counts, left in ((True, (2, 1), 3), (False, (2, 1), 1), (False, (0, 3), 1)):
        body = {"task": "a", "dryRun": dry_run}
        found = deployed.client.ok("POST", f"{deployed.path}/discard", body, status=202)
        assert (found["count"], found["skipped"]) == counts
        assert stored(deployed.engine, deployed.streams, deployed.streams.dead_letters) == left
    refused = deployed.client("POST", f"{deployed.path}/discard", {})
    assert refused.status == 422


def test_only_dead_runs_can_be_discarded(deployed: Deployed) -> None:
    run = record(status="succeeded", attempt=1)
    deployed.report(run)
    refused = deployed.client("POST", f"{deployed.path}/{run.id}/discard")
    assert (refused.status, "succeeded" in refused.json["message"]) == (409, True)


def test_a_run_of_many_steps_and_a_large_number_is_shown_in_parts_and_exactly(deployed: Deployed) -> None:
    run, given = new_id(), b'{"id": 123456789012345678901234567890, "amount": 1.10}'
    steps = [StepRecord(name="s", occurrence=n, started_at=NOW, ended_at=NOW) for n in range(500)]
    for first in range(1, 121, 10):
        deployed.report(
            *(record(run, "waiting", attempt, steps=steps) for attempt in range(first, first + 10)),
            record(run, "succeeded", 121, input=given),
        )
    eventually("all attempts", lambda: deployed.run(run).get("attemptsLeftOut") == 21)
    answer = deployed.client("GET", f"{deployed.path}/{run}")
    shown = answer.json
    assert (shown["attemptsLeftOut"], shown["attemptHistory"][0]["attempt"]) == (21, 22)
    assert sum(len(one["steps"]) for one in shown["attemptHistory"]) == 1000
    assert shown["attemptHistory"][0]["stepsLeftOut"] == 500
    assert b'"input":%b' % given in answer.raw


def test_direct_runs_whose_input_is_kept_are_run_again_as_what_they_were(deployed: Deployed) -> None:
    request = WebhookRequest(method="PUT", path="/orders/users/ann?a=1", headers=[("X-Shop", "berlin")])
    ended = {"status": "failed", "attempt": 1, "attempts": 1, "user": "ann"}
    webhook = record(kind="webhook", task="orders", input=b"body", request=request, **ended)
    schedule = record(kind="schedule", task="nightly", input=b'{"due": "2026-11-24T09:00:00Z"}', **ended)
    deployed.report(webhook, schedule)
    for run in (webhook, schedule):
        new = deployed.client.ok("POST", f"{deployed.path}/{run.id}/replay", status=202)
        subject = deployed.streams.event(run.task, new["id"])
        found = message_at(deployed.engine, deployed.streams, deployed.streams.queue, subject)
        assert found is not None
        assert found[0] == run.input
        metadata = EventMetadata.parse(found[1])
        assert (metadata.kind, metadata.user, metadata.request) == (run.kind, "ann", run.request)
    again = deployed.client.ok("POST", f"{deployed.path}/replay", {"status": "failed"}, status=202)
    assert again == {"count": 0, "skipped": 2, "more": False}


def test_what_cannot_be_run_again_says_why(deployed: Deployed) -> None:
    running = record(status="running", attempt=1)
    direct = record(status="succeeded", attempt=1, kind="webhook", task="orders")
    schedule = record(status="succeeded", attempt=1, kind="schedule", task="nightly")
    deployed.report(running, direct, schedule)
    reasons = ((running, "has ended"), (direct, "request is not kept"), (schedule, "input is not kept"))
    for run, reason in reasons:
        answer = deployed.client("POST", f"{deployed.path}/{run.id}/replay")
        assert (answer.status, answer.json["code"]) == (409, "conflict")
        assert reason in answer.json["message"]
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 0


def test_a_large_input_is_shown_in_part(deployed: Deployed) -> None:
    run = record(status="succeeded", attempt=1, input=b"x" * 2_000_000)
    deployed.report(run)
    shown = deployed.client.ok("GET", f"{deployed.path}/{run.id}")
    assert shown["inputTruncated"] is True
    assert base64.b64decode(shown["inputBase64"]) == b"x" * 1024 * 1024


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
    for subject in (streams.event("*", run), streams.keyed_event("*", run)):
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
    run, key = new_id(), hashed("ann")
    deployed.report(*life(run, key="ann")[:3])
    metadata = EventMetadata(run=run, kind="event", task="order.created", queued_at=NOW, key="ann")
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


def test_many_runs_are_counted_run_again_once_and_cancelled(deployed: Deployed) -> None:
    dead = [record(status="dead", attempt=3, input=b"{}", queued_at=NOW + one) for one in range(20)]
    lost = record(status="dead", attempt=3)
    ended = record(status="succeeded", attempt=1, input=b"{}")
    deployed.report(*dead, lost, ended)
    selected = {"status": "dead"}
    counted = deployed.client.ok("POST", f"{deployed.path}/replay", {**selected, "dryRun": True}, status=202)
    assert counted == {"count": 21, "skipped": 0, "more": False}
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 0
    assert deployed.client.ok("POST", f"{deployed.path}/replay?status=dead", status=202) == {
        "count": 20, "skipped": 1, "more": False,
    }  # fmt: skip
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 20
    again = deployed.client.ok("POST", f"{deployed.path}/replay", selected, status=202)
    assert again == {"count": 0, "skipped": 21, "more": False}
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 20
    queued = deployed.ids("status=queued&first=200")
    assert len(queued) == 20
    for body in (None, {}, {"dryRun": True}, {"stauts": "queued"}):
        answer = deployed.client("POST", f"{deployed.path}/cancel", body)
        assert answer.status == 422
    for path, body, named in (
        ("cancel", {"status": "queued", "tsak": "other"}, "tsak"),
        ("cancel?tsak=other", {"status": "queued"}, "tsak"),
        ("replay?status=dead&first=1", None, "first"),
        ("replay?status=dead&status=succeeded", None, "status"),
        ("replay?status=dead", {"status": "succeeded"}, "status"),
        ("cancel?dryRun=true", {"status": "queued", "dryRun": False}, "dryRun"),
    ):
        answer = deployed.client("POST", f"{deployed.path}/{path}", body)
        assert (answer.status, answer.fields) == (422, [named])
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 20
    cancelled = deployed.client.ok("POST", f"{deployed.path}/cancel", {"status": "queued"}, status=202)
    assert cancelled == {"count": 20, "skipped": 0, "more": False}
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 0
    assert sorted(deployed.ids("status=cancelled&first=200")) == sorted(queued)


@pytest.fixture
def other_engine(tmp_path: Path) -> Iterator[NatsServer]:
    folder = tmp_path / "engine"
    folder.mkdir()
    with running_nats_server(folder) as running:
        yield running


def test_every_replica_and_one_that_lost_its_disk_answer_the_same(
    deployed: Deployed, api_kubeconfig: Path, engine: NatsServer, tmp_path: Path
) -> None:
    runs = [new_id() for _ in range(30)]
    for run in runs:
        report(engine, deployed.streams.organisation, deployed.environment, *life(run))
    deployed.until_there(*runs)
    path = f"{deployed.path}?first=200"
    expected = deployed.client.ok("GET", path)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        with Server(api_kubeconfig, **of_engine(engine, tmp_path / name)) as replica:
            client = Client(replica.url, deployed.client.token, deployed.client.organisation)
            assert client.ok("GET", path) == expected
            assert client.ok("GET", f"{deployed.path}/{runs[0]}")["input"] == {"id": 1}


def test_an_engine_that_is_away_is_503_and_heals(
    client: Client, api_kubeconfig: Path, other_engine: NatsServer, tmp_path: Path
) -> None:
    with Server(api_kubeconfig, **of_engine(other_engine, tmp_path)) as server:
        here = Client(server.url, client.token, client.organisation)
        deployed = deploy(here, other_engine)
        run = new_id()
        deployed.report(*life(run))
        metrics = here.at("/metrics").raw.decode()
        assert "tieline_engine_connected 1.0" in metrics
        other_engine.kill()
        event = {"task": "t", "payload": 1}
        events = f"/environments/{deployed.environment}/events"
        eventually(
            "it to be noticed", lambda: "tieline_engine_connected 0.0" in here.at("/metrics").raw.decode()
        )
        for path, body in (
            (f"{deployed.path}/{run}/replay", None),
            (f"{deployed.path}/replay", {"status": "succeeded"}),
            (events, event),
        ):
            answer = here("POST", path, body)
            assert (answer.status, answer.json["code"]) == (503, "unavailable"), answer.raw
            assert answer.headers["Retry-After"]
        listed = here("GET", deployed.path)
        assert (listed.status, [one["id"] for one in listed.json["items"]]) == (200, [run])
        assert "engine cannot be reached" in listed.headers["Warning"]
        other_engine.start()
        eventually("the engine again", lambda: here("POST", events, event).status == 202)
        accepted = here.ok("POST", events, event, status=202)
        deployed.until_there(accepted["runId"])
        assert "Warning" not in here("GET", deployed.path).headers


def test_without_an_engine_operations_say_what_to_configure(client: Client, api_kubeconfig: Path) -> None:
    with Server(api_kubeconfig) as server:
        here = Client(server.url, client.token, client.organisation)
        project = make_project(here)
        path = f"/projects/{project['id']}/runs"
        for method, asked in (("GET", "/runs"), ("GET", path), ("GET", f"{path}/{new_id()}")):
            answer = here(method, asked)
            assert (answer.status, answer.json["code"]) == (503, "not_configured")
            assert "TIELINE_ENGINE_URL" in answer.json["message"]
        assert here("GET", f"/projects/{new_id()}/runs").status == 404


def test_direct_runs_and_traces_are_the_same_at_every_replica(
    deployed: Deployed,
    server: Server,
    api_kubeconfig: Path,
    kubectl: Kubectl,
    org: Organisation,
    tmp_path: Path,
) -> None:
    run, queued = new_id(), new_id()
    deployed.report(record(queued, kind="webhook", task="orders"))
    spans = [
        span_json(
            number,
            attributes=[
                attribute("executionId", identifier),
                attribute("task", "orders"),
                attribute("user", "ann"),
                attribute("http.request.method", "POST"),
                attribute("exception.type", "ValueError"),
            ],
            status={"code": 2, "message": "ValueError: no"},
        )
        for number, identifier in ((1, run), (2, queued))
    ]
    sender = Client(deployed.client.url, account_token(kubectl, org, deployed.project), org.id)
    sent = sender.at(
        "/internal/v1/traces", method="POST", raw=body_json(*spans), Content_Type="application/json"
    )
    assert sent.status == 200
    deployed.until_there(run, queued)
    found = {one["id"]: one for one in deployed.client.ok("GET", deployed.path)["items"]}
    assert found.keys() == {run, queued}
    assert found[queued]["status"] == "queued"
    assert found[run] == {
        "id": run,
        "kind": "webhook",
        "task": "orders",
        "status": "failed",
        "environmentId": deployed.environment,
        "user": {"externalId": "ann"},
        "attempt": 1,
        "queuedAt": "2025-11-21T10:00:00.000000Z",
        "startedAt": "2025-11-21T10:00:00.000000Z",
        "endedAt": "2025-11-21T10:00:00.000001Z",
        "error": {"type": "ValueError", "message": "ValueError: no"},
        "traceId": f"{1:032x}",
    }
    assert deployed.ids("search=valueerror") == [run]
    assert deployed.ids(f"trace_id={1:032x}") == [run]
    assert deployed.ids(f"trace_id={1:032x}&key=ann") == []
    settings = {**of_engine(deployed.engine, tmp_path), "traces_file": str(tmp_path / "traces.db")}
    with Server(api_kubeconfig, **settings) as replica:
        other = Client(replica.url, deployed.client.token, deployed.client.organisation)
        same = deployed.client.ok("GET", deployed.path)
        eventually("the runs at the other replica", lambda: other.ok("GET", deployed.path) == same)
        assert other.ok("GET", f"/projects/{deployed.project['id']}/traces/{1:032x}")["spans"]
        assert other.ok("GET", f"{deployed.path}/{run}")["attemptHistory"][0]["status"] == "failed"
    refused = deployed.client("POST", f"{deployed.path}/{run}/replay")
    assert (refused.status, "not kept" in refused.json["message"]) == (409, True)
    assert deployed.client("POST", f"{deployed.path}/{run}/cancel").status == 409


def test_the_summary_has_each_run_once_and_both_paths_and_the_list_agree(
    deployed: Deployed, kubectl: Kubectl, org: Organisation
) -> None:
    """In a time when no other test here has runs."""
    at = 1_740_830_400.0  # 2025-03-01T12:00:00Z
    run, known = new_id(), new_id()
    deployed.report(
        *(record(queued_at=at + hour * 3600) for hour in range(3)),
        record(status="dead", attempt=3, queued_at=at + 60),
        record(known, "failed", attempt=1, kind="webhook", task="orders", queued_at=at + 90),
        record(status="dead", attempt=3, queued_at=at - 12 * 3600 - 1),
    )
    start = round((at + 120) * 1_000_000_000)
    spans = [
        span_json(
            number,
            startTimeUnixNano=str(start),
            endTimeUnixNano=str(start + 1),
            attributes=[attribute("executionId", identifier), attribute("http.request.method", "POST")],
            status={"code": 2},
        )
        for number, identifier in ((1, run), (2, known))
    ]
    sender = Client(deployed.client.url, account_token(kubectl, org, deployed.project), org.id)
    content = {"raw": body_json(*spans), "Content_Type": "application/json"}
    assert sender.at("/internal/v1/traces", method="POST", **content).status == 200
    deployed.until_there(run)
    window = "start=2025-03-01T00:00:00Z&end=2025-03-02T00:00:00Z"
    summary = deployed.client.ok("GET", f"/metricssummary?{window}&buckets=24")
    series = {one["start"][11:13]: (one["executions"], one["errors"]) for one in summary.pop("series")}
    assert summary.pop("deployedProjects").keys() == {"current", "past"}
    assert summary == {"totalExecutions": {"current": 6, "past": 1}, "totalErrors": {"current": 3, "past": 1}}
    assert len(series) == 24
    assert {hour: found for hour, found in series.items() if any(found)} == {
        "12": (4, 3), "13": (1, 0), "14": (1, 0),
    }  # fmt: skip
    assert deployed.client.ok("GET", f"/runs?{window}")["totalCount"] == 6
    same = deployed.client.ok("GET", f"/projects/metricssummary?{window}")
    assert {name: same[name] for name in summary} == summary
    assert "series" not in same


def test_a_summary_of_an_impossible_window_says_what_is_wrong(client: Client) -> None:
    for query, field in (
        ("start=2025-03-02T00:00:00Z&end=2025-03-01T00:00:00Z", "start"),
        ("start=2025-03-01T00:00:00Z&end=2025-03-01T00:00:00Z", "start"),
        ("start=yesterday", "start"),
        ("buckets=0", "buckets"),
        ("buckets=501", "buckets"),
    ):
        answer = client("GET", f"/metricssummary?{query}")
        assert (answer.status, answer.fields) == (422, [field]), query
    for query in (
        "start=0001-01-01T00:00:00Z&end=9999-12-31T23:59:59Z&buckets=500",
        "end=0001-01-01T00:00:00Z",
    ):
        assert client("GET", f"/metricssummary?{query}").status in (200, 422)
