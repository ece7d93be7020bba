"""Environments by REST: creating, copying, promoting and deleting them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import (
    MAIN,
    activate,
    connect,
    make_channel,
    make_project,
    make_system,
    make_template,
    operator_reports,
    stored,
)
from tieline_core.identity.ids import environment_id


def environments(project: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The environments of a project, by name."""
    return {one["name"]: one for one in project["environments"]}


def path(project: dict[str, Any]) -> str:
    return f"/projects/{project['id']}/environments"


def create(client: Client, project: dict[str, Any], name: str) -> dict[str, Any]:
    """The environment, once created."""
    return environments(client.ok("POST", path(project), {"name": name}))[name]


def templates(client: Client, project: dict[str, Any], environment: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.ok(
        "GET", f"/projects/{project['id']}/connection-templates?env_id={environment['id']}"
    )["items"]
    return found


def until_listed(client: Client, name: str) -> dict[str, Any]:
    def listed() -> dict[str, Any] | None:
        found = client.ok("GET", "/projects")["projects"]
        return next((one for one in found if one["name"] == name), None)

    return eventually(f"{name} in REST", listed)


def apply_environment(
    kubectl: Kubectl, org: Organisation, project: dict[str, Any], name: str, **fields: Any
) -> None:
    """Another manager sets fields of an environment."""
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": project["id"].lower(), "namespace": org.namespace},
        "spec": {"environments": [{"name": name, **fields}]},
    }
    kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(manifest))


def test_a_new_environment_is_a_draft_beside_the_others(client: Client) -> None:
    project = make_project(client)
    created = client.ok("POST", path(project), {"name": "staging"})
    assert list(environments(created)) == ["production", "staging"]
    staging = environments(created)["staging"]
    assert (staging["status"], staging["publicUrl"]) == ("draft", "")
    assert staging["id"] == environment_id(project["id"], "staging")
    assert environments(client.ok("GET", f"/projects/{project['id']}")) == environments(created)
    taken = client("POST", path(project), {"name": "staging"})
    assert (taken.status, taken.json["code"]) == (409, "conflict")
    assert '"staging" already' in taken.json["message"]


@pytest.mark.parametrize("name", ["", "Staging", "my env", "-a", "a-", "a" * 41, "a/b", "..", 7])
def test_a_name_that_no_environment_can_have_is_refused_in_words(client: Client, name: Any) -> None:
    refused = client("POST", path(make_project(client)), {"name": name})
    assert (refused.status, refused.fields) == (422, ["name"])
    assert "pattern" not in refused.json["message"]


def test_a_manifest_without_environments_keeps_its_production(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    name = "bare-project"
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": name, "namespace": org.namespace},
        "spec": {"name": "Bare"},
    }
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    project = until_listed(client, "Bare")
    assert list(environments(client.ok("POST", path(project), {"name": "staging"}))) == [
        "production",
        "staging",
    ]
    kubectl("delete", "project", name, namespace=org.namespace)


def test_of_two_who_create_one_environment_at_once_one_is_told_that_it_is_there(client: Client) -> None:
    project = make_project(client)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: client("POST", path(project), {"name": "staging"}), range(4)))
        others = list(pool.map(lambda n: client("POST", path(project), {"name": f"e{n}"}), range(3)))
    assert sorted(answer.status for answer in answers) == [200, 409, 409, 409]
    assert [answer.status for answer in others] == [200, 200, 200]
    shown = environments(client.ok("GET", f"/projects/{project['id']}"))
    assert set(shown) == {"production", "staging", "e0", "e1", "e2"}


