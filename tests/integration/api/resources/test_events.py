"""Events by REST: stored as pods expect them, before the answer; once for an id; never lost, never elsewhere."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.engine_objects import fetched, make_streams, message_at, stored
from tests.integration.api.objects import MAIN, make_project
from tests.integration.api.resources.deployed_runs import Deployed
from tests.unit.api.runs.run_records import life
from tieline_core.engine.streams import StreamLimits
from tieline_core.identity.ids import new_id
from tieline_protocol.event_streams import MAX_EVENT_BYTES, EventStreams
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.cluster


def events(deployed: Deployed) -> str:
    return f"/environments/{deployed.environment}/events"


def test_an_event_reaches_the_pods(deployed: Deployed) -> None:
    before = time.time()
    body = {"task": "order.created", "payload": {"id": "Ä-1"}, "id": "ü\r\nNats-Rollup: all"}
    answer = deployed.client.ok("POST", events(deployed), body, status=202)
    assert answer["eventId"] == "ü\r\nNats-Rollup: all"
    (message,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    assert message.subject == deployed.streams.event("order.created", answer["runId"])
    assert json.loads(message.data) == {"id": "Ä-1"}
    metadata = EventMetadata.parse(message.headers)
    assert (metadata.run, metadata.kind, metadata.task, metadata.attempt) == (
        answer["runId"], "event", "order.created", 1,
    )  # fmt: skip
    assert before <= metadata.queued_at <= time.time()
    shown = deployed.client.ok("GET", f"{deployed.path}/{answer['runId']}")
    assert (shown["status"], shown["attempt"], shown["attemptHistory"]) == ("queued", 0, [])


def test_a_deploy_warns_of_events_whose_task_it_takes_away(deployed: Deployed) -> None:
    runs = [
        deployed.client.ok("POST", events(deployed), {"task": task, "payload": 1}, status=202)["runId"]
        for task in ("kept", "gone", "gone", "cancelled")
    ]
    assert deployed.client("POST", f"{deployed.path}/{runs[-1]}/cancel").status == 202
    code = (
        "from tieline import Integration\nintegration = Integration()\n\n\n"
        "@integration.event('kept')\nasync def kept(ctx, event):\n    pass\n"
    )
    project = deployed.path.removesuffix("/runs")
    files = {"files": [{"filename": "main.py", "content": code}]}
    waits = '2 events wait for the task \\"gone\\", which these files do not have.'
    found = deployed.client.ok("PUT", f"{project}/validate", files)["findings"]
    assert [(one["severity"], one["message"].startswith(waits.replace("\\", ""))) for one in found] == [
        ("warning", True)
    ]
    answer = deployed.client("PUT", f"{project}/deploy", files)
    assert answer.status == 200, answer.raw
    assert answer.headers["Warning"].startswith(f'299 - "{waits}')
    again = deployed.client(
        "PUT", f"{project}/versions/{answer.json['environments'][0]['deployedVersion']['id']}/deploy"
    )
    assert waits in again.headers["Warning"]


def test_a_payload_reaches_the_pods_as_it_was_sent(deployed: Deployed) -> None:
    payload = b'{"id": 123456789012345678901234567890, "amount": 1.10, "a": 1, "a": 2}'
    body = b'{"task": "order.created", "payload": %b }' % payload
    answer = deployed.client("POST", events(deployed), raw=body)
    assert answer.status == 202, answer.raw
    (message,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    assert message.data == payload
    refused = deployed.client("POST", events(deployed), raw=body.replace(b"1.10", b"1e400"))
    assert (refused.status, refused.json["code"]) == (400, "malformed")


def test_an_event_with_the_same_id_is_stored_once(deployed: Deployed) -> None:
    for key in (None, "ann"):
        body = {"task": f"t-{key}", "payload": 1, "id": "same", "key": key}
        first = deployed.client("POST", events(deployed), body)
        second = deployed.client("POST", events(deployed), body)
        assert (first.status, second.status) == (202, 202)
        assert second.json == first.json
        assert "stored already" in second.headers["Warning"]
    other = deployed.client.ok(
        "POST", events(deployed), {"task": "u", "payload": 1, "id": "same"}, status=202
    )
    assert other["runId"] != first.json["runId"]
    # Two without a key, one with it, and its token.
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 4


def test_the_first_run_is_named_even_after_it_has_ended(deployed: Deployed) -> None:
    body = {"task": "t", "payload": 1, "id": "same"}
    first = deployed.client.ok("POST", events(deployed), body, status=202)
    assert deployed.client("POST", f"{deployed.path}/{first['runId']}/cancel").status == 202
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 0
    assert deployed.client.ok("POST", events(deployed), body, status=202) == first


def test_events_with_a_key_are_kept_in_order_with_one_token(deployed: Deployed) -> None:
    runs = [
        deployed.client.ok("POST", events(deployed), {"task": "t", "payload": n, "key": "ann"}, status=202)[
            "runId"
        ]
        for n in range(3)
    ]
    (token,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    lane = EventMetadata(run="", kind="event", task="t", queued_at=0, key="ann").key_hash
    assert token.subject == deployed.streams.key_token(lane)
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 4
    oldest = message_at(
        deployed.engine,
        deployed.streams,
        deployed.streams.queue,
        deployed.streams.events_of_key(lane),
    )
    assert oldest is not None
    assert EventMetadata.parse(oldest[1]).run == runs[0]


def test_a_delayed_event_comes_when_its_time_has_come(deployed: Deployed) -> None:
    body = {"task": "t", "payload": {"a": 1}, "delay": 1.5, "id": "later"}
    answer = deployed.client.ok("POST", events(deployed), body, status=202)
    shown = deployed.client.ok("GET", f"{deployed.path}/{answer['runId']}")
    assert shown["status"] == "waiting"
    due = datetime.fromisoformat(shown["nextAttemptAt"])
    assert 0 < (due - datetime.now(UTC)).total_seconds() <= 1.5
    assert fetched(deployed.engine, deployed.streams, deployed.streams.later, seconds=0.3) == []
    (message,) = fetched(deployed.engine, deployed.streams, deployed.streams.later, seconds=5)
    assert message.subject == deployed.streams.due(answer["runId"])
    assert json.loads(message.data) == {"a": 1}
    assert EventMetadata.parse(message.headers).run == answer["runId"]


def test_an_event_that_the_code_does_not_seem_to_have_is_stored_with_a_warning(
    deployed: Deployed, kubectl: Kubectl, org: Organisation
) -> None:
    version = deployed.client.ok("GET", f"/projects/{deployed.project['id']}/versions")["items"][0]
    events_of = {"digest": "0" * 64, "webhooks": ["orders"], "events": ["order.created", "order.paid"]}
    kubectl(
        "patch", "projectversion", version["id"].lower(), "--subresource=status", "--type=merge",
        "-p", json.dumps({"status": {"interface": events_of}}), namespace=org.namespace,
    )  # fmt: skip

    def sent(task: str) -> str:
        answer = deployed.client("POST", events(deployed), {"task": task, "payload": 1})
        assert answer.status == 202, answer.raw
        return answer.headers.get("Warning", "")

    warning = eventually("a warning", lambda: sent("order.craeted"))
    assert "order.craeted" in warning
    assert "order.paid" in warning
    assert sent("order.created") == ""
    assert "is a webhook" in sent("orders")


def test_an_event_for_a_user_names_the_external_id(deployed: Deployed) -> None:
    user = deployed.client.ok("POST", "/users", {"externalId": f"ann/{new_id()}"}, status=201)
    answer = deployed.client("POST", events(deployed), {"task": "t", "payload": 1, "user": user["id"]})
    assert answer.status == 202
    assert "no activation" in answer.headers["Warning"]
    shown = deployed.client.ok("GET", f"{deployed.path}/{answer.json['runId']}")
    assert shown["user"] == {"id": user["id"], "externalId": user["externalId"]}
    refused = deployed.client("POST", events(deployed), {"task": "t", "payload": 1, "user": "nobody"})
    assert (refused.status, refused.fields) == (422, ["user"])


@pytest.mark.parametrize(
    "changed",
    [
        {"task": ""},
        {"task": "a b"},
        {"task": "a.*"},
        {"task": ">"},
        {"task": "~key"},
        {"task": "x" * 101},
        {"key": ""},
        {"key": "x" * 513},
        {"id": ""},
        {"id": "x" * 257},
        {"delay": -1},
        {"delay": 1e12},
        {"user": ""},
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_and_not_stored(
    deployed: Deployed, changed: dict[str, object]
) -> None:
    answer = deployed.client("POST", events(deployed), {"task": "t", "payload": 1, **changed})
    assert (answer.status, answer.fields) == (422, list(changed))
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 0


def test_a_payload_may_be_as_large_as_the_engine_takes(deployed: Deployed) -> None:
    largest = "x" * (MAX_EVENT_BYTES - 2)
    assert deployed.client("POST", events(deployed), {"task": "t", "payload": largest}).status == 202
    refused = deployed.client("POST", events(deployed), {"task": "t", "payload": largest + "x"})
    assert (refused.status, refused.json["limit"]) == (413, MAX_EVENT_BYTES)


def test_a_draft_and_an_environment_of_others_take_no_events(
    client: Client, neighbour: Client, deployed: Deployed
) -> None:
    draft = make_project(client)["environments"][0]["id"]
    refused = client("POST", f"/environments/{draft}/events", {"task": "t", "payload": 1})
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert "deploy it first" in refused.json["message"]
    for caller, environment in ((client, new_id()), (neighbour, deployed.environment)):
        assert (
            caller("POST", f"/environments/{environment}/events", {"task": "t", "payload": 1}).status == 404
        )
    assert stored(deployed.engine, deployed.streams, deployed.streams.queue) == 0


def test_an_environment_whose_queue_is_not_there_yet_says_so(client: Client, deployed: Deployed) -> None:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    path = f"/environments/{project['environments'][0]['id']}/events"
    refused = client("POST", path, {"task": "t", "payload": 1})
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    assert "no queue" in refused.json["message"]


def test_a_full_queue_refuses_and_drops_nothing(client: Client, engine: NatsServer) -> None:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    environment = project["environments"][0]["id"]
    limits = StreamLimits(queue_bytes=20_000, runs_bytes=1 << 20, history_bytes=1 << 24)
    streams: EventStreams = make_streams(engine, client.organisation, environment, limits)
    for key in (None, "ann"):
        for _ in range(40):
            event = {"task": "t", "payload": "x" * 1000, "key": key}
            answer = client("POST", f"/environments/{environment}/events", event)
            if answer.status != 202:
                break
        assert (answer.status, answer.json["code"]) == (503, "engine_full")
        assert answer.headers["Retry-After"]
    accepted = client.ok("GET", f"/projects/{project['id']}/runs?first=200")["totalCount"]
    assert 10 < accepted == stored(engine, streams, streams.queue) < 25


def test_while_too_much_waits_no_new_event_is_taken(client: Client, engine: NatsServer) -> None:
    project = make_project(client)
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    environment = project["environments"][0]["id"]
    limits = StreamLimits(queue_bytes=1 << 20, later_bytes=20_000, runs_bytes=1 << 20, history_bytes=1 << 24)
    deployed = Deployed(
        client, engine, project, make_streams(engine, client.organisation, environment, limits)
    )
    metadata = EventMetadata(run=new_id(), kind="event", task="t", queued_at=time.time())
    deployed.queue(metadata, b"x" * 30_000, delay=3600)
    ended = new_id()
    deployed.report(*life(ended))
    for method, path, body in (
        ("POST", events(deployed), {"task": "t", "payload": 1}),
        ("POST", events(deployed), {"task": "t", "payload": 1, "delay": 60}),
        ("POST", f"{deployed.path}/{ended}/replay", None),
    ):
        refused = client(method, path, body)
        assert (refused.status, refused.json["code"]) == (503, "engine_full")
        assert refused.headers["Retry-After"] == "10"
    assert stored(engine, deployed.streams, deployed.streams.queue) == 0
    assert stored(engine, deployed.streams, deployed.streams.later) == 1
