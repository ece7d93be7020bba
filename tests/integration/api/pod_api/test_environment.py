"""The internal endpoint: what a pod is told about its environment, and nobody else."""

import threading
import time

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import PATIENCE, eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import bring_connection, connect, make_project, make_template, wait_for
from tests.integration.api.pods import ENVIRONMENT, account_token, ask

pytestmark = pytest.mark.cluster


def test_a_pod_is_told_its_connections_with_their_values(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    make_template(client, project=project, system=template["id"], name="each", dynamic=True)
    make_template(client, project=project, system=template["id"], name="open")
    connection = connect(client, template, "s3cr3t")
    token = account_token(kubectl, org, project)
    answer = ask(client, token)
    assert answer.status == 200
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json
    assert body["organisationId"] == org.id
    assert body["projectId"] == project["id"]
    assert body["projectName"] == project["name"]
    assert body["environment"] == {"id": project["environments"][0]["id"], "name": "production"}
    assert body["variables"] == {}
    assert body["variablesSchema"] == {"type": "object", "properties": {}}
    assert body["settings"] == {"keepInputs": False}
    client.ok("PUT", f"/projects/{project['id']}", {"settings": {"keepInputs": True}})
    eventually("the setting", lambda: ask(client, token).json["settings"]["keepInputs"])
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
    connection = connect(client, template, "old")
    token = account_token(kubectl, org, project)
    etag = ask(client, token).headers["ETag"]
    answers: list[Answer] = []
    waiting = threading.Thread(
        target=lambda: answers.append(ask(client, token, "?wait=20", If_None_Match=etag))
    )
    waiting.start()
    time.sleep(0.3)  # nothing has changed, so nothing is told
    assert not answers
    changed = [{"id": "key", "credential": {"data": {"string": {"value": "new"}}}}]
    client.ok("PUT", f"/connections/{connection['id']}", {"credentials": changed})
    waiting.join(PATIENCE)
    assert answers[0].status == 200, "told of the change, and not when the wait was over"
    assert answers[0].json["connections"]["shop"]["credentials"][0]["data"] == {"value": "new"}


def test_nothing_new_is_304_after_the_wait(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    token = account_token(kubectl, org, make_project(client))
    etag = ask(client, token).headers["ETag"]
    began = time.monotonic()
    assert ask(client, token, "?wait=0.5", If_None_Match=etag).status == 304
    assert time.monotonic() - began > 0.4
    assert ask(client, token, If_None_Match='"other"').status == 200
    for wrong in ("-1", "31", "x", "nan"):
        assert ask(client, token, f"?wait={wrong}").status == 422


def test_only_pods_of_environments_are_told(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    assert ask(client, "nonsense").status == 401
    assert Client(client.url, None, "").at(ENVIRONMENT).status == 401
    assert ask(client, str(client.token)).status == 401, "a token for the API is none for this endpoint"
    other = kubectl("create", "token", "admin", "--audience=tieline", namespace=org.namespace).stdout.strip()
    assert ask(client, other).status == 403
    project = make_project(client)
    token = account_token(kubectl, org, project)
    assert ask(client, token).status == 200
    client("DELETE", f"/projects/{project['id']}")
    assert ask(client, token).status == 403


def test_secrets_of_other_types_are_not_followed(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, template = make_template(client)
    bring_connection(
        kubectl,
        org.namespace,
        name="curious",
        system=template["id"],
        credential={"id": "k", "type": "string", "authSchemeConfigId": "key"},
        values={"value": "not-yours"},
        secret_type="Opaque",
    )
    shown = wait_for(client, f"/connections?system_id={template['id']}")["items"][0]
    body = {"connectionTemplateId": template["connectionTemplateId"]}
    client.ok("POST", f"/connections/{shown['id']}/link", body, status=201)
    answer = ask(client, account_token(kubectl, org, project))
    assert answer.json["connections"]["shop"]["credentials"][0]["data"] == {}
    assert "not-yours" not in answer.raw.decode()
