"""Runs by REST that are run again, one and many, and dead letters that are discarded."""

from __future__ import annotations

import base64
import json

import pytest
from nats.aio.client import Client as Nats

from tests.integration.api.conftest import Client
from tests.integration.api.engine_objects import (
    fetched,
    message_at,
    stored,
    with_engine,
)
from tests.integration.api.resources.deployed_runs import Deployed, bury, deploy
from tests.unit.api.runs.run_records import NOW, life, record
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import STEP_HEADER, hashed
from tieline_protocol.events import EventMetadata, WebhookRequest
from tieline_protocol.kept_results import KeptResult, packed
from tieline_protocol.recordings import Recording
from tieline_protocol.run_records import StepRecord

pytestmark = pytest.mark.cluster


def test_a_run_is_run_again_with_its_own_input_or_another(deployed: Deployed) -> None:
    old = new_id()
    deployed.report(*life(old, key="ann/1"))
    first = deployed.client.ok("POST", f"{deployed.path}/{old}/replay", status=202)
    second = deployed.client.ok("POST", f"{deployed.path}/{old}/replay", {"payload": {"id": 2}}, status=202)
    for new, payload in ((first, {"id": 1}), (second, {"id": 2})):
        assert (new["status"], new["replayOf"], new["task"]) == ("queued", old, "order.created")
        subject = deployed.streams.keyed_event("*", new["id"])
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


def test_a_run_is_run_again_from_a_step_with_the_results_before_it(
    deployed: Deployed, neighbour: Client
) -> None:
    results = [
        KeptResult(
            name=name, name_hash=hashed(name), occurrence=1, place=place, run="origin", result=f'"{name}"'
        )
        for place, name in enumerate(("book", "pay", "ship"), 1)
    ]
    steps = [StepRecord(name=one.name, occurrence=1, started_at=NOW, ended_at=NOW) for one in results]
    old = record(
        status="succeeded", attempt=1, steps=steps, step_results=packed(results), input=b"7", user="ann"
    )
    deployed.report(old)
    body = {"fromStep": {"name": "ship"}}
    new = deployed.client.ok("POST", f"{deployed.path}/{old.id}/replay", body, status=202)
    assert (new["status"], new["replayOf"]) == ("queued", old.id)
    found = message_at(
        deployed.engine, deployed.streams, deployed.streams.queue, deployed.streams.event("*", new["id"])
    )
    assert found is not None
    metadata = EventMetadata.parse(found[1])
    assert (found[0], metadata.has_steps, metadata.replay_of) == (b"7", True, old.id)
    assert metadata.idempotency_run is None
    for one, expected in zip(results, (b'"book"', b'"pay"', None), strict=True):
        subject = deployed.streams.step(new["id"], one.name, 1, place=one.place)
        copied = message_at(deployed.engine, deployed.streams, deployed.streams.runs, subject)
        assert (copied and copied[0]) == expected
        assert copied is None or json.loads(copied[1][STEP_HEADER])["run"] == "origin"
    for wrong, status in (
        ({"fromStep": {"name": "nope"}}, 422),
        ({"fromStep": {"name": "ship", "occurrence": 2}}, 422),
        ({"fromStep": {"name": "ship"}, "payload": 1}, 422),
        ({"fromStep": {"name": ""}}, 422),
        ({"fromStep": "ship"}, 422),
    ):
        assert deployed.client("POST", f"{deployed.path}/{old.id}/replay", wrong).status == status, wrong
    assert neighbour("POST", f"{deployed.path}/{old.id}/replay", body).status == 404
    assert neighbour("GET", f"{deployed.path}/{old.id}/recording").status == 404
    recording = deployed.client.ok("GET", f"{deployed.path}/{old.id}/recording")
    assert (recording["payload"], [one["result"] for one in recording["steps"]]) == (
        "7", ['"book"', '"pay"', '"ship"'],
    )  # fmt: skip
    assert recording["steps"][0]["idempotencyKey"] == f"origin/{hashed('book')}/1"
    assert Recording.parse(json.dumps(recording).encode()).steps[2].place == 3
    bare = record(status="succeeded", attempt=1, steps=steps, input=b"7")
    running = record(status="running", attempt=1)
    direct = record(status="succeeded", attempt=1, steps=steps)
    deployed.report(bare, running, direct)
    for run, said in ((bare, "are not kept"), (running, "running"), (direct, "no longer kept")):
        refused = deployed.client("POST", f"{deployed.path}/{run.id}/replay", body)
        assert refused.status == 409
        assert said in refused.json["message"]
    assert deployed.client("GET", f"{deployed.path}/{running.id}/recording").status == 409
    notes = deployed.client.ok("GET", f"{deployed.path}/{bare.id}/recording")["notes"]
    assert "The results of steps are not kept" in notes


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


def test_a_batch_is_run_again_as_a_batch(deployed: Deployed) -> None:
    content = b'{"~batch":[[{"run":"R","queued_at":1},{"id":1}]]}'
    batch = record(status="failed", attempt=1, input=content, batch=True)
    looks_like_one = record(status="failed", attempt=1, input=content)
    deployed.report(batch, looks_like_one)
    for run, is_batch in ((batch, True), (looks_like_one, False)):
        new = deployed.client.ok("POST", f"{deployed.path}/{run.id}/replay", status=202)
        subject = deployed.streams.event("*", new["id"])
        found = message_at(deployed.engine, deployed.streams, deployed.streams.queue, subject)
        assert found is not None
        assert (found[0], EventMetadata.parse(found[1]).batch) == (content, is_batch)


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


def test_chosen_runs_are_run_again_and_no_others(deployed: Deployed, neighbour: Client) -> None:
    runs = [record(status="failed", attempt=1, input=b"{}", queued_at=NOW + one) for one in range(4)]
    deployed.report(*runs)
    other = deploy(neighbour, deployed.engine)
    ids = [runs[1].id.lower(), runs[2].id, new_id()]
    assert neighbour.ok("POST", f"{other.path}/replay", {"ids": ids}, status=202)["count"] == 0
    for body, count in (({"ids": ids, "dryRun": True}, 2), ({"ids": ids}, 2), ({"ids": ids}, 0)):
        found = deployed.client.ok("POST", f"{deployed.path}/replay", body, status=202)
        assert found["count"] == count
    assert set(deployed.ids("replayed=true")) == {runs[1].id, runs[2].id}
    for wrong in ([], [new_id() for _ in range(101)], ["x"]):
        assert deployed.client("POST", f"{deployed.path}/replay", {"ids": wrong}).status == 422
    assert deployed.client("POST", f"{deployed.path}/cancel?ids={runs[0].id}").status == 202


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
        ("replay?task=orders&task=other", None, "task"),
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
