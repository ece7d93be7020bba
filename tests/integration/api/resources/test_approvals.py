"""Approvals by REST: listed and answered by who may, once, and nobody else's."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from nats.aio.client import Client as Nats

from tests.harness.cluster.kubectl import Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server
from tests.integration.api.engine_objects import ask, fetched, message_at, with_engine
from tests.integration.api.resources.deployed_runs import Deployed, deploy
from tests.unit.api.runs.run_records import record
from tieline_core.identity.ids import new_id
from tieline_protocol import approvals
from tieline_protocol.approvals import ANSWER_TASK, Approval
from tieline_protocol.event_streams import TTL
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import TIMED_OUT

pytestmark = pytest.mark.cluster

FORM = {
    "type": "object",
    "properties": {"amount": {"type": "integer", "maximum": 500}},
    "required": ["amount"],
    "additionalProperties": False,
}


@pytest.fixture
def deployed(client: Client, engine: NatsServer) -> Deployed:
    """With a run, without which nobody looks for approvals."""
    found = deploy(client, engine)
    found.report(record(status="waiting", attempt=1))
    return found


@pytest.fixture
def person(server: Server, org: Organisation, token_for: Callable[..., str]) -> Callable[[str], Client]:
    """Somebody with a role."""

    def made(role: str) -> Client:
        token = token_for(org.namespace, f"approver-{role}", None if role == "none" else f"tieline-{role}")
        return Client(server.url, token, org.id)

    return made


def asked(deployed: Deployed, **fields: Any) -> Approval:
    return ask(deployed.engine, deployed.streams, **fields)


def path(deployed: Deployed, approval: str) -> str:
    return f"/environments/{deployed.environment}/approvals/{approval}"


def answer(deployed: Deployed, approval: Approval, client: Client | None = None, **body: Any) -> Answer:
    caller = client or deployed.client
    return caller("POST", f"{path(deployed, approval.id)}/answer", {"approved": True, **body})


def listed(client: Client, query: str) -> list[str]:
    return [one["id"] for one in client.ok("GET", f"/approvals?{query}")["items"]]


def test_an_approval_is_listed_shown_and_answered(deployed: Deployed) -> None:
    client, environment = deployed.client, deployed.environment
    details = {"order": "A-1", "deep": [[{"amount": 4.5}]], "note": "<script>ü"}
    approval = asked(
        deployed, title="Refund 480 EUR?", details=details, user="ann", by=("role:tieline-editor",)
    )
    (found,) = client.ok("GET", f"/approvals?environment={environment}")["items"]
    assert (found["id"], found["title"], found["details"], found["user"]) == (
        approval.id, "Refund 480 EUR?", details, "ann",
    )  # fmt: skip
    assert (found["projectId"], found["runId"], found["state"], found["mayAnswer"]) == (
        deployed.project["id"], approval.run, "open", True,
    )  # fmt: skip
    assert client.ok("GET", path(deployed, approval.id.lower())) == found

    before = time.time()
    done = answer(deployed, approval, comment="The goods came back.")
    assert done.status == 200, done.raw
    assert (done.json["state"], done.json["mayAnswer"]) == ("approved", False)
    assert (done.json["answer"]["approved"], done.json["answer"]["comment"]) == (True, "The goods came back.")
    assert done.json["answer"]["by"]
    assert client.ok("GET", path(deployed, approval.id)) == done.json

    # A pod takes it from the queue and wakes the run; it is no run of its own.
    (message,) = fetched(deployed.engine, deployed.streams, deployed.streams.queue)
    metadata = EventMetadata.parse(message.headers)
    assert (metadata.task, metadata.kind) == (ANSWER_TASK, "event")
    given = approvals.Answer.decode(message.data)
    assert (given.approval, given.approved, given.by) == (approval.id, True, done.json["answer"]["by"])
    assert before <= given.at <= time.time()
    outcome = message_at(
        deployed.engine, deployed.streams, deployed.streams.runs, deployed.streams.answered(approval.id)
    )
    assert outcome is not None
    assert outcome[0] == message.data
    assert len(deployed.ids()) == 1


def test_the_second_answer_is_told_who_was_first(deployed: Deployed, person: Callable[[str], Client]) -> None:
    approval, editor = asked(deployed), person("editor")
    first = answer(deployed, approval, editor, approved=False)
    assert first.status == 200, first.raw
    second = answer(deployed, approval)
    assert second.status == 409
    by = first.json["answer"]["by"]
    assert second.json["message"].startswith(f"{by} rejected it already, at 20")
    # It is not queued either.
    assert len(fetched(deployed.engine, deployed.streams, deployed.streams.queue)) == 1


def test_of_answers_at_the_same_time_one_counts(deployed: Deployed) -> None:
    approval = asked(deployed)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda number: answer(deployed, approval, comment=f"no. {number}"), range(6)))
    (won,) = [one for one in found if one.status == 200]
    assert {one.status for one in found} == {200, 409}
    shown = deployed.client.ok("GET", path(deployed, approval.id))
    assert shown["answer"]["comment"] == won.json["answer"]["comment"]


@pytest.mark.parametrize(
    ("by", "may"),
    [
        ((), "editor admin"),
        (("role:tieline-editor",), "editor admin"),
        (("role:tieline-admin",), "admin"),
        (("role:tieline-viewer",), "viewer editor admin"),
        (("user:nobody@example.com",), ""),
        (("group:system:serviceaccounts",), "viewer editor admin"),
        # What hostile code writes makes nobody an approver.
        (("role:cluster-admin", "user:", "*", ""), ""),
    ],
)
def test_who_may_not_is_403(
    deployed: Deployed, person: Callable[[str], Client], by: tuple[str, ...], may: str
) -> None:
    for role in ("none", "viewer", "editor", "admin"):
        approval = asked(deployed, by=by)
        caller = person(role)
        done = answer(deployed, approval, caller)
        if role == "none":
            assert done.status == 404, done.raw
            continue
        assert done.status == (200 if role in may.split() else 403), (role, done.raw)
        if done.status == 403:
            assert "You may not answer this approval" in done.json["message"]
            assert not caller.ok("GET", path(deployed, approval.id))["mayAnswer"]


def test_a_named_user_who_may_only_read_answers(deployed: Deployed, person: Callable[[str], Client]) -> None:
    viewer = person("viewer")
    name = viewer.at("/api/v2/me").json["id"]
    approval = asked(deployed, by=(f"user:{name}",))
    assert listed(viewer, f"environment={deployed.environment}&answerable=true") == [approval.id]
    assert listed(deployed.client, f"environment={deployed.environment}&answerable=true") == []
    assert answer(deployed, approval).status == 403
    assert answer(deployed, approval, viewer).status == 200


def test_who_asked_is_refused_whatever_their_role(
    deployed: Deployed, person: Callable[[str], Client]
) -> None:
    admin = person("admin")
    name = admin.at("/api/v2/me").json["id"]
    approval = asked(deployed, other_than=name)
    refused = answer(deployed, approval, admin)
    assert (refused.status, "Somebody else" in refused.json["message"]) == (403, True)
    assert answer(deployed, approval, person("editor")).status == 200


def test_an_api_key_has_the_rights_of_its_user(deployed: Deployed) -> None:
    client = deployed.client
    made = client.ok("POST", "/api-keys", {"user": f"ci-{new_id().lower()}"}, status=201)
    by_key = Client(client.url, None, client.organisation, {"X-API-Key": made["key"]})
    approval = asked(deployed)
    assert answer(deployed, approval, by_key).status == 404
    role = {"role": "editor", "subject": {"kind": "User", "name": made["subject"]}}
    client.ok("POST", "/role-bindings", role, status=201)
    found: list[Answer] = []

    def is_answered() -> bool:
        found.append(answer(deployed, approval, by_key))
        return found[-1].status == 200

    eventually("the role", is_answered)
    assert found[-1].json["answer"]["by"] == made["subject"]


def test_the_form_decides_which_values_an_approval_has(deployed: Deployed) -> None:
    approval = asked(deployed, form=FORM)
    for values in (None, {}, {"amount": 501}, {"amount": "7"}, {"amount": 7, "more": 1}):
        refused = answer(deployed, approval, values=values)
        assert refused.status == 422, refused.raw
        assert refused.json["fields"][0]["field"].startswith("values")
    assert answer(deployed, approval, values={"amount": 7}).json["answer"]["values"] == {"amount": 7}
    assert answer(deployed, asked(deployed, form=FORM), approved=False).status == 200


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    "body",
    [
        {"approved": "true"},
        {"approved": 1},
        {"approved": None},
        {"comment": "x" * 1001},
        {"comment": ["x"]},
        {"values": "x"},
        {"values": [1]},
        {"values": {"a": "x" * 17000}},
        {"values": nested(51)},
    ],
    ids=lambda body: str(body)[:30],
)
def test_hostile_values_are_422_and_answer_nothing(deployed: Deployed, body: dict[str, Any]) -> None:
    approval = asked(deployed)
    refused = answer(deployed, approval, **body)
    assert refused.status == 422, refused.raw
    assert deployed.client.ok("GET", path(deployed, approval.id))["state"] == "open"


def test_texts_of_any_kind_come_back_as_they_are(deployed: Deployed) -> None:
    comment = "\u202e<b>\r\nTieline-Timed-Out: 1\r\n\x00\U0001f600 ' or 1=1"
    done = answer(deployed, asked(deployed), comment=comment, values=nested(50))
    assert done.status == 200, done.raw
    assert done.json["answer"]["comment"] == comment
    assert done.json["answer"]["values"] == nested(50)


@pytest.mark.parametrize(
    "identifier", ["x", "*", ">", "..", "%2E", new_id()[:-1], "*.x", f"{new_id()}.x", "%00", "%C3%BC" * 26]
)
def test_an_id_that_is_none_is_not_found(deployed: Deployed, identifier: str) -> None:
    asked(deployed)
    for method, rest in (("GET", ""), ("POST", "/answer")):
        found = deployed.client(method, f"{path(deployed, identifier)}{rest}", {"approved": True})
        assert found.status in (400, 404), found.raw


def test_approvals_of_others_are_not_found(deployed: Deployed, neighbour: Client, engine: NatsServer) -> None:
    theirs = deploy(neighbour, engine)
    theirs.report(record(status="waiting", attempt=1))
    approval, own = asked(deployed), asked(theirs)
    mine = deployed.client
    for environment, identifier in (
        (theirs.environment, own.id),
        (deployed.environment, own.id),
        (theirs.environment, approval.id),
    ):
        at = f"/environments/{environment}/approvals/{identifier}"
        assert mine("GET", at).status == 404
        assert mine("POST", f"{at}/answer", {"approved": True}).status == 404
    assert own.id not in listed(mine, "first=200")
    assert listed(mine, f"environment={theirs.environment}") == []
    assert listed(mine, f"project={theirs.project['id']}") == []
    assert neighbour.ok("GET", path(theirs, own.id))["state"] == "open"


def test_approvals_are_found_by_project_environment_and_state(
    deployed: Deployed, client: Client, engine: NatsServer
) -> None:
    now = time.time()
    open_ones = [asked(deployed) for _ in range(3)]
    over = asked(deployed, until=now - 1)
    noticed, done = asked(deployed), asked(deployed)
    withdrawn = asked(deployed)
    deployed.report(record(withdrawn.run, "dead", 1))

    async def time_out(nats: Nats) -> None:
        headers = {TIMED_OUT: "1", TTL: "3600s"}
        await nats.jetstream().publish(deployed.streams.answered(noticed.id), b"", headers=headers)

    with_engine(engine, time_out, deployed.streams, pod=True)
    assert answer(deployed, done).status == 200
    other = deploy(client, engine)
    other.report(record(status="waiting", attempt=1))
    elsewhere = asked(other)

    here = f"project={deployed.project['id']}&first=200"
    assert set(listed(client, here)) == {one.id for one in (*open_ones, over, noticed, done, withdrawn)}
    assert listed(client, f"{here}&state=open") == [one.id for one in reversed(open_ones)]
    assert set(listed(client, f"{here}&state=timed_out")) == {over.id, noticed.id}
    assert set(listed(client, f"{here}&state=approved&state=withdrawn")) == {done.id, withdrawn.id}
    assert listed(client, f"environment={other.environment}") == [elsewhere.id]
    assert elsewhere.id in listed(client, "state=open&first=200")
    name = deployed.project["environments"][0]["name"]
    assert open_ones[0].id in listed(client, f"project_env={name}&first=200")
    assert listed(client, "project_env=nowhere") == []

    first = client.ok("GET", f"/approvals?{here}&state=open&first=2".replace("first=200&", ""))
    assert (first["totalCount"], len(first["items"])) == (3, 2)
    second = client.ok(
        "GET", f"/approvals?project={deployed.project['id']}&state=open&first=2&after={first['next']}"
    )
    assert [one["id"] for one in (*first["items"], *second["items"])] == [
        one.id for one in reversed(open_ones)
    ]


@pytest.mark.parametrize("approved", [True, False])
def test_what_has_ended_takes_no_answer(deployed: Deployed, approved: bool) -> None:
    over = asked(deployed, until=time.time() - 1)
    refused = answer(deployed, over, approved=approved)
    assert (refused.status, "timed out" in refused.json["message"]) == (409, True)
    withdrawn = asked(deployed)
    deployed.report(record(withdrawn.run, "succeeded", 1))
    refused = answer(deployed, withdrawn, approved=approved)
    assert (refused.status, "The run has ended" in refused.json["message"]) == (409, True)


@pytest.mark.parametrize(
    "change",
    [
        {"until": "x"},
        {"until": 1e300},
        {"asked_at": -5},
        {"title": "x" * 1000},
        {"title": ["x"]},
        {"by": {"a": 1}},
        {"form": "x"},
        {"run": new_id()},
        {"id": new_id()},
        {"details": [[[[]]] * 10]},
    ],
    ids=str,
)
def test_what_hostile_code_stores_breaks_no_list(deployed: Deployed, change: dict[str, Any]) -> None:
    good = asked(deployed)
    content = json.loads(good.encode()) | {"id": (bad := new_id())} | change

    async def store(client: Nats) -> None:
        for subject in (deployed.streams.approval(bad, good.run), deployed.streams.approval("x", "y")):
            await client.jetstream().publish(subject, json.dumps(content).encode(), headers={TTL: "60s"})
        await client.jetstream().publish(deployed.streams.answered(bad), b"\xff{", headers={TTL: "60s"})

    with_engine(deployed.engine, store, deployed.streams, pod=True)
    assert good.id in listed(deployed.client, f"environment={deployed.environment}")
    assert good.id in listed(deployed.client, f"environment={deployed.environment}&state=open")
    found = deployed.client("GET", path(deployed, bad))
    assert found.status in (200, 404), found.raw
    assert answer(deployed, good).status == 200
