"""What kubectl applied is visible in REST at once and the other way round, with the same ids."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Answer, Rest, Tenant, answering, project, says
from tests.harness.session.waiting import eventually
from tieline_api.schemas import examples
from tieline_core.identity.names import ENVIRONMENT_LABEL

pytestmark = pytest.mark.e2e


def test_a_project_made_and_deployed_by_rest_runs_and_kubectl_sees_it(tenant: Tenant, rest: Rest):
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
    seen = tenant.environment(name)
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
    assert tenant.pods(name) == []
    assert rest("DELETE", path).status == 204
    assert rest("GET", path).status == 404
    eventually("everything gone", lambda: not tenant.get("deployments,projectversions,projects")["items"])


ECHO = """import os

from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("hello", methods=["POST"])
async def hello(ctx: Context, request: Request) -> dict[str, object]:
    return {
        "environment": ctx.environment.name,
        "price": os.environ.get("PRICE"),
        "authorization": request.headers.get("Authorization"),
        "language": request.query.get("language"),
        "body": await request.json(),
    }
"""


def test_an_environment_is_created_promoted_called_scaled_and_deleted(tenant: Tenant, rest: Rest):
    created = rest("POST", "/projects", {"name": "Promoted"}).json
    name, path = created["id"].lower(), f"/projects/{created['id']}"

    def environments(answer: Answer) -> dict[str, Any]:
        assert answer.status == 200, answer
        return {one["name"]: one for one in answer.json["environments"]}

    def called(environment: dict[str, Any], body: dict[str, Any]) -> Any:
        answer = rest("POST", f"{path}/environments/call?project_env={environment['name']}", body)
        assert (answer.status, answer.json.get("status")) == (200, 200), answer
        assert answer.json["headers"]["content-type"][0].startswith("application/json")
        return json.loads(base64.b64decode(answer.json["body"]))

    staging = environments(rest("POST", f"{path}/environments", {"name": "staging"}))["staging"]
    price = {"env": [{"name": "PRICE", "value": "5$ $(HOME) $$"}]}
    assert rest("PUT", f"/environments/{staging['id']}/config", price).status == 204
    files = {"files": [{"filename": "main.py", "content": ECHO}]}
    deployed = environments(rest("PUT", f"{path}/deploy?project_env=staging&wait=180", files))["staging"]
    assert deployed["rollout"] == {"state": "complete"}
    example = examples.MODELS["WebhookCall"]
    assert called(staging, example) == {
        "environment": "staging",
        "price": "5$ $(HOME) $$",
        "authorization": None,
        "language": "en",
        "body": {"name": "Ann"},
    }
    unknown = rest("POST", f"{path}/environments/call?env_id={staging['id']}", {**example, "urlPath": "/no"})
    assert (unknown.status, unknown.json["status"]) == (200, 404), "the webhook's own answer"

    sync = {"sourceEnvName": "staging", "targetEnvName": "production"}
    promoted = environments(rest("POST", f"{path}/environments/sync?wait=180", sync))["production"]
    assert promoted["rollout"] == {"state": "complete"}
    assert promoted["deployedVersion"] == deployed["deployedVersion"]
    given = {**example, "headers": {"Authorization": "Bearer mine"}}
    answer = called(promoted, given)
    assert (answer["environment"], answer["price"], answer["authorization"]) == (
        "production",
        None,
        "Bearer mine",
    )

    two = {"deploymentSpec": {"replicas": 2, "resources": {"requests": {"cpu": "10m"}}}}
    assert rest("PUT", f"/environments/{promoted['id']}/config", two).status == 204
    eventually("two pods", lambda: tenant.environment(name).get("readyReplicas") == 2)
    pods = [one for one in tenant.pods(name) if one["metadata"]["labels"][ENVIRONMENT_LABEL] == "production"]
    requests = [pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] for pod in pods]
    assert "10m" in requests

    left = environments(rest("POST", f"{path}/environments/{staging['id']}"))
    assert list(left) == ["production"]

    def workloads() -> bool:
        found = tenant.get("deployments")["items"]
        return [one["metadata"]["labels"][ENVIRONMENT_LABEL] for one in found] == ["production"]

    eventually("staging gone", workloads)
    assert called(promoted, example)["environment"] == "production"
    gone = rest("POST", f"{path}/environments/call?env_id={staging['id']}", example)
    assert gone.status == 404
    assert rest("DELETE", path).status == 204


def triggers_of(rest: Rest, project_id: str) -> list[str]:
    """The names of the triggers of the connector that a project is."""
    connectors = rest("GET", "/connectors").json["items"]
    mine = [connector for connector in connectors if connector.get("projectId") == project_id]
    if not mine:
        return []
    page = rest("GET", f"/connectors/{mine[0]['id']}/versions/latest/triggers")
    return [trigger["name"] for trigger in page.json["items"]]


def test_a_project_that_kubectl_applied_is_in_rest_with_its_environment(tenant: Tenant, rest: Rest):
    tenant.apply(project(answering("kubectl")))
    tenant.until("orders", "running")
    listed = rest("GET", "/projects").json["projects"]
    assert [entry["name"] for entry in listed] == ["Orders"]
    one = rest("GET", f"/projects/{listed[0]['id']}").json
    assert one["environments"][0]["status"] == "running"
    assert one["environments"][0]["id"] == tenant.environment("orders")["id"]
    assert one["currentFiles"]["files"] == [{"filename": "main.py", "content": answering("kubectl")}]
    label = tenant.get("project", "orders")["metadata"]["labels"]["tieline.dev/id"]
    assert label == one["id"]


def test_rest_does_not_overwrite_what_git_owns(tenant: Tenant, rest: Rest):
    tenant.apply(project(answering("kubectl")))
    eventually("listed", lambda: rest("GET", "/projects").json["projects"])
    identifier = rest("GET", "/projects").json["projects"][0]["id"]
    refused = rest("PUT", f"/projects/{identifier}", {"name": "Renamed"})
    assert refused.status == 409
    assert "kubectl" in refused.json["message"]
    assert "name" in str(refused.json)
