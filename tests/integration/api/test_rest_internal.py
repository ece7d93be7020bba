"""The internal endpoint: what a pod is told about its environment, and nobody else."""

import json
import threading
import time
from typing import Any

import pytest

from tests.harness.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import API_KEY, make_project, make_template
from tieline_core.names import workload_name

pytestmark = pytest.mark.cluster

PATH = "/internal/v1/environment"


def account_token(
    kubectl: Kubectl, org: Organisation, project: dict[str, Any], environment: str = "production"
) -> str:
    """The token that a pod of the environment would have: that of the workload's ServiceAccount."""
    name = workload_name(project["id"].lower(), environment)
    kubectl("create", "serviceaccount", name, namespace=org.namespace, check=False)
    return kubectl("create", "token", name, "--audience=tieline", namespace=org.namespace).stdout.strip()


def _connect(client: Client, template: dict[str, Any], value: str, **more: Any) -> dict[str, Any]:
    credential = {
        "id": "key",
        "authSchemeConfig": API_KEY,
        "credential": {"type": "string", "data": {"string": {"value": value}}},
    }
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "C", "credentials": [credential], **more},
    }
    created: dict[str, Any] = client.ok("POST", "/connections", body, status=201)
    return created


def _ask(client: Client, token: str, query: str = "", **headers: str) -> Answer:
    return Client(client.url, token, client.organisation).at(f"{PATH}{query}", **headers)


def test_a_pod_is_told_its_connections_with_their_values(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    make_template(client, project=project, system=template["id"], name="each", dynamic=True)
    make_template(client, project=project, system=template["id"], name="open")
    connection = _connect(client, template, "s3cr3t")
    answer = _ask(client, account_token(kubectl, org, project))
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json
    assert body["organisationId"] == org.id
    assert body["projectId"] == project["id"]
    assert body["projectName"] == project["name"]
    assert body["environment"] == {"id": project["environments"][0]["id"], "name": "production"}
    assert body["variables"] == {}
    assert body["variablesSchema"] == {"type": "object", "properties": {}}
    assert list(body["connections"]) == ["shop"]
    shop = body["connections"]["shop"]
    assert shop["id"] == connection["id"]
    assert shop["baseUrl"] == "https://api.shop.example"
    assert shop["templateId"] == template["connectionTemplateId"]
    assert shop["system"]["id"] == template["id"]
    assert shop["credentials"] == [
        {
            "id": connection["credentials"][0]["credential"]["id"],
            "type": "string",
            "authScheme": {"id": "key", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}},
            "data": {"value": "s3cr3t"},
        }
    ]
    assert {name: (one["dynamic"], one["linked"]) for name, one in body["templates"].items()} == {
        "each": (True, False),
        "open": (False, False),
        "shop": (False, True),
    }


def test_a_pod_that_waits_is_told_of_a_change_at_once(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    connection = _connect(client, template, "old")
    token = account_token(kubectl, org, project)
    etag = _ask(client, token).headers["ETag"]
    answers: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: answers.append(_ask(client, token, "?wait=20", If_None_Match=etag))
    )
    waiting.start()
    time.sleep(0.3)
    assert not answers
    began = time.monotonic()
    changed = [{"id": "key", "credential": {"data": {"string": {"value": "new"}}}}]
    client.ok("PUT", f"/connections/{connection['id']}", {"credentials": changed})
    waiting.join(10)
    assert time.monotonic() - began < 2
    assert answers[0].json["connections"]["shop"]["credentials"][0]["data"] == {"value": "new"}


def test_nothing_new_is_304_after_the_wait(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    token = account_token(kubectl, org, make_project(client))
    etag = _ask(client, token).headers["ETag"]
    began = time.monotonic()
    assert _ask(client, token, "?wait=0.5", If_None_Match=etag).status == 304
    assert 0.4 < time.monotonic() - began < 5
    assert _ask(client, token, If_None_Match='"other"').status == 200
    for wrong in ("-1", "31", "x", "nan"):
        assert _ask(client, token, f"?wait={wrong}").status == 422


def test_only_pods_of_environments_are_told(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    assert _ask(client, "nonsense").status == 401
    assert Client(client.url, None, "").at(PATH).status == 401
    assert _ask(client, str(client.token)).status == 401, "a token for the API is none for this endpoint"
    other = kubectl("create", "token", "admin", "--audience=tieline", namespace=org.namespace).stdout.strip()
    assert _ask(client, other).status == 403
    project = make_project(client)
    token = account_token(kubectl, org, project)
    assert _ask(client, token).status == 200
    client("DELETE", f"/projects/{project['id']}")
    assert _ask(client, token).status == 403


def test_secrets_of_other_types_are_not_followed(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, template = make_template(client)
    items = [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "opaque", "namespace": org.namespace},
            "stringData": {"value": "not-yours"},
        },
        {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": "Connection",
            "metadata": {"name": "curious", "namespace": org.namespace},
            "spec": {
                "name": "Curious",
                "systemRef": {"name": template["id"].lower()},
                "credentials": [
                    {
                        "id": "k",
                        "type": "string",
                        "authSchemeConfigId": "key",
                        "secretRef": {"name": "opaque"},
                    }
                ],
            },
        },
    ]
    kubectl("apply", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    from tests.integration.api.objects import wait_for

    shown = wait_for(client, f"/connections?system_id={template['id']}")["items"][0]
    body = {"connectionTemplateId": template["connectionTemplateId"]}
    client.ok("POST", f"/connections/{shown['id']}/link", body, status=201)
    answer = _ask(client, account_token(kubectl, org, project))
    assert answer.json["connections"]["shop"]["credentials"][0]["data"] == {}
    assert "not-yours" not in answer.raw.decode()
