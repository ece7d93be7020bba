"""What a pod is told about one user: that user's activation in the pod's environment, and nothing else."""

from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import API_KEY, make_template
from tests.integration.api.test_rest_internal import PATH, _ask, account_token
from tieline_core.ids import new_id

pytestmark = pytest.mark.cluster


def _activate(
    client: Client, project: dict[str, Any], template: dict[str, Any], value: str, **more: Any
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A user with a key of their own, activated in the project's environment."""
    body = {"externalId": f"customer/{new_id()} ü", "displayName": "Ann"}
    user = client.ok("POST", "/users", body, status=201)
    credential = {
        "id": "key",
        "authSchemeConfig": API_KEY,
        "credential": {"type": "string", "data": {"string": {"value": value}}},
    }
    connection = {"name": f"Of {user['id']}", "credentials": [credential]}
    activation = {
        "userId": user["id"],
        "environmentId": project["environments"][0]["id"],
        "connections": [{"connectionTemplateId": template["connectionTemplateId"], "connection": connection}],
        **more,
    }
    return user, client.ok("POST", "/activations", activation)


def _path(user: dict[str, Any]) -> str:
    return f"/users/{quote(user['externalId'], safe='')}"


def test_a_pod_is_told_a_users_variables_and_connections(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    ann, activation = _activate(client, project, template, "s3cr3t-ann", dynamicVariables={"region": "eu"})
    _activate(client, project, template, "s3cr3t-ben")
    token = account_token(kubectl, org, project)
    answer = _ask(client, token, _path(ann))
    assert answer.status == 200
    body = answer.json
    assert body["id"] == activation["id"]
    assert body["user"] == {"id": ann["id"], "externalId": ann["externalId"], "displayName": "Ann"}
    assert body["variables"] == {"region": "eu"}
    assert body["connections"]["shop"]["credentials"][0]["data"] == {"value": "s3cr3t-ann"}
    assert "s3cr3t-ben" not in str(body)
    etag = answer.headers["ETag"]
    assert _ask(client, token, _path(ann), If_None_Match=etag).status == 304
    environment = project["environments"][0]["id"]
    variables = f"/environments/{environment}/activations/{activation['id']}/variables"
    client.ok("PATCH", variables, {"region": "us"})
    assert _ask(client, token, _path(ann), If_None_Match=etag).json["variables"] == {"region": "us"}
    static = _ask(client, token).json
    assert "s3cr3t" not in str(static), "what grows with users is not in what every pod reads at its start"
    assert static["activationId"]


def test_a_pod_is_told_nothing_of_users_of_other_environments(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    user, activation = _activate(client, project, template, "s3cr3t")
    other, _ = make_template(client, dynamic=True)
    token = account_token(kubectl, org, other)
    assert _ask(client, token, _path(user)).status == 404
    assert _ask(client, token, "/users/nobody").status == 404
    assert _ask(client, str(client.token), _path(user)).status == 401
    assert Client(client.url, None, "").at(f"{PATH}{_path(user)}").status == 401
    own = account_token(kubectl, org, project)
    assert _ask(client, own, _path(user)).status == 200
    environment = project["environments"][0]["id"]
    client.ok("DELETE", f"/environments/{environment}/activations/{activation['id']}")
    assert _ask(client, own, _path(user)).status == 404
