"""How environments run their code, by REST: what is set is in the Project, and what Git owns stays Git's."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client
from tests.integration.api.objects import MAIN, make_project, stored


def runtime(
    kubectl: Kubectl, org: Organisation, project: dict[str, Any], name: str = "production"
) -> dict[str, Any]:
    """The runtime of an environment, as kubectl sees it."""
    items = stored(kubectl, org, "project", project["id"])["spec"]["environments"]
    found: dict[str, Any] = next(one for one in items if one["name"] == name).get("runtime", {})
    return found


def config(client: Client, project: dict[str, Any]) -> dict[str, Any]:
    """What REST tells of the first environment's."""
    found: dict[str, Any] = client.ok("GET", f"/projects/{project['id']}")["environments"][0]["config"]
    return found


def path(project: dict[str, Any]) -> str:
    return f"/environments/{project['environments'][0]['id']}/config"


def apply_runtime(kubectl: Kubectl, org: Organisation, project: dict[str, Any], **given: Any) -> None:
    """Git says how the environment runs."""
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": project["id"].lower(), "namespace": org.namespace},
        "spec": {"environments": [{"name": "production", "runtime": given}]},
    }
    kubectl("apply", "--server-side", "--field-manager=git", "-f", "-", stdin=json.dumps(manifest))


