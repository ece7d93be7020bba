"""One text leads through the logs: from a request to what the operator and the pods made of it, as the page says."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Rest, Tenant, answering, http, says
from tests.harness.cluster.kubectl import Kubectl
from tests.harness.session.waiting import eventually
from tests.unit.docs.doc_pages import page

pytestmark = pytest.mark.e2e

KEY = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}
CREDENTIAL = {
    "id": "key",
    "authSchemeConfig": KEY,
    "credential": {"type": "string", "data": {"string": {"value": "k"}}},
}

Line = dict[str, Any]


def found(kubectl: Kubectl, whose: str, text: str, *, namespace: str = "acme") -> list[Line]:
    """The lines that the page's command for these pods brings."""
    commands = [
        line
        for block in page("docs/operations.md").blocks("console")
        for line in block.text.splitlines()
        if "grep" in line and f"name={whose}" in line
    ]
    (command,) = commands
    logs, _, search = command.replace(" -n acme ", f" -n {namespace} ").partition(" | ")
    wanted = shlex.split(search)[1].replace("REQUEST", text).replace("CHANGE", text)
    assert text in wanted
    # A pod that is only being started has no log: kubectl says so, and shows the others'.
    lines = kubectl(*shlex.split(logs)[1:], check=False).stdout.splitlines()
    # After the pod's name, which --prefix puts before the line.
    return [json.loads(line.partition(" ")[2]) for line in lines if wanted in line]


def changes_of(kubectl: Kubectl, request: str) -> dict[str, str]:
    """The changes that the API's line of a request names, by their objects' ids."""

    def line() -> Line | None:
        lines = [one for one in found(kubectl, "tieline-api", request) if one.get("request_id") == request]
        return lines[0] if lines else None

    told: list[str] = eventually(f"the line of {request}", line)["changes"]
    return {change.split(".")[0]: change for change in told}


def followed(tenant: Tenant, change: str) -> tuple[Line, Line]:
    """The operator's line and a pod's with the change."""
    operators = eventually(
        f"the operator's {change}", lambda: found(tenant.kubectl, "tieline-operator", change)
    )
    pods = eventually(
        f"a pod's {change}",
        lambda: found(tenant.kubectl, "tieline-environment", change, namespace=tenant.namespace),
    )
    assert all(line["change"] == change for line in operators)
    assert all(change in line["fields"]["changes"] for line in pods)
    return operators[-1], pods[-1]


def made(rest: Rest, path: str, body: Any) -> Line:
    answer = rest("POST", path, body)
    assert answer.status in {200, 201}, answer
    created: Line = answer.json
    return created


def test_a_change_is_followed_from_the_request_to_the_pods_that_serve_with_it(
    tenant: Tenant, rest: Rest
) -> None:
    kubectl = tenant.kubectl
    shop = {"name": "Shop", "domain": "shop.example", "templateBaseUrl": "https://shop.example"}
    system = made(rest, "/systems", {**shop, "authSchemeConfigs": [KEY]})
    project = made(rest, "/projects", {"name": "Orders"})
    path = f"/projects/{project['id']}"
    template = made(rest, f"{path}/connection-templates", {"systemId": system["id"], "name": "shop"})
    own = {"name": "Shop", "baseUrl": "https://one.example", "credentials": [CREDENTIAL]}
    linked = {"connectionTemplateId": template["connectionTemplateId"], "connection": own}
    connection = made(rest, "/connections", linked)

    def deploy(text: str) -> str:
        files = {"files": [{"filename": "main.py", "content": answering(text)}]}
        answer = rest("PUT", f"{path}/deploy", files)
        assert answer.status == 200, answer
        changes = changes_of(kubectl, answer.headers["X-Request-Id"])
        kinds = {followed(tenant, change)[0]["kind"] for change in changes.values()}
        assert kinds == {"Project", "ProjectVersion"}
        operators, pods = followed(tenant, changes[project["id"]])
        assert (operators["kind"], operators["object"]) == (
            "Project",
            f"{tenant.namespace}/{project['id'].lower()}",
        )
        assert f"projects/{project['id'].lower()}" in pods["message"]
        return changes[project["id"]]

    first = deploy("one")
    url = eventually("its URL", lambda: rest("GET", path).json["environments"][0].get("publicUrl"))
    eventually("the answer", lambda: says(url) == "one")

    moved = rest("PUT", f"/connections/{connection['id']}", {"baseUrl": "https://two.example"})
    assert moved.status == 200, moved
    (change,) = changes_of(kubectl, moved.headers["X-Request-Id"]).values()
    operators, pods = followed(tenant, change)
    assert operators["kind"] == "Connection"
    assert pods["message"] == f"Serving with connections/{connection['id'].lower()}"

    def listed() -> list[Line]:
        entries: list[Line] = rest("GET", f"{path}/logs?search={change}").json["logs"]
        return entries

    (entry,) = eventually("its line by REST", listed)
    assert change in entry["fields"]["changes"]

    second = deploy("two")
    assert second != first
    eventually("the new answer", lambda: says(url) == "two")

    # What kubectl changes has a text of the same form, which nobody needs to be told.
    name = system["id"].lower()
    patch = json.dumps({"spec": {"domain": "another.example"}})
    kubectl("patch", "system", name, "--type=merge", "-p", patch, namespace=tenant.namespace)
    generation = tenant.get("system", name)["metadata"]["generation"]
    operators, pods = followed(tenant, f"{system['id']}.{generation}")
    assert (operators["kind"], pods["message"]) == ("System", f"Serving with systems/{name}")

    # A run has an id of its own, which its line in the pod's log has too.
    answer = http("GET", f"{url}/hello")
    run = next(value for key, value in answer.headers.items() if key.lower() == "x-tieline-execution-id")
    eventually(
        "the run's line",
        lambda: found(kubectl, "tieline-environment", run, namespace=tenant.namespace),
    )
