"""What a project serves is in its connector: its webhooks are triggers, its openapi.json has the actions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import NamespacedKubectl, project_spec
from tieline_core.identity.ids import object_id, object_name, project_connector_id

pytestmark = pytest.mark.cluster

CODE = '@integration.webhook("{}")\nasync def handle(ctx, request):\n    """Takes orders."""\n'
DESCRIPTION = {
    "openapi": "3.1.0",
    "info": {"title": "Orders", "version": "1"},
    "paths": {"/orders": {"get": {"operationId": "listOrders"}}},
}


def with_files(code: str, description: Any) -> dict[str, Any]:
    files = [
        {"filename": "main.py", "content": code},
        {"filename": "openapi.json", "content": json.dumps(description)},
    ]
    return project_spec(source={"files": files})


def serve(acting: NamespacedKubectl, project: str, *, after: str | None = None) -> str:
    """A pod of what the project's Deployment asks for becomes ready, and older ones leave: no kubelet runs it.

    ``after`` is the version that was the latest before.
    """

    def latest() -> str | None:
        found: str | None = acting.get("project", project).get("status", {}).get("latestVersion")
        return found if found != after else None

    eventually("a version", latest)

    def deployed() -> dict[str, Any] | None:
        wanted = latest()
        for found in acting.workload("deployment", project):
            template: dict[str, Any] = found["spec"]["template"]
            if template["metadata"]["annotations"]["tieline.dev/version"] == wanted:
                return template
        return None

    template = eventually("the workload", deployed)
    annotations = template["metadata"]["annotations"]
    revision = annotations["tieline.dev/revision"]
    name = f"{project}-{revision}"
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**template["metadata"], "name": name, "namespace": acting.namespace},
        "spec": {**template["spec"], "nodeName": "nowhere"},
    }
    acting.kubectl("create", "-f", "-", stdin=json.dumps(pod))
    status = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    acting.run("patch", "pod", name, "--subresource=status", "--type=merge", "-p", json.dumps(status))
    for old in acting.workload("pod", project):
        if old["spec"].get("nodeName") == "nowhere" and old["metadata"]["name"] != name:
            acting.run("delete", "pod", old["metadata"]["name"], "--grace-period=0", "--force")
    version: str = annotations["tieline.dev/version"]
    return version


def connector_of(acting: NamespacedKubectl, project: str) -> str:
    return object_name(project_connector_id(object_id(acting.get("project", project))))


def versions_of(acting: NamespacedKubectl, connector: str) -> list[dict[str, Any]]:
    return [
        item for item in acting.list("connectorversion") if item["spec"]["connectorRef"]["name"] == connector
    ]


def test_a_version_says_which_webhooks_agents_may_run_and_what_they_take(acting: NamespacedKubectl) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
    code = (
        f'@integration.webhook("refund", tool="Refunds an order.", input_schema={schema!r})\n'
        "async def refund(ctx, request): ...\n"
        '@integration.webhook("state", methods=["GET"], tool="Says how it is.")\n'
        "async def state(ctx, request): ...\n"
    )
    acting.apply("Project", "tools", with_files(CODE.format("orders") + code, DESCRIPTION))
    version = serve(acting, "tools")
    interface = acting.get("projectversion", version)["status"]["interface"]
    assert interface["webhooks"] == ["orders", "refund", "state"]
    refund = {"webhook": "refund", "method": "POST", "description": "Refunds an order."}
    assert interface["tools"] == [
        {**refund, "inputSchema": schema},
        {"webhook": "state", "method": "GET", "description": "Says how it is."},
    ]


def test_a_deploy_updates_the_connector_when_it_changes_something_for_others(
    acting: NamespacedKubectl,
) -> None:
    acting.apply("Project", "offering", with_files(CODE.format("orders"), DESCRIPTION))
    first = serve(acting, "offering")
    name = connector_of(acting, "offering")
    eventually("the connector", lambda: name in acting.run("get", "connectors", "-o", "name"))
    connector = acting.until_ready("connector", name, "True", "Imported")
    assert "1 action, 1 trigger" in connector["status"]["conditions"][0]["message"]
    assert connector["status"]["defaultVersion"] == first
    owner = connector["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"]) == ("Project", "offering")
    interface = acting.get("projectversion", first)["status"]["interface"]
    assert (interface["webhooks"], interface["descriptionFile"]) == (["orders"], "openapi.json")

    acting.apply("Project", "offering", with_files(CODE.format("orders") + "# same\n", DESCRIPTION))
    same = serve(acting, "offering", after=first)
    assert acting.get("projectversion", same)["status"]["interface"] == interface
    assert len(versions_of(acting, name)) == 1

    acting.apply("Project", "offering", with_files(CODE.format("returns"), DESCRIPTION))
    second = serve(acting, "offering", after=same)

    def followed() -> bool:
        return bool(acting.get("connector", name)["status"].get("defaultVersion") == second)

    eventually("the new version", followed, seen=lambda: acting.get("connector", name)["status"])
    assert len(versions_of(acting, name)) == 2