def test_a_project_has_at_most_twenty_environments(client: Client) -> None:
    project = make_project(client)
    for number in range(19):
        create(client, project, f"e{number}")
    refused = client("POST", path(project), {"name": "more"})
    assert refused.status == 409
    assert "at most 20" in refused.json["message"]
    clone = {"oldEnvName": "e0", "newEnvName": "more"}
    assert client("POST", f"{path(project)}/clone", clone).status == 409


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_a_deleted_environment_takes_along_what_rest_made_for_it(client: Client, method: str) -> None:
    project, _ = make_template(client)
    staging = create(client, project, "staging")
    body = {"systemId": templates(client, project, project["environments"][0])[0]["id"], "name": "shop"}
    at = f"/projects/{project['id']}"
    template = client.ok(
        "POST", f"{at}/connection-templates", {**body, "environmentId": staging["id"], "dynamic": True}
    )
    user, activation = activate(client, {**project, "environments": [staging]}, template, "secret")
    channel = make_channel(client)
    notification = {"name": "N", "channel_id": channel["id"], "environment_id": staging["id"]}
    client.ok("POST", f"{at}/notifications", notification, status=201)
    client.ok("PATCH", f"/environments/{staging['id']}/variables", {})

    left = client.ok(method, f"{path(project)}/{staging['id'].lower()}")
    assert list(environments(left)) == ["production"]
    assert client(method, f"{path(project)}/{staging['id']}").status == 404
    assert client("GET", f"/environments/{staging['id']}/activations").status == 404
    assert client.ok("GET", f"{at}/notifications")["items"] == []
    assert len(client.ok("GET", f"{at}/connection-templates")["items"]) == 1, "production keeps its own"
    # The name is free again, and nothing of the old one comes back.
    again = create(client, project, "staging")
    assert again["id"] == staging["id"]
    assert client.ok("GET", f"/environments/{staging['id']}/activations") == []
    assert templates(client, project, again) == []
    assert client("GET", f"/environments/{again['id']}/activations/{activation['id']}").status == 404
    assert client.ok("GET", f"/users/{user['id']}")["externalId"] == user["externalId"]


def test_the_only_environment_of_a_project_stays(client: Client) -> None:
    project = make_project(client)
    refused = client("DELETE", f"{path(project)}/{project['environments'][0]['id']}")
    assert refused.status == 409
    assert "only environment" in refused.json["message"]
    assert client("DELETE", f"{path(project)}/production").status == 404, "environments are named by id"


def test_what_git_owns_of_an_environment_is_not_deleted(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    staging = create(client, project, "staging")
    body = {"systemId": make_system(client)["id"], "name": "shop", "environmentId": staging["id"]}
    template = client.ok("POST", f"/projects/{project['id']}/connection-templates", body)
    apply_environment(kubectl, org, project, "staging", runtime={"replicas": 3})
    refused = client("DELETE", f"{path(project)}/{staging['id']}")
    assert refused.status == 409
    assert refused.json["managers"] == ["git"]
    assert 'environments["staging"]' in refused.json["message"]
    kept = templates(client, project, staging)
    assert [one["connectionTemplateId"] for one in kept] == [template["connectionTemplateId"]], (
        "nothing is lost"
    )


def test_a_copy_has_the_runtime_and_where_asked_for_systems_and_variables(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    connection = connect(client, template, "secret")
    _, dynamic = make_template(client, project=project, name="crm", dynamic=True)
    activate(client, project, dynamic, "mine")
    production = project["environments"][0]
    client.ok("PUT", f"/projects/{project['id']}/variables", {"type": "object"})
    client.ok("PATCH", f"/environments/{production['id']}/variables", {"region": "eu"})
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    apply_environment(kubectl, org, project, "production", runtime={"replicas": 3})

    body = {
        "oldEnvName": "production",
        "newEnvName": "staging",
        "cloneSystems": True,
        "copyStaticUserVariables": True,
    }
    staging = environments(client.ok("POST", f"{path(project)}/clone", body))["staging"]
    assert (staging["status"], staging.get("deployedVersion")) == ("draft", None)
    assert staging["config"]["deploymentSpec"]["replicas"] == 3
    copied = {one["name"]: one for one in templates(client, project, staging)}
    assert {name: one["dynamic"] for name, one in copied.items()} == {"shop": False, "crm": True}
    assert copied["shop"]["id"] == template["id"]
    assert copied["shop"]["connectionTemplateId"] != template["connectionTemplateId"]
    linked = client.ok("GET", f"/projects/{project['id']}/connections?env_id={staging['id']}")["items"]
    assert [one["id"] for one in linked] == [connection["id"]]
    static = client.ok("PATCH", f"/environments/{staging['id']}/variables", {})
    assert static == {"region": "eu"}
    assert client.ok("GET", f"/environments/{staging['id']}/activations") == [], "users are not copied"
    # The copies are independent.
    client.ok("PATCH", f"/environments/{staging['id']}/variables", {"region": "us"})
    assert client.ok("PATCH", f"/environments/{production['id']}/variables", {}) == {"region": "eu"}

    plain = client.ok("POST", f"{path(project)}/clone", {"oldEnvName": "production", "newEnvName": "test"})
    assert templates(client, project, environments(plain)["test"]) == []
    assert client.ok("PATCH", f"/environments/{environments(plain)['test']['id']}/variables", {}) == {}


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ({"oldEnvName": "nowhere", "newEnvName": "staging"}, 404, '"production"'),
        ({"oldEnvName": "production", "newEnvName": "production"}, 409, "already"),
        ({"oldEnvName": "production", "newEnvName": "Staging"}, 422, "newEnvName"),
        ({"oldEnvName": "production"}, 422, "newEnvName"),
        ({"oldEnvName": "production", "newEnvName": "a", "cloneSystems": "yes"}, 422, "cloneSystems"),
    ],
)
def test_what_cannot_be_copied_is_refused(
    client: Client, body: dict[str, Any], status: int, text: str
) -> None:
    project = make_project(client)
    refused = client("POST", f"{path(project)}/clone", body)
    assert refused.status == status
    assert text in str(refused.json)
    assert list(environments(client.ok("GET", f"/projects/{project['id']}"))) == ["production"]


