"""Notification channels and notifications by REST: secrets go into Secrets, and never come back."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import make_channel, make_project

pytestmark = pytest.mark.cluster

SIGNING = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
MAIL = {
    "host": "smtp.acme.example",
    "from": "tieline@acme.example",
    "to": ["ops@acme.example", "dev@acme.example"],
    "username": "tieline",
    "password": "pa-55-word",
}
SLACK = {"url": "https://hooks.slack.example/services/T0/B0/s3cr3t"}
WEBHOOK = {"url": "https://hooks.acme.example/tieline", "secret": SIGNING}


@pytest.mark.parametrize(
    ("type_", "config", "shown", "stored"),
    [
        ("email", MAIL, {k: v for k, v in MAIL.items() if k != "password"}, {"password": "pa-55-word"}),
        ("email", {**MAIL, "username": None, "password": None}, None, None),
        ("webhook", WEBHOOK, {"url": WEBHOOK["url"]}, {"secret": SIGNING}),
        ("slack", SLACK, {}, {"url": SLACK["url"]}),
    ],
)
def test_a_channel_keeps_its_secret_in_a_secret_of_its_own(
    client: Client,
    org: Organisation,
    kubectl: Kubectl,
    type_: str,
    config: dict[str, Any],
    shown: dict[str, Any] | None,
    stored: dict[str, str] | None,
) -> None:
    made = client.ok(
        "POST", "/notification_channels", {"name": "Ops", "type": type_, "config": config}, status=201
    )
    listed = client("GET", "/notification_channels?first=200")
    assert made["id"] in [one["id"] for one in listed.json["items"]]
    for secret in ("pa-55-word", SIGNING, "s3cr3t"):
        assert secret not in json.dumps(made) + listed.raw.decode()
    if shown is not None:
        assert made["config"] == shown
    found = json.loads(
        kubectl(
            "get", "notificationchannel", made["id"].lower(), "-o", "json", namespace=org.namespace
        ).stdout
    )
    target = found["spec"][type_]
    if stored is None:
        assert "secretRef" not in target
    else:
        name = target["secretRef"]["name"]
        secret = json.loads(kubectl("get", "secret", name, "-o", "json", namespace=org.namespace).stdout)
        assert secret["type"] == "tieline.dev/credential"
        assert {key: base64.b64decode(value).decode() for key, value in secret["data"].items()} == stored
        assert secret["metadata"]["ownerReferences"][0]["uid"] == found["metadata"]["uid"]
    client.ok("DELETE", f"/notification_channels/{made['id']}", status=204)
    assert client("DELETE", f"/notification_channels/{made['id']}").status == 404


@pytest.mark.parametrize(
    ("type_", "config", "words"),
    [
        ("email", {"host": "smtp.acme.example"}, "config needs from, to"),
        ("webhook", {"url": "https://x.example"}, "config needs secret"),
        ("webhook", {**WEBHOOK, "secret": "short"}, "secret"),
        ("slack", {**SLACK, "secret": SIGNING}, "does not use"),
        ("email", {**MAIL, "password": None}, "belong together"),
        ("email", {**MAIL, "security": "none"}, "starttls or tls"),
        ("email", {**MAIL, "to": ["a@b.example\nBcc: c@d.example"]}, "to"),
        ("email", {**MAIL, "from": "\u202ea@b.example"}, "from"),
        ("email", {**MAIL, "from": "a\x1b@b.example"}, "from"),
        ("sms", {}, "type"),
    ],
)
def test_a_channel_that_cannot_work_is_refused(
    client: Client, type_: str, config: dict[str, Any], words: str
) -> None:
    answer = client("POST", "/notification_channels", {"name": "Ops", "type": type_, "config": config})
    assert answer.status == 422
    assert words in answer.raw.decode()
    for secret in ("pa-55-word", "s3cr3t"):
        assert secret not in answer.raw.decode()


@pytest.mark.parametrize(
    ("type_", "config", "changed", "stored"),
    [
        ("email", MAIL, {k: v for k, v in MAIL.items() if k not in ("password", "to")} | {"to": ["a@b.example"]},
         {"password": "pa-55-word"}),
        ("email", MAIL, {**MAIL, "password": "an0ther"}, {"password": "an0ther"}),
        ("email", MAIL, {k: v for k, v in MAIL.items() if k not in ("password", "username")}, None),
        ("webhook", WEBHOOK, {"url": "https://new.acme.example"}, {"secret": SIGNING}),
        ("slack", SLACK, {"url": f"{SLACK['url']}2"}, {"url": f"{SLACK['url']}2"}),
        ("slack", SLACK, {}, {"url": SLACK["url"]}),
    ],
)  # fmt: skip
def test_a_channel_is_changed_and_keeps_its_secret_unless_another_is_sent(
    client: Client,
    org: Organisation,
    kubectl: Kubectl,
    type_: str,
    config: dict[str, Any],
    changed: dict[str, Any],
    stored: dict[str, str] | None,
) -> None:
    def secrets() -> dict[str, dict[str, str]]:
        listed = json.loads(kubectl("get", "secrets", "-o", "json", namespace=org.namespace).stdout)
        return {
            one["metadata"]["name"]: {
                key: base64.b64decode(value).decode() for key, value in one["data"].items()
            }
            for one in listed["items"]
            if (one["metadata"].get("ownerReferences") or [{}])[0].get("name") == made["id"].lower()
        }

    body = {"name": "Ops", "type": type_, "config": config}
    made = client.ok("POST", "/notification_channels", body, status=201)
    path = f"/notification_channels/{made['id']}"
    renamed = client.ok("PATCH", path, {"name": "Renamed"})
    assert (renamed["name"], renamed["config"]) == ("Renamed", made["config"])
    answer = client("PATCH", path, {"config": changed})
    assert answer.status == 200, answer.raw
    assert (answer.json["name"], answer.json["type"]) == ("Renamed", type_)
    shown = {k: v for k, v in changed.items() if k != "password" and (type_, k) != ("slack", "url")}
    assert answer.json["config"] == shown
    assert list(secrets().values()) == ([stored] if stored else [])
    for secret in ("pa-55-word", "an0ther", SIGNING, "s3cr3t"):
        assert secret not in answer.raw.decode()


@pytest.mark.parametrize(
    ("type_", "config", "changed", "words"),
    [
        ("slack", SLACK, {"secret": SIGNING}, "does not use"),
        ("webhook", WEBHOOK, {"secret": SIGNING}, "config needs url"),
        ("email", MAIL, {**MAIL, "security": "none"}, "starttls or tls"),
        (
            "email",
            MAIL,
            {**MAIL, "host": "mail.evil.example", "password": None},
            "the stored one is for this server",
        ),
        ("email", MAIL, {**MAIL, "port": 2525, "password": None}, "the stored one is for this server"),
        (
            "email",
            {**MAIL, "username": None, "password": None},
            {**MAIL, "password": None},
            "belong together",
        ),
    ],
)
def test_a_change_that_cannot_work_is_refused(
    client: Client, type_: str, config: dict[str, Any], changed: dict[str, Any], words: str
) -> None:
    body = {"name": "Ops", "type": type_, "config": config}
    made = client.ok("POST", "/notification_channels", body, status=201)
    answer = client("PATCH", f"/notification_channels/{made['id']}", {"config": changed})
    assert (answer.status, words in answer.raw.decode()) == (422, True), answer.raw


@pytest.mark.parametrize("below", ["organisation", "project"])
def test_notifications_are_made_listed_and_deleted(
    client: Client, org: Organisation, kubectl: Kubectl, below: str
) -> None:
    project, channel = make_project(client), make_channel(client)
    environment = project["environments"][0]["id"]
    whole = f"/api/v2/o/{client.organisation}" if below == "organisation" else "/api/v2"
    path = f"{whole}/projects/{project['id']}/notifications"
    body = {
        "name": "Tell ops",
        "channel_id": channel["id"],
        "environment_id": environment,
        "events": ["deploy_failed", "run_dead"],
        "failure_rate": {"percent": 5, "minimum_runs": 3},
    }
    answer = client.at(path, method="POST", body=body)
    assert answer.status == 201, answer.raw
    made = answer.json
    assert {name: made[name] for name in body} == body
    assert made["project_id"] == project["id"]
    stored = json.loads(
        kubectl("get", "notification", made["id"].lower(), "-o", "json", namespace=org.namespace).stdout
    )
    assert stored["spec"] == {
        "name": "Tell ops",
        "projectRef": {"name": project["id"].lower()},
        "environment": "production",
        "channelRef": {"name": channel["id"].lower()},
        "events": ["deploy_failed", "run_dead"],
        "failureRate": {"percent": 5, "minimumRuns": 3},
    }
    listed = client.at(path).json
    assert (listed["totalCount"], [one["id"] for one in listed["items"]]) == (1, [made["id"]])
    other = make_channel(client)
    change = {
        "name": "Told otherwise",
        "channel_id": other["id"],
        "events": ["run_dead"],
        "failure_rate": {"percent": 9, "minimum_runs": 2},
    }
    one = client.at(f"{path}/{made['id']}", method="PATCH", body=change).json
    assert {name: one[name] for name in body} == {**body, **change}
    unknown = client.at(f"{path}/{made['id']}", method="PATCH", body={"channel_id": project["id"]})
    assert (unknown.status, unknown.fields) == (422, ["channel_id"])
    back = {"events": [], "channel_id": channel["id"], "name": "Tell ops"}
    failures = client.at(f"{path}/{made['id']}", method="PATCH", body=back).json["events"]
    assert {"deploy_failed", "issue_opened", "run_dead"} <= set(failures)
    in_use = client("DELETE", f"/notification_channels/{channel['id']}")
    assert (in_use.status, "Tell ops" in in_use.raw.decode()) == (409, True)
    assert client.at(f"{path}/{made['id']}", method="DELETE").status == 204
    assert client.at(path).json["items"] == []
    client.ok("DELETE", f"/notification_channels/{channel['id']}", status=204)


def test_a_project_takes_its_notifications_with_it(
    client: Client, org: Organisation, kubectl: Kubectl
) -> None:
    project, channel = make_project(client), make_channel(client)
    body = {"name": "n", "channel_id": channel["id"], "environment_id": project["environments"][0]["id"]}
    client.ok("POST", f"/projects/{project['id']}/notifications", body, status=201)
    client.ok("DELETE", f"/projects/{project['id']}", status=204)
    client.ok("DELETE", f"/notification_channels/{channel['id']}", status=204)


def test_what_a_notification_refers_to_must_be_there(client: Client) -> None:
    project, channel = make_project(client), make_channel(client)
    path, environment = f"/projects/{project['id']}/notifications", project["environments"][0]["id"]
    unknown = client("POST", path, {"name": "n", "channel_id": "0" * 25 + "1", "environment_id": environment})
    assert (unknown.status, unknown.fields) == (422, ["channel_id"])
    elsewhere = {"name": "n", "channel_id": channel["id"], "environment_id": channel["id"]}
    assert client("POST", path, elsewhere).status == 404


def test_a_project_alone_opens_nothing_to_others(client: Client, neighbour: Client) -> None:
    project = make_project(client)
    path = f"/api/v2/projects/{project['id']}/notifications"
    refused, unknown = neighbour.at(path), neighbour.at(path.replace(project["id"], "0" * 25 + "1"))
    assert (refused.status, unknown.status) == (404, 404)
    assert refused.json["message"].replace(project["id"], "") == unknown.json["message"].replace(
        "0" * 25 + "1", ""
    )
    assert client.at(path).status == 200
    assert Client(client.url, None, client.organisation).at(path).status == 401


def test_a_viewer_reads_and_does_not_write(
    client: Client, org: Organisation, token_for: Callable[..., str]
) -> None:
    viewer = Client(client.url, token_for(org.namespace, "viewer", "tieline-viewer"), client.organisation)
    project = make_project(client)
    path = f"/api/v2/projects/{project['id']}/notifications"
    assert viewer.at(path).status == 200
    body = {"name": "n", "channel_id": project["id"], "environment_id": project["id"]}
    assert viewer.at(path, method="POST", body=body).status == 403
