"""Code gets credentials only where the template asks for it and somebody with the right opened the connection."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import bring_connection, connect, key, make_template, stored
from tests.integration.api.pods import account_token, ask
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Json = dict[str, Any]


@pytest.fixture
def editor(client: Client, org: Organisation, token_for: Callable[..., str]) -> Client:
    return Client(client.url, token_for(org.namespace, "exposure-editor", "tieline-editor"), org.id)


def template_path(project: Json, template: Json) -> str:
    return f"/projects/{project['id']}/connection-templates/{template['connectionTemplateId']}"


def told(client: Client, token: str) -> Json:
    found: Json = ask(client, token).json["connections"]["shop"]
    return found


def test_an_editor_asks_for_credentials_and_an_administrator_opens_them(
    client: Client, editor: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    made = connect(client, template, "s3cr3t-value")
    connection = f"/connections/{made['id']}"
    token = account_token(kubectl, org, project)
    assert "exposeToCode" not in told(client, token)
    answer = editor("PUT", template_path(project, template), {"exposeToCode": True})
    assert (answer.status, answer.json["exposeToCode"]) == (200, True)
    assert eventually("asked for", lambda: told(client, token).get("exposeToCode") is False)
    answer = editor("PUT", connection, {"exposeToCode": True})
    assert (answer.status, answer.json["code"]) == (403, "forbidden"), answer.raw
    assert "permission to expose connections" in answer.json["message"]
    assert client.ok("PUT", connection, {"exposeToCode": True})["exposeToCode"] is True
    assert eventually("opened", lambda: told(client, token).get("exposeToCode") is True)
    (credential,) = told(client, token)["credentials"]
    assert (credential["name"], credential["fields"]) == ("key", {})
    # The editor goes on changing it, and rotates its value, and closes it.
    assert editor("PUT", connection, {"name": "Renamed"}).json["exposeToCode"] is True
    assert editor("PUT", connection, {"credentials": [key("r0tated-value")]}).status == 200
    assert eventually("rotated", lambda: "r0tated" in str(told(client, token)["credentials"]))
    assert "exposeToCode" not in editor("PUT", connection, {"exposeToCode": False}).json
    assert eventually("closed", lambda: told(client, token).get("exposeToCode") is False)
    assert editor("PUT", connection, {"exposeToCode": True}).status == 403


def test_a_new_connection_is_opened_only_by_who_may(client: Client, editor: Client) -> None:
    _, template = make_template(client)
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "Open", "credentials": [key("s3cr3t")], "exposeToCode": True},
    }
    assert editor("POST", "/connections", body).status == 403
    assert client.ok("GET", "/connections?first=200&search=Open")["items"] is not None
    assert client.ok("POST", "/connections", body, status=201)["exposeToCode"] is True


def test_code_never_gets_what_token_requests_are_made_with(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    system = stored(kubectl, org, "connectiontemplate", template["connectionTemplateId"])["spec"]["systemRef"]
    name = f"brought-{new_id().lower()}"
    values = {
        "value": "t3xt-value",
        "host": "db.internal",
        "port": "5432",
        "refreshToken": "r3fresh-token",
        "clientSecret": "cl1ent-secret",
        "code": "c0de-value",
        "consumerSecret": "c0nsumer-secret",
    }
    bring_connection(
        kubectl,
        org.namespace,
        name=name,
        system=system["name"],
        credential={"id": "key", "type": "string", "authSchemeConfigId": "key"},
        values=values,
    )
    kubectl("annotate", "secret", name, "tieline.dev/not-secret=port, other", namespace=org.namespace)
    for kind, target, spec in (
        ("connection", name, {"exposeToCode": True}),
        (
            "connectiontemplate",
            template["connectionTemplateId"].lower(),
            {"exposeToCode": True, "connectionRef": {"name": name}},
        ),
    ):
        patch = json.dumps({"spec": spec})
        kubectl("patch", kind, target, "--type=merge", "-p", patch, namespace=org.namespace)
    token = account_token(kubectl, org, project)
    found = eventually(
        "linked and opened",
        lambda: (
            (body := ask(client, token).json["connections"].get("shop", {})).get("exposeToCode")
            and body["credentials"][0].get("notSecret")
            and body
        ),
    )
    (credential,) = found["credentials"]
    assert credential["data"] == {"value": "t3xt-value"}
    assert credential["fields"] == {"host": "db.internal", "port": "5432"}
    assert credential["notSecret"] == ["port"]