def test_variables_that_do_not_fit_are_not_copied(client: Client) -> None:
    project = make_project(client)
    at = f"/projects/{project['id']}"
    client.ok("PATCH", f"/environments/{project['environments'][0]['id']}/variables", {"region": 7})
    schema = {"type": "object", "properties": {"region": {"type": "string"}}}
    client.ok("PUT", f"{at}/variables", schema)
    body = {"oldEnvName": "production", "newEnvName": "staging", "copyStaticUserVariables": True}
    refused = client("POST", f"{path(project)}/clone", body)
    assert (refused.status, refused.fields) == (422, ["copyStaticUserVariables.region"])
    assert list(environments(client.ok("GET", at))) == ["production"]


def test_promoting_deploys_the_version_of_the_source(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    at = f"/projects/{project['id']}"
    create(client, project, "staging")
    deployed = client.ok(
        "PUT",
        f"{at}/deploy?project_env=staging",
        {"files": [MAIN], "labels": {"a": "b"}, "versionName": "First"},
    )
    sync = {"sourceEnvName": "staging", "targetEnvName": "production"}
    version = environments(deployed)["staging"]["deployedVersion"]
    refused = client("POST", f"{path(project)}/sync", sync)
    assert refused.status == 409, "it does not serve in staging yet"
    assert "nothing serves; rollout: progressing" in refused.json["message"]
    operator_reports(
        kubectl, org, stored(kubectl, org, "project", project["id"]), environment="staging", failure="Crashed"
    )
    eventually("its failure", lambda: "rollout: failed, Crashed" in _message(client, project, sync))
    operator_reports(kubectl, org, stored(kubectl, org, "project", project["id"]), environment="staging")
    eventually("that it serves", lambda: "servingVersion" in environments(client.ok("GET", at))["staging"])
    promoted = environments(client.ok("POST", f"{path(project)}/sync", sync))
    assert promoted["production"]["deployedVersion"] == version
    assert promoted["production"]["files"] == [MAIN]
    assert promoted["production"]["labels"] == {"a": "b"}
    # Later files of the project are not promoted.
    client.ok("PUT", f"{at}/files", {"files": [{**MAIN, "content": "print('two')\n"}], "labels": {}})
    again = environments(client.ok("POST", f"{path(project)}/sync", sync))
    assert again["production"]["deployedVersion"] == version
    assert client.ok("GET", f"{at}/versions")["totalCount"] == 1
    # A suspended target runs again, as with a deploy.
    client.ok("POST", f"{at}/suspend?environment=production")
    assert environments(client.ok("POST", f"{path(project)}/sync", sync))["production"]["rollout"] == {
        "state": "progressing"
    }
    client.ok("POST", f"{at}/suspend?environment=staging")
    assert "it is suspended" in _message(client, project, sync)
    forced = environments(client.ok("POST", f"{path(project)}/sync", {**sync, "force": True}))
    assert forced["production"]["deployedVersion"] == version


def _message(client: Client, project: dict[str, Any], sync: dict[str, Any]) -> str:
    """Why a version cannot be promoted."""
    message: str = client("POST", f"{path(project)}/sync", sync).json.get("message", "")
    return message


def test_what_cannot_be_promoted_is_refused(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, _ = make_template(client)
    at = f"/projects/{project['id']}"
    create(client, project, "staging")

    def sync(source: str, target: str) -> Any:
        body = {"sourceEnvName": source, "targetEnvName": target, "force": True}
        return client("POST", f"{path(project)}/sync", body)

    assert sync("staging", "production").status == 409, "nothing is deployed to the source"
    assert sync("nowhere", "production").status == 404
    assert sync("production", "nowhere").status == 404
    code = "from tieline import Context, Integration\nintegration = Integration()\n\n\n"
    code += (
        "@integration.webhook('a')\nasync def a(ctx: Context) -> None:\n    await ctx.fetch('shop', '/')\n"
    )
    client.ok("PUT", f"{at}/deploy?project_env=production", {"files": [{**MAIN, "content": code}]})
    assert sync("production", "production").fields == ["targetEnvName"]
    refused = sync("production", "staging")
    assert refused.status == 422, "the target lacks a connection template"
    assert "shop" in refused.json["message"]
    apply_environment(kubectl, org, project, "staging", version="latest")
    client.ok("PUT", f"{at}/deploy?project_env=production", {"files": [MAIN]})
    owned = sync("production", "staging")
    assert (owned.status, owned.json["managers"]) == (409, ["git"])
    assert "environments" in owned.fields[0]
    spec = stored(kubectl, org, "project", project["id"])["spec"]
    assert {one["name"]: one["version"] for one in spec["environments"]}["staging"] == "latest"


def test_a_deploy_that_waits_ends_when_its_environment_is_deleted(client: Client) -> None:
    project = make_project(client)
    at = f"/projects/{project['id']}"
    staging = create(client, project, "staging")
    with ThreadPoolExecutor(1) as pool:
        # Nothing rolls it out here, and the client waits for less than the five minutes.
        deploy = f"{at}/deploy?project_env=staging&wait=300"
        waiting = pool.submit(client.ok, "PUT", deploy, {"files": [MAIN]})

        def deployed() -> bool:
            return "deployedVersion" in environments(client.ok("GET", at))["staging"]

        eventually("the deploy", deployed)
        client.ok("DELETE", f"{path(project)}/{staging['id']}")
        assert list(environments(waiting.result())) == ["production"]
    assert list(environments(client.ok("GET", at))) == ["production"]


def test_a_template_of_git_is_kept_in_a_copy(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project, _ = make_template(client)
    system, name = make_system(client)["id"], f"of-git-{project['id'].lower()}"
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "ConnectionTemplate",
        "metadata": {"name": name, "namespace": org.namespace},
        "spec": {
            "name": "shop",
            "projectRef": {"name": project["id"].lower()},
            "environment": "staging",
            "systemRef": {"name": system.lower()},
        },
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    listed = f"/projects/{project['id']}/connection-templates"
    eventually("the template in REST", lambda: client.ok("GET", listed)["totalCount"] == 2)
    clone = {"oldEnvName": "production", "newEnvName": "staging", "cloneSystems": True}
    answer = client("POST", f"{path(project)}/clone", clone)
    assert answer.status == 200
    assert "shop" in answer.headers["Warning"]
    staging = environments(answer.json)["staging"]
    assert [one["id"] for one in templates(client, project, staging)] == [system]
    client.ok("DELETE", f"{path(project)}/{staging['id']}")
    stored(kubectl, org, "connectiontemplate", name)
