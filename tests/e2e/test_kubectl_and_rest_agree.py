"""What kubectl applied is visible in REST at once and the other way round, with the same ids."""

from __future__ import annotations

import pytest

from tests.harness.cluster.deployed_platform import Rest, World, answering, project, says
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e


def test_a_project_made_and_deployed_by_rest_runs_and_kubectl_sees_it(world: World, rest: Rest):
    created = rest("POST", "/projects", {"name": "By REST"}).json
    path = f"/projects/{created['id']}"
    files = {"files": [{"filename": "main.py", "content": answering("rest")}], "labels": {"team": "ops"}}
    assert rest("PUT", f"{path}/files", files).status == 200
    deployed = rest("PUT", f"{path}/deploy?wait=120", {"versionName": "first"})
    assert deployed.status == 200, deployed
    assert deployed.json["environments"][0]["rollout"] == {"state": "complete"}

    def running() -> dict[str, str] | None:
        environment: dict[str, str] = rest("GET", path).json["environments"][0]
        return environment if environment["status"] == "running" else None

    environment = eventually("running in REST", running)
    eventually("an answer", lambda: says(environment["publicUrl"]) == "rest")

    def triggers() -> list[str]:
        return triggers_of(rest, created["id"])

    assert eventually("its webhook is a trigger of its connector", triggers) == ["hello_get", "hello_post"]
    name = created["id"].lower()
    seen = world.environment(name)
    assert (seen["id"], seen["status"]) == (environment["id"], "running")

    assert (
        rest(
            "PUT", f"{path}/deploy", {"files": [{"filename": "main.py", "content": answering("new")}]}
        ).status
        == 200
    )
    eventually("the new files", lambda: says(environment["publicUrl"]) == "new")
    versions = rest("GET", f"{path}/versions").json["items"]
    first = next(version for version in versions if version["name"] == "first")
    assert rest("PUT", f"{path}/versions/{first['id']}/deploy").status == 200
    eventually("the first files again", lambda: says(environment["publicUrl"]) == "rest")

    assert rest("POST", f"{path}/suspend?environment=production").status == 200
    eventually("suspended", lambda: rest("GET", path).json["environments"][0]["status"] == "suspended")
    assert world.pods(name) == []
    assert rest("DELETE", path).status == 204
    assert rest("GET", path).status == 404
    eventually("everything gone", lambda: not world.get("deployments,projectversions,projects")["items"])


def triggers_of(rest: Rest, project_id: str) -> list[str]:
    """The names of the triggers of the connector that a project is."""
    connectors = rest("GET", "/connectors").json["items"]
    mine = [connector for connector in connectors if connector.get("projectId") == project_id]
    if not mine:
        return []
    page = rest("GET", f"/connectors/{mine[0]['id']}/versions/latest/triggers")
    return [trigger["name"] for trigger in page.json["items"]]


def test_a_project_that_kubectl_applied_is_in_rest_with_its_environment(world: World, rest: Rest):
    world.apply(project(answering("kubectl")))
    world.until("orders", "running")
    listed = rest("GET", "/projects").json["projects"]
    assert [entry["name"] for entry in listed] == ["Orders"]
    one = rest("GET", f"/projects/{listed[0]['id']}").json
    assert one["environments"][0]["status"] == "running"
    assert one["environments"][0]["id"] == world.environment("orders")["id"]
    assert one["currentFiles"]["files"] == [{"filename": "main.py", "content": answering("kubectl")}]
    label = world.get("project", "orders")["metadata"]["labels"]["tieline.dev/id"]
    assert label == one["id"]


def test_rest_does_not_overwrite_what_git_owns(world: World, rest: Rest):
    world.apply(project(answering("kubectl")))
    eventually("listed", lambda: rest("GET", "/projects").json["projects"])
    identifier = rest("GET", "/projects").json["projects"][0]["id"]
    refused = rest("PUT", f"/projects/{identifier}", {"name": "Renamed"})
    assert refused.status == 409
    assert "kubectl" in refused.json["message"]
    assert "name" in str(refused.json)