def test_what_is_set_is_in_the_project_and_what_is_left_out_stays(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    resources = {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}
    env = [{"name": "LOG_LEVEL", "value": "debug"}, {"name": "EMPTY", "value": ""}]
    body = {
        "deploymentSpec": {"replicas": "2", "resources": resources},
        "image": "registry.example/own:1",
        "env": env,
    }
    client.ok("PUT", path(project), body, status=204)
    wanted = {"replicas": 2, "resources": resources, "image": "registry.example/own:1", "env": env}
    assert runtime(kubectl, org, project) == wanted
    assert config(client, project) == {
        "deploymentSpec": {"replicas": 2, "resources": resources},
        "image": "registry.example/own:1",
        "env": env,
    }
    missing = {"name": "DB", "valueFrom": {"secretKeyRef": {"name": "nowhere", "key": "url"}}}
    warned = client("PUT", path(project), {"env": [*env, missing]})
    assert (warned.status, warned.headers["Warning"]) == (
        204,
        '299 - "The environment variable DB: there is no Secret \\"nowhere\\" of type '
        'tieline.dev/credential; create it"',
    )
    warned = client("PUT", path(project), {"env": env})
    assert (warned.status, "Warning" in warned.headers) == (204, False)
    client.ok("PUT", path(project), {"deploymentSpec": {"replicas": 0}}, status=204)
    assert runtime(kubectl, org, project) == {**wanted, "replicas": 0}
    client.ok("PUT", path(project), {}, status=204)
    client.ok("PUT", path(project), {"deploymentSpec": None, "env": None, "image": None}, status=204)
    assert runtime(kubectl, org, project) == {**wanted, "replicas": 0}
    # What is given replaces all that the environment had of it.
    given = {"deploymentSpec": {"resources": {"limits": {"cpu": 1, "memory": 0.5}}}, "env": env[:1]}
    client.ok("PUT", path(project), given, status=204)
    assert runtime(kubectl, org, project)["resources"] == {"limits": {"cpu": "1", "memory": "0.5"}}
    assert runtime(kubectl, org, project)["env"] == env[:1]
    client.ok("PUT", path(project), {"deploymentSpec": {"resources": {}}, "image": "", "env": []}, status=204)
    assert config(client, project) == {"deploymentSpec": {"replicas": 0, "resources": {}}}
    # Neither files nor versions change with it, and a deploy keeps it.
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    assert runtime(kubectl, org, project)["replicas"] == 0


def test_an_environment_is_told_to_sleep_and_to_stay_awake(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    client.ok("PUT", path(project), {"scaling": {"min": 0, "idleAfter": "5m"}}, status=204)
    assert runtime(kubectl, org, project) == {"scaling": {"min": 0, "idleAfter": "5m"}}
    assert config(client, project)["scaling"] == {"min": 0, "idleAfter": "5m"}
    client.ok("PUT", path(project), {"deploymentSpec": {"replicas": 2}, "scaling": None}, status=204)
    assert config(client, project)["scaling"] == {"min": 0, "idleAfter": "5m"}
    client.ok("PUT", path(project), {"scaling": {"min": 0}}, status=204)
    assert config(client, project)["scaling"] == {"min": 0, "idleAfter": "10m"}
    client.ok("PUT", path(project), {"scaling": {}}, status=204)
    assert "scaling" not in config(client, project)
    apply_runtime(kubectl, org, project, scaling={"min": 1})
    refused = client("PUT", path(project), {"scaling": {"min": 0}})
    assert (refused.status, refused.json["managers"]) == (409, ["git"])
    assert config(client, project)["scaling"] == {"min": 1, "idleAfter": "10m"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scaling": {"min": 2}}, "scaling.min"),
        ({"scaling": {"min": 0, "idleAfter": "9s"}}, "scaling.idleAfter"),
        ({"scaling": {"min": 0, "idleAfter": "25h"}}, "scaling.idleAfter"),
        ({"scaling": {"min": 0, "idleAfter": "soon"}}, "scaling.idleAfter"),
        ({"deploymentSpec": {"replicas": -1}}, "deploymentSpec.replicas"),
        ({"deploymentSpec": {"replicas": 51}}, "deploymentSpec.replicas"),
        ({"deploymentSpec": {"replicas": "many"}}, "deploymentSpec.replicas"),
        (
            {"deploymentSpec": {"resources": {"limits": {"memory": "lots"}}}},
            "deploymentSpec.resources.limits.memory",
        ),
        ({"deploymentSpec": {"resources": {"limits": {"cpu": -1}}}}, "deploymentSpec.resources.limits.cpu"),
        ({"env": [{"name": "TIELINE_API_URL", "value": "x"}]}, "env[0].name"),
        ({"env": [{"name": "1A", "value": "x"}]}, "env[0].name"),
        ({"env": [{"name": "A"}]}, "env[0]"),
        ({"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}, "env"),
        ({"env": [{"name": "A", "value": "x" * 4097}]}, "env[0].value"),
        ({"env": [{"name": f"A{number}", "value": ""} for number in range(65)]}, "env"),
        ({"image": "x" * 513}, "image"),
    ],
)
def test_what_cannot_be_is_refused_with_the_field(client: Client, body: dict[str, Any], field: str) -> None:
    project = make_project(client)
    refused = client("PUT", path(project), body)
    assert refused.status == 422
    assert refused.fields == [field]
    assert config(client, project) == {"deploymentSpec": {"replicas": 1, "resources": {}}}


def test_what_git_owns_is_refused_with_its_field(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    project = make_project(client)
    env = [{"name": "A", "value": "git"}]
    resources = {"limits": {"memory": "1Gi"}}
    apply_runtime(kubectl, org, project, replicas=3, resources=resources, env=env, image="git")
    for body, named in (
        ({"deploymentSpec": {"replicas": 2}}, "replicas"),
        ({"deploymentSpec": {"resources": {"limits": {"memory": "2Gi"}}}}, "memory"),
        ({"deploymentSpec": {"resources": {}}}, "memory"),
        ({"env": [{"name": "A", "value": "rest"}]}, "env"),
        ({"env": []}, "env"),
        ({"image": "rest"}, "image"),
        ({"image": ""}, "image"),
    ):
        refused = client("PUT", path(project), body)
        assert (refused.status, refused.json["managers"]) == (409, ["git"]), body
        assert named in str(refused.json), body
    # Values beside Git's are REST's own.
    body = {
        "deploymentSpec": {"resources": {"limits": {"memory": "1Gi", "cpu": "1"}}},
        "env": [*env, {"name": "B", "value": "rest"}],
    }
    client.ok("PUT", path(project), body, status=204)
    client.ok("PUT", path(project), {"env": env}, status=204)
    assert runtime(kubectl, org, project) == {
        "replicas": 3,
        "resources": {"limits": {"memory": "1Gi", "cpu": "1"}},
        "env": env,
        "image": "git",
    }


def test_an_environment_that_is_not_there_has_no_config(client: Client) -> None:
    project = make_project(client)
    assert client("PUT", "/environments/01JD3Y9D3E5TQ0M3H7RS8XA1BG/config", {}).status == 404
    old = client("GET", f"/projects/{project['id']}").headers["ETag"]
    client.ok("PUT", f"/projects/{project['id']}", {"name": "Renamed"})
    assert client("PUT", path(project), {}, If_Match=old).status == 412


@pytest.mark.parametrize(
    ("env", "text"),
    [
        ([{"name": "TIELINE_X", "value": ""}], "begin with TIELINE_"),
        ([{"name": "a-b", "value": ""}], "letters, digits and '_'"),
    ],
)
def test_kubectl_is_refused_the_same_names(
    kubectl: Kubectl, org: Organisation, client: Client, env: list[Any], text: str
) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Project",
        "metadata": {"name": "refused", "namespace": org.namespace},
        "spec": {"name": "Refused", "runtime": {"env": env}},
    }
    done = kubectl("apply", "--dry-run=server", "-f", "-", stdin=json.dumps(manifest), check=False)
    assert done.returncode != 0
    assert text in done.stderr


def test_a_webhook_is_called_only_where_something_is_deployed(client: Client) -> None:
    project = make_project(client)
    call = f"/projects/{project['id']}/environments/call"
    body = {"urlPath": "/orders", "method": "get"}
    assert client("POST", call, body).status == 409, "a draft"
    client.ok("PUT", f"/projects/{project['id']}/deploy", {"files": [MAIN]})
    # This process is outside of the cluster, and does not know its names.
    away = client("POST", call, body)
    assert (away.status, away.json["code"]) == (502, "environment_unreachable")
    assert client("POST", call, {**body, "urlPath": "/a/../b"}).fields == ["urlPath"]
    assert client("POST", call, {**body, "headers": {"X": "a\nb"}}).fields == ["headers.X"]
    assert client("POST", call, {**body, "method": "CONNECT"}).fields == ["method"]
    assert client("POST", call, {**body, "body": "%"}).fields == ["body"]
    assert client("POST", f"{call}?project_env=staging", body).status == 404
    assert client("POST", f"{call}?env_id=01JD3Y9D3E5TQ0M3H7RS8XA1BG", body).status == 404
    client.ok("POST", f"/projects/{project['id']}/suspend?environment=production")
    assert client("POST", call, body).status == 409, "suspended"


def test_a_variable_comes_from_a_secret_whose_value_no_answer_has(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    secret = ("create", "secret", "generic", "of-env", "--type=tieline.dev/credential")
    kubectl(*secret, "--from-literal=password=s3cr3t-of-env", namespace=org.namespace)
    env = [
        {"name": "LEVEL", "value": "debug"},
        {"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "of-env", "key": "password"}}},
    ]
    client.ok("PUT", path(project), {"env": env}, status=204)
    assert runtime(kubectl, org, project) == {"env": env}
    assert config(client, project)["env"] == env
    assert "s3cr3t" not in str(client.ok("GET", f"/projects/{project['id']}"))
    # From a value to a Secret and back.
    swapped = [{**env[1], "name": "LEVEL"}, {"name": "PASSWORD", "value": "plain"}]
    client.ok("PUT", path(project), {"env": swapped}, status=204)
    assert runtime(kubectl, org, project) == {"env": swapped}


def test_answers_tell_variables_of_the_project_from_the_environments_own(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = make_project(client)
    client.ok("PUT", path(project), {"env": [{"name": "OWN", "value": "1"}]}, status=204)
    patch = json.dumps({"spec": {"runtime": {"env": [{"name": "ALL", "value": "2"}]}}})
    kubectl("patch", "project", project["id"].lower(), "--type=merge", "-p", patch, namespace=org.namespace)
    wanted = [{"name": "ALL", "value": "2", "inherited": True}, {"name": "OWN", "value": "1"}]
    assert eventually("known", lambda: config(client, project)["env"] == wanted)
