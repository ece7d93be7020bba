"""What a pod is told about one user: that user's activation in the pod's environment, and nothing else."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import activate, make_template
from tests.integration.api.pods import ENVIRONMENT, account_token, ask

pytestmark = pytest.mark.cluster


def _path(user: dict[str, Any]) -> str:
    return f"/users/{quote(user['externalId'], safe='')}"


def test_a_pod_is_told_a_users_variables_and_connections(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    ann, activation = activate(client, project, template, "s3cr3t-ann", dynamicVariables={"region": "eu"})
    activate(client, project, template, "s3cr3t-ben")
    token = account_token(kubectl, org, project)
    answer = ask(client, token, _path(ann))
    assert answer.status == 200
    body = answer.json
    assert body["id"] == activation["id"]
    assert body["user"] == {"id": ann["id"], "externalId": ann["externalId"], "displayName": "Ann"}
    assert body["variables"] == {"region": "eu"}
    assert body["connections"]["shop"]["credentials"][0]["data"] == {"value": "s3cr3t-ann"}
    assert "s3cr3t-ben" not in str(body)
    etag = answer.headers["ETag"]
    assert ask(client, token, _path(ann), If_None_Match=etag).status == 304
    environment = project["environments"][0]["id"]
    variables = f"/environments/{environment}/activations/{activation['id']}/variables"
    client.ok("PATCH", variables, {"region": "us"})
    assert ask(client, token, _path(ann), If_None_Match=etag).json["variables"] == {"region": "us"}
    static = ask(client, token).json
    assert "s3cr3t" not in str(static), "what grows with users is not in what every pod reads at its start"
    assert static["activationId"]


def test_a_pod_gets_no_connection_of_another_user_whatever_an_activation_says(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    ann, activation = activate(client, project, template, "s3cr3t-ann")
    _, bens = activate(client, project, template, "s3cr3t-ben")
    token = account_token(kubectl, org, project)
    assert "s3cr3t-ann" in str(ask(client, token, _path(ann)).json["connections"])
    # By kubectl: REST refuses it.
    reference = {"op": "replace", "path": "/spec/connections/0/connectionRef/name"}
    patch = json.dumps([{**reference, "value": bens["connections"][0]["id"].lower()}])
    name = activation["id"].lower()
    kubectl("patch", "activation", name, "--type=json", "-p", patch, namespace=org.namespace)
    body = eventually(
        "the change known",
        lambda: "s3cr3t-ann" not in str(told := ask(client, token, _path(ann)).json) and told,
    )
    assert body["connections"] == {}
    assert "s3cr3t-ben" not in str(body)


def test_a_pod_is_told_nothing_of_users_of_other_environments(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    user, activation = activate(client, project, template, "s3cr3t")
    other, _ = make_template(client, dynamic=True)
    token = account_token(kubectl, org, other)
    assert ask(client, token, _path(user)).status == 404
    assert ask(client, token, "/users/nobody").status == 404
    assert ask(client, str(client.token), _path(user)).status == 401
    assert Client(client.url, None, "").at(f"{ENVIRONMENT}{_path(user)}").status == 401
    own = account_token(kubectl, org, project)
    assert ask(client, own, _path(user)).status == 200
    environment = project["environments"][0]["id"]
    client.ok("DELETE", f"/environments/{environment}/activations/{activation['id']}")
    assert ask(client, own, _path(user)).status == 404
