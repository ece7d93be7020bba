"""What pods keep between runs: documents with compare-and-swap, each environment's and each user's own."""

import json
import threading
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import activate, make_template
from tests.integration.api.pods import ENVIRONMENT, account_token
from tieline_core.identity.names import schedules_name, state_name, workload_name

pytestmark = pytest.mark.cluster


def _send(client: Client, token: str | None, method: str, path: str, body: Any = None) -> Answer:
    return Client(client.url, token, "").at(ENVIRONMENT + path, method=method, body=body)


def _workload(project: dict[str, Any]) -> str:
    return workload_name(project["id"].lower(), "production")


def test_a_value_is_kept_and_only_its_latest_version_can_be_replaced(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    for path in ("/state/cursor", "/schedules/sync"):
        missing = _send(client, token, "GET", path)
        assert (missing.status, missing.json["code"]) == (404, "no_value")
        first = _send(client, token, "PUT", path, {"value": {"page": 1}, "version": None})
        assert first.status == 200, first.json
        assert _send(client, token, "PUT", path, {"value": 2, "version": None}).status == 409
        found = _send(client, token, "GET", path)
        assert found.json == {"value": {"page": 1}, "version": first.json["version"]}
        second = _send(client, token, "PUT", path, {"value": 2, "version": first.json["version"]})
        assert second.status == 200
        assert _send(client, token, "PUT", path, {"value": 3, "version": first.json["version"]}).status == 409
        assert _send(client, token, "PUT", path, {"value": 4}).status == 200
        assert _send(client, token, "DELETE", path, {"version": first.json["version"]}).status == 409
        assert _send(client, token, "DELETE", path).status == 204
        assert _send(client, token, "DELETE", path).status == 204
        assert _send(client, token, "GET", path).status == 404


def test_of_many_that_claim_at_once_one_succeeds_and_other_keys_are_not_in_the_way(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    statuses: dict[str, list[int]] = {"sync": [], "report": []}

    def claim(name: str, value: int) -> None:
        body = {"value": value, "version": None}
        statuses[name].append(_send(client, token, "PUT", f"/schedules/{name}", body).status)

    threads = [
        threading.Thread(target=claim, args=(name, value))
        for value in range(4)
        for name in ("sync", "report")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for answers in statuses.values():
        assert sorted(answers) == [200, 409, 409, 409]


def test_many_values_can_be_set_at_once(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    statuses: list[int] = []

    def keep(number: int) -> None:
        statuses.append(_send(client, token, "PUT", f"/state/value-{number}", {"value": number}).status)

    threads = [threading.Thread(target=keep, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert statuses == [200] * 20
    assert _send(client, token, "GET", "/state/value-7").json["value"] == 7


def test_users_and_environments_have_values_of_their_own(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client, dynamic=True)
    ann, activation = activate(client, project, template, "s3cr3t-ann")
    ben, _ = activate(client, project, template, "s3cr3t-ben")
    other, _ = make_template(client)
    own, others = account_token(kubectl, org, project), account_token(kubectl, org, other)

    def path(user: dict[str, Any]) -> str:
        return f"/users/{quote(user['externalId'], safe='')}/state/cursor"

    assert _send(client, own, "PUT", path(ann), {"value": "a"}).status == 200
    assert _send(client, own, "PUT", "/state/cursor", {"value": "static"}).status == 200
    assert _send(client, own, "GET", path(ann)).json["value"] == "a"
    assert _send(client, own, "GET", path(ben)).json["code"] == "no_value"
    assert _send(client, others, "GET", "/state/cursor").json["code"] == "no_value"
    unknown = _send(client, others, "PUT", path(ann), {"value": "b"})
    assert (unknown.status, unknown.json["code"]) == (404, "not_found")
    assert _send(client, str(client.token), "GET", "/state/cursor").status == 401
    assert _send(client, None, "PUT", "/state/cursor", {"value": 1}).status == 401

    # What is kept goes with what it is about.
    workload = _workload(project)
    name = state_name(workload, activation["id"])
    owners = kubectl(
        "get",
        "configmap",
        name,
        "-o",
        "jsonpath={.metadata.ownerReferences[*].kind}",
        namespace=org.namespace,
    )
    assert owners.stdout == "Activation"
    owners = kubectl(
        "get",
        "configmap",
        state_name(workload, None),
        "-o",
        "jsonpath={.metadata.ownerReferences[*].kind}",
        namespace=org.namespace,
    )
    assert owners.stdout == "ServiceAccount"

    # A restore gives it to the project, since the ServiceAccount is made again: the next write gives it back.
    found = json.loads(
        kubectl("get", "project", project["id"].lower(), "-ojson", namespace=org.namespace).stdout
    )
    reference = {key: found["metadata"][key] for key in ("name", "uid")}
    patch = {
        "metadata": {
            "ownerReferences": [
                {"apiVersion": found["apiVersion"], "kind": "Project", "controller": True, **reference}
            ]
        }
    }
    static = state_name(workload, None)
    kubectl("patch", "configmap", static, "--type=merge", "-p", json.dumps(patch), namespace=org.namespace)
    assert _send(client, own, "GET", "/state/cursor").json["value"] == "static"
    assert _send(client, own, "PUT", "/state/cursor", {"value": "again"}).status == 200
    shown = json.loads(kubectl("get", "configmap", static, "-ojson", namespace=org.namespace).stdout)
    assert [one["kind"] for one in shown["metadata"]["ownerReferences"]] == ["ServiceAccount"]


def test_values_are_bounded_in_size_and_number(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    assert _send(client, token, "PUT", "/state/big", {"value": "x" * 16_000}).status == 200
    assert _send(client, token, "PUT", "/state/big", {"value": "x" * 17_000}).status == 413
    for number in range(4):
        status = _send(client, token, "PUT", f"/state/big{number}", {"value": "x" * 16_000}).status
        assert status == (200 if number < 3 else 422)
    assert _send(client, token, "PUT", "/state/small", {"value": 1}).status == 200
    assert _send(client, token, "PUT", "/state/a%2Fb", {"value": 1}).status == 422
    assert _send(client, token, "PUT", "/state/small", {"value": 1, "version": 7}).status == 422
    assert _send(client, token, "PUT", "/state/small", {}).status == 422


def test_a_config_map_of_somebody_else_is_not_touched(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, _ = make_template(client)
    name = schedules_name(_workload(project))
    kubectl("create", "configmap", name, "--from-literal=sync=mine", namespace=org.namespace)
    token = account_token(kubectl, org, project)
    answer = _send(client, token, "PUT", "/schedules/sync", {"value": 1})
    assert answer.status == 409
    assert name in answer.json["message"]


def test_users_are_listed_page_by_page(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, template = make_template(client, dynamic=True)
    users = [activate(client, project, template, "s3cr3t")[0]["externalId"] for _ in range(5)]
    other, _ = make_template(client, dynamic=True)
    token = account_token(kubectl, org, project)
    found, after = [], ""
    while True:
        page = _send(client, token, "GET", f"/users?limit=2&after={quote(after)}").json
        assert len(page["externalIds"]) <= 2
        found += page["externalIds"]
        if page["next"] is None:
            break
        after = page["next"]
    assert sorted(found) == sorted(users)
    nobody = _send(client, account_token(kubectl, org, other), "GET", "/users")
    assert nobody.json == {"externalIds": [], "next": None}
    assert _send(client, token, "GET", "/users?limit=0").status == 422
