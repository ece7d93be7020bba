"""Copies of projects by REST: drafts of their own, with what the original is made of."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import MAIN, activate, connect, make_project, make_template, stored

OTHER = {"filename": "shop/orders.py", "content": "ORDERS = 'zwölf'\n"}


def at(project: dict[str, Any]) -> str:
    return f"/projects/{project['id']}"


def test_a_copy_is_a_draft_of_its_own(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, template = make_template(client)
    connection = connect(client, template, "secret")
    client.ok("POST", f"{at(project)}/environments", {"name": "staging"})
    staging = client.ok("GET", at(project))["environments"][1]
    body = {"systemId": template["id"], "name": "crm", "environmentId": staging["id"], "dynamic": True}
    dynamic = client.ok("POST", f"{at(project)}/connection-templates", body)
    activate(client, {**project, "environments": [staging]}, dynamic, "mine")
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    client.ok("PUT", f"{at(project)}/variables", schema)
    client.ok("PATCH", f"/environments/{staging['id']}/variables", {"region": "eu"})
    config = {"deploymentSpec": {"replicas": 2}, "env": [{"name": "A", "value": "1"}]}
    client.ok("PUT", f"/environments/{staging['id']}/config", config, status=204)
    client.ok("PUT", at(project), {"settings": {"keepInputs": True}})
    files = {"files": [MAIN, OTHER], "labels": {"team": "ops"}}
    client.ok("PUT", f"{at(project)}/deploy?project_env=production", {**files, "versionName": "First"})

    copy = client.ok("POST", f"{at(project)}/clone")
    assert copy["id"] != project["id"]
    assert copy["name"] == f"Copy of {project['name']}"
    assert copy["currentFiles"] == files
    assert copy["settings"]["keepInputs"] is True
    assert copy["dynamicVariablesSchema"] == schema
    shown = {one["name"]: one for one in copy["environments"]}
    assert {name: one["status"] for name, one in shown.items()} == {"production": "draft", "staging": "draft"}
    assert all("deployedVersion" not in one for one in shown.values())
    assert shown["staging"]["config"]["deploymentSpec"]["replicas"] == 2
    assert shown["staging"]["config"]["env"] == config["env"]
    assert client.ok("GET", f"{at(copy)}/versions")["totalCount"] == 0
    copied = client.ok("GET", f"{at(copy)}/connection-templates")["items"]
    assert {(one["name"], one["dynamic"], one["id"]) for one in copied} == {
        ("shop", False, template["id"]),
        ("crm", True, template["id"]),
    }
    linked = client.ok("GET", f"{at(copy)}/connections")["items"]
    assert [one["id"] for one in linked] == [connection["id"]]
    assert client.ok("GET", f"/environments/{shown['staging']['id']}/activations") == []
    assert client.ok("PATCH", f"/environments/{shown['staging']['id']}/variables", {}) == {}

    # The copy stays when the original goes: its files are its own.
    source = stored(kubectl, org, "project", copy["id"])["spec"]["source"]["configMaps"]
    owners = [stored(kubectl, org, "configmap", one["name"])["metadata"]["ownerReferences"] for one in source]
    assert {owner["name"] for found in owners for owner in found} == {copy["id"].lower()}
    client.ok("DELETE", at(project), status=204)
    assert client.ok("GET", f"{at(copy)}/files") == files
    deployed = client.ok("PUT", f"{at(copy)}/deploy?project_env=production")
    assert deployed["environments"][0]["deployedVersion"]


def test_a_copy_may_have_another_name(client: Client) -> None:
    project = make_project(client)
    copy = client.ok("POST", f"{at(project)}/clone", {"name": "Of the EU"})
    assert (copy["name"], copy["currentFiles"]["files"]) == ("Of the EU", [])
    client.ok("PUT", at(project), {"name": "x" * 200})
    assert client.ok("POST", f"{at(project)}/clone")["name"] == f"Copy of {'x' * 192}"
    assert client("POST", f"{at(project)}/clone", {"name": " "}).fields == ["name"]


def test_what_cannot_be_copied_leaves_nothing_behind(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": project["id"].lower(), "namespace": org.namespace},
        "spec": {"source": {"configMaps": [{"name": "nowhere"}]}},
    }
    kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(manifest))
    before = len(client.ok("GET", "/projects")["projects"])
    refused = client("POST", f"{at(project)}/clone")
    assert refused.status == 409
    assert '"nowhere" does not exist' in refused.json["message"]
    assert len(client.ok("GET", "/projects")["projects"]) == before


def test_who_may_not_use_what_a_project_refers_to_cannot_copy_it(
    client: Client, kubectl: Kubectl, org: Organisation, token_for: Callable[..., str]
) -> None:
    editor = Client(client.url, token_for(org.namespace, "copier", "tieline-editor"), org.id)
    editor.until_known()
    project = make_project(client)
    assert editor("POST", f"{at(project)}/clone").status == 200
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": project["id"].lower(), "namespace": org.namespace},
        "spec": {
            "environments": [{"name": "production", "runtime": {"imagePullSecrets": [{"name": "pull"}]}}]
        },
    }
    kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(manifest))
    refused = editor("POST", f"{at(project)}/clone")
    assert refused.status == 403
    assert "pull" in refused.json["message"]
    mounts = {"caBundle": {"name": "corporate-ca"}}
    manifest["spec"] = {"environments": [{"name": "production", "runtime": mounts}]}
    kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(manifest))
    refused = editor("POST", f"{at(project)}/clone")
    assert refused.status == 403
    assert "the ConfigMaps corporate-ca" in refused.json["message"]
    # In the same project it refers to it already.
    clone = {"oldEnvName": "production", "newEnvName": "staging"}
    assert editor("POST", f"{at(project)}/environments/clone", clone).status == 200
