"""A schema that changes under existing values: told on each activation, while code goes on with the last valid ones.

The whole way: REST, the operator, the internal endpoint (of this API and of one that has just started), and a
project's own process.
"""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.processes import api_ports
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Client, Server
from tests.integration.api.objects import make_project, stored
from tests.integration.api.pods import account_token
from tests.integration.operator.running_operator import RunningOperator

pytestmark = pytest.mark.cluster

OLD = {"type": "object", "properties": {"region": {"type": "string"}}}
NEW = {"type": "object", "properties": {"region": {"type": "integer"}}}
CODE = """
from tieline import Context, Integration, Request

integration = Integration()

@integration.webhook("region", methods=["GET"])
async def region(ctx: Context, request: Request) -> dict:
    return {"region": ctx.variables.get("region")}
"""


@pytest.fixture(scope="module")
def place(
    kubectl: Kubectl, kubeconfig: Path, crds_installed: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Organisation]:
    """An organisation that an operator works on."""
    with an_organisation(kubectl) as made:
        operator = RunningOperator(
            kubeconfig=kubeconfig,
            namespaces=(made.namespace,),
            log=tmp_path_factory.mktemp("operator") / "operator.log",
        )
        with operator:
            yield made


@pytest.fixture(scope="module")
def caller(server: Server, place: Organisation, token_for: Callable[..., str]) -> Client:
    return Client(server.url, token_for(place.namespace, "admin", "tieline-admin"), place.id)


@contextlib.contextmanager
def running(folder: Path, api: str, token: str) -> Iterator[str]:
    """A project's process, as it runs in a pod; gives its URL."""
    pod = RunningRuntime(
        folder=folder, code=CODE, token=token, variables={"TIELINE_API_URL": api_ports.INTERNAL[api]}
    )
    with pod:
        yield pod.url


def region(url: str) -> Any:
    """What the code says that the variable is."""
    answer = http("GET", f"{url}/region")
    assert answer.status == 200, answer
    return answer.json["region"]


def until_told(kubectl: Kubectl, place: Organisation, activation: str, reason: str) -> None:
    """Returns once the activation's condition has this reason."""
    eventually(f"the activation {reason}", lambda: condition(kubectl, place, activation)["reason"] == reason)


def condition(kubectl: Kubectl, place: Organisation, activation: str) -> dict[str, Any]:
    status = stored(kubectl, place, "activation", activation).get("status", {})
    return next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})


def test_values_that_no_longer_fit_are_told_and_code_keeps_those_that_did(
    caller: Client, place: Organisation, kubectl: Kubectl, api_kubeconfig: Path, tmp_path: Path
) -> None:
    project = make_project(caller)
    schema, environment = f"/projects/{project['id']}/variables", project["environments"][0]["id"]
    caller.ok("PUT", schema, OLD)
    user = caller.ok("POST", "/users", {"externalId": "ann"}, status=201)
    activation = caller.ok(
        "POST",
        "/activations",
        {
            "userId": user["id"],
            "environmentId": environment,
            "connections": [],
            "dynamicVariables": {"region": "eu"},
        },
    )
    caller.ok("PATCH", f"/environments/{environment}/variables", {"region": "us"})
    one = f"/environments/{environment}/activations/{activation['id']}"
    until_told(kubectl, place, activation["id"], "Active")
    token = account_token(kubectl, place, project)
    pod = Client(caller.url, token, place.id)

    def code_has(client: Client) -> tuple[Any, Any]:
        static = client.at("/internal/v1/environment").json
        return static["variables"], client.at("/internal/v1/environment/users/ann").json["variables"]

    with running(tmp_path / "pod", caller.url, token) as url:
        assert region(url) == "us"
        etag = caller("GET", one).headers["ETag"]

        changed = caller("PUT", schema, NEW)
        assert changed.status == 200
        assert "2 activations have values that no longer fit" in changed.headers["Warning"]
        # Told at once in REST, and nothing is dropped.
        broken = caller("GET", one, If_None_Match=etag)
        assert broken.status == 200, "what it shows has changed, so its ETag has"
        assert broken.json["dynamicVariables"] == {"region": "eu"}
        assert [error["field"] for error in broken.json["variableErrors"]] == ["region"]
        assert broken.json["lastValidVariables"] == {"region": "eu"}
        assert caller.ok("GET", f"/environments/{environment}/activations")[0] == broken.json
        # As a condition, for those with kubectl.
        until_told(kubectl, place, activation["id"], "VariablesInvalid")
        found = stored(kubectl, place, "activation", activation["id"])
        assert found["spec"]["variables"] == {"region": "eu"}
        assert "region" in condition(kubectl, place, activation["id"])["message"]
        # What runs, what starts now, and what asks another API: all have the last valid values.
        assert code_has(pod) == ({"region": "us"}, {"region": "eu"})
        assert region(url) == "us"
        with Server(api_kubeconfig) as another:
            assert code_has(Client(another.url, token, place.id)) == ({"region": "us"}, {"region": "eu"})
            with running(tmp_path / "late", another.url, token) as late_url:
                assert region(late_url) == "us"

        # Values that fit the new schema heal it, and reach the code.
        caller.ok("PATCH", f"{one}/variables", {"region": 3})
        caller.ok("PATCH", f"/environments/{environment}/variables", {"region": 4})
        assert "variableErrors" not in caller.ok("GET", one)
        assert code_has(pod) == ({"region": 4}, {"region": 3})
        eventually("the new value", lambda: region(url) == 4)
        until_told(kubectl, place, activation["id"], "Active")


def test_values_that_never_fitted_do_not_reach_the_code(
    caller: Client, place: Organisation, kubectl: Kubectl
) -> None:
    """By kubectl, anything can be set; the API judges for itself and does not wait for the operator."""
    project = make_project(caller)
    caller.ok("PUT", f"/projects/{project['id']}/variables", OLD)
    environment = project["environments"][0]["id"]
    caller.ok("PATCH", f"/environments/{environment}/variables", {"region": "eu"})
    activations = json.loads(kubectl("get", "activations", "-o", "json", namespace=place.namespace).stdout)[
        "items"
    ]
    name = next(
        one["metadata"]["name"]
        for one in activations
        if one["spec"]["projectRef"]["name"] == project["id"].lower()
    )
    until_told(kubectl, place, name, "Active")
    pod = Client(caller.url, account_token(kubectl, place, project), place.id)
    seen: list[Any] = []
    patch = json.dumps({"spec": {"variables": {"region": 7}}})
    kubectl("patch", "activation", name, "--type=merge", "-p", patch, namespace=place.namespace)

    def told() -> bool:
        seen.append(pod.at("/internal/v1/environment").json["variables"])
        return condition(kubectl, place, name).get("reason") == "VariablesInvalid"

    eventually("the activation VariablesInvalid", told)
    assert all(variables == {"region": "eu"} for variables in seen)
