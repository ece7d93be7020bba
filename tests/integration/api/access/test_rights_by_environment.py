"""A role for one environment: what it lets people do by REST, and that they cannot touch another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

MAIN = "from tieline import Integration\n\nintegration = Integration()\n"


def role(kubectl: Kubectl, namespace: str, user: str, *environments: str) -> None:
    """Lets a ServiceAccount patch the Environments of these names."""
    name = f"environments-{new_id().lower()}"
    rule = {
        "apiGroups": ["tieline.dev"],
        "resources": ["environments"],
        "verbs": ["get", "patch"],
        "resourceNames": list(environments),
    }
    made = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": name},
        "rules": [rule],
    }
    kubectl("create", "-f", "-", namespace=namespace, stdin=json.dumps(made))
    kubectl(
        *("create", "rolebinding", name, f"--role={name}", f"--serviceaccount={namespace}:{user}"),
        namespace=namespace,
    )


@pytest.fixture(scope="module")
def project(client: Client) -> dict[str, Any]:
    """A project with two environments, one of which is deployed."""
    client.until_known()
    made: dict[str, Any] = client.ok("POST", "/projects", {"name": "Rights"})
    at = f"/projects/{made['id']}"
    client.ok("PUT", f"{at}/deploy", {"files": [{"filename": "main.py", "content": MAIN}]})
    for name in ("staging", "live"):
        client.ok("POST", f"{at}/environments", {"name": name})
    return made


@pytest.fixture(scope="module")
def tester(
    client: Client,
    kubectl: Kubectl,
    org: Organisation,
    token_for: Callable[..., str],
    project: dict[str, Any],
) -> Client:
    """Who may see everything, and change the environment staging."""
    made = Client(client.url, token_for(org.namespace, "tester", "tieline-viewer"), org.id)
    made.until_known()
    role(kubectl, org.namespace, "tester", f"{project['id'].lower()}.staging")
    return made


def version(client: Client, at: str) -> str:
    """The version that is there."""
    identifier: str = client.ok("GET", f"{at}/versions")["items"][0]["id"]
    return identifier


def environment_id(client: Client, project: dict[str, Any], name: str) -> str:
    found = client.ok("GET", f"/projects/{project['id']}")["environments"]
    identifier: str = next(one["id"] for one in found if one["name"] == name)
    return identifier


def test_an_editor_of_staging_deploys_there_and_not_to_live(
    client: Client, tester: Client, project: dict[str, Any]
) -> None:
    at = f"/projects/{project['id']}"
    deploy = f"{at}/versions/{version(client, at)}/deploy"
    assert tester("PUT", f"{deploy}?project_env=staging").status == 200
    refused = tester("PUT", f"{deploy}?project_env=live")
    assert refused.status == 403
    assert "patch projects" in refused.json["message"]
    live = environment_id(client, project, "live")
    assert tester("PUT", f"{deploy}?env_id={live}").status == 403
    assert tester("PUT", f"{deploy}?project_env=nowhere").status == 403, "as all that they may not do"
    staging = environment_id(client, project, "staging")
    assert tester("PUT", f"{deploy}?env_id={staging}&project_env=live").status == 403


def test_a_promotion_needs_the_right_on_its_target_alone(
    client: Client, tester: Client, project: dict[str, Any]
) -> None:
    sync = f"/projects/{project['id']}/environments/sync"
    body = {"sourceEnvName": "production", "targetEnvName": "staging", "force": True}
    assert tester("POST", sync, body).status == 200
    turned = {"sourceEnvName": "staging", "targetEnvName": "live", "force": True}
    assert tester("POST", sync, turned).status == 403


def test_what_runs_in_staging_is_theirs_to_set_and_stop(
    client: Client, tester: Client, project: dict[str, Any]
) -> None:
    staging, live = (environment_id(client, project, name) for name in ("staging", "live"))
    config = {"deploymentSpec": {"replicas": 2}}
    assert tester("PUT", f"/environments/{staging}/config", config).status == 204
    assert tester("PUT", f"/environments/{live}/config", config).status == 403
    # An image is code.
    assert tester("PUT", f"/environments/{staging}/config", {"image": "mine"}).status == 403
    # What a promotion and a rollback check first.
    assert tester("GET", f"/environments/{staging}/sleepers").status == 200
    assert tester("GET", f"/environments/{live}/sleepers").status == 403
    suspend = f"/projects/{project['id']}/suspend"
    assert tester("POST", f"{suspend}?environment=staging").status == 200
    assert tester("POST", f"{suspend}?environment=live").status == 403
    assert tester("POST", f"{suspend}?environment={live}").status == 403


def test_files_environments_and_other_projects_stay_out_of_reach(
    client: Client, tester: Client, project: dict[str, Any]
) -> None:
    at = f"/projects/{project['id']}"
    files = {"files": [{"filename": "main.py", "content": MAIN}]}
    assert tester("PUT", f"{at}/files", files).status == 403
    assert tester("PUT", f"{at}/deploy?project_env=staging", files).status == 403
    assert tester("PUT", f"{at}/deploy?project_env=staging", {"labels": {"a": "b"}}).status == 403
    assert tester("POST", f"{at}/environments", {"name": "more"}).status == 403
    staging = environment_id(client, project, "staging")
    assert tester("DELETE", f"{at}/environments/{staging}").status == 403
    other = client.ok("POST", "/projects", {"name": "Other"})
    client.ok("POST", f"/projects/{other['id']}/environments", {"name": "staging"})
    assert tester("POST", f"/projects/{other['id']}/suspend?environment=staging").status == 403


def test_without_the_right_to_see_the_organisation_a_right_on_an_environment_is_none(
    client: Client,
    kubectl: Kubectl,
    org: Organisation,
    token_for: Callable[..., str],
    project: dict[str, Any],
) -> None:
    blind = Client(client.url, token_for(org.namespace, "blind", None), org.id)
    role(kubectl, org.namespace, "blind", f"{project['id'].lower()}.staging")
    refused = blind("POST", f"/projects/{project['id']}/suspend?environment=staging")
    assert refused.status == 404
