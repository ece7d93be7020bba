"""Which changes a pod is told that it serves with: those of which the API's lines told when they were made."""

import json
import logging
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.session.waiting import PATIENCE, eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.objects import activate, connect, make_template, stored
from tests.integration.api.pods import account_token, ask
from tieline_core.identity.ids import change_id
from tieline_core.identity.names import workload_name
from tieline_core.json_logging import JsonFormatter

pytestmark = pytest.mark.cluster

Line = dict[str, Any]


@pytest.fixture
def line(client: Client, caplog: pytest.LogCaptureFixture) -> Callable[..., Line]:
    """The API's line of a request that is made now."""

    def made(method: str, path: str, body: Any = None) -> Line:
        caplog.clear()
        with caplog.at_level(logging.INFO, logger="tieline_api.requests"):
            answer = client(method, path, body, X_Request_Id="followed")
        assert answer.status in {200, 201, 204}, answer
        found = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
        (one,) = [each for each in found if each.get("request_id") == "followed"]
        assert isinstance(one, dict)
        return one

    return made


def changes(client: Client, token: str, query: str = "") -> dict[str, str]:
    found: dict[str, str] = ask(client, token, query).json["changes"]
    return found


def test_a_pod_is_told_what_the_lines_of_its_configurations_changes_name(
    client: Client, kubectl: Kubectl, org: Organisation, line: Callable[..., Line]
) -> None:
    project, template = make_template(client)
    token = account_token(kubectl, org, project)
    unlinked = changes(client, token)
    assert {name.split("/")[0] for name in unlinked} <= {"connectiontemplates", "activations"}
    connection = connect(client, template, "s3cr3t")
    found = changes(client, token)
    secret = next(name for name in found if name.startswith("secrets/")).partition("/")[2]
    assert set(found) - set(unlinked) == {
        f"connections/{connection['id'].lower()}",
        f"systems/{template['id'].lower()}",
        f"secrets/{secret}",
    }
    for name, change in found.items():
        kind, _, of = name.partition("/")
        assert change == change_id(stored(kubectl, org, kind, of)), name

    renamed = line("PUT", f"/connections/{connection['id']}", {"name": "Renamed"})
    (change,) = renamed["changes"]
    assert changes(client, token)[f"connections/{connection['id'].lower()}"] == change
    assert change.split(".")[0] == connection["id"]
    rotated = line(
        "PUT",
        f"/connections/{connection['id']}",
        {"credentials": [{"id": "key", "credential": {"data": {"string": {"value": "n3w"}}}}]},
    )
    assert set(rotated["changes"]) < set(changes(client, token).values()), (
        "the connection's and its new Secret's"
    )
    assert len(rotated["changes"]) == 2

    gone = line("DELETE", f"/connections/{connection['id']}")
    assert gone["deleted"][f"connections/{org.namespace}/{connection['id'].lower()}"] == connection["id"]
    assert connection["id"] not in str(changes(client, token))


def test_a_pod_that_waits_is_told_of_a_change_that_leaves_its_configuration_the_same(
    client: Client, kubectl: Kubectl, org: Organisation, line: Callable[..., Line]
) -> None:
    """Code sees nothing of an auth scheme for which its connections have no credential."""
    project, template = make_template(client)
    connect(client, template, "s3cr3t")
    token = account_token(kubectl, org, project)
    before = ask(client, token)
    answers: list[Answer] = []
    etag = before.headers["ETag"]
    waiting = threading.Thread(
        target=lambda: answers.append(ask(client, token, "?wait=20", If_None_Match=etag))
    )
    waiting.start()
    other = {"type": "api-key", "apiKey": {"id": "other", "name": "X-Other", "in": "header"}}
    (change,) = line("PUT", f"/systems/{template['id']}/auth-scheme-configs/other", other)["changes"]
    waiting.join(PATIENCE)
    assert answers[0].json["changes"][f"systems/{template['id'].lower()}"] == change
    assert answers[0].json["connections"] == before.json["connections"]


def test_a_users_activation_comes_with_its_changes(
    client: Client, kubectl: Kubectl, org: Organisation, line: Callable[..., Line]
) -> None:
    project, template = make_template(client, dynamic=True)
    user, activation = activate(client, project, template, "s3cr3t-ann")
    token = account_token(kubectl, org, project)
    path = f"/users/{quote(user['externalId'], safe='')}"
    found = changes(client, token, path)
    kinds = ["activations", "connections", "connectiontemplates", "endusers", "secrets", "systems"]
    assert sorted(name.split("/")[0] for name in found) == sorted(kinds)
    environment = project["environments"][0]["id"]
    variables = f"/environments/{environment}/activations/{activation['id']}/variables"
    (change,) = line("PATCH", variables, {"region": "us"})["changes"]
    after = changes(client, token, path)
    assert {name for name in after if after[name] != found[name]} == {
        f"activations/{activation['id'].lower()}"
    }
    assert change in after.values()


def test_the_projects_change_is_told_to_pods_of_the_version_that_it_asks_for(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    """Without an operator here, its status is played."""
    project, _ = make_template(client)
    token = account_token(kubectl, org, project)
    name = project["id"].lower()
    environment = {"name": "production", "id": project["environments"][0]["id"], "status": "running"}
    environment |= dict.fromkeys(("createdAt", "updatedAt"), "2026-01-01T00:00:00Z")
    environment["workload"] = workload_name(name, "production")

    def deployed(text: str) -> str:
        """A version that the project asks for by now."""
        files = {"files": [{"filename": "main.py", "content": text}], "versionName": text}
        client.ok("PUT", f"/projects/{project['id']}/deploy", files)
        versions = client.ok("GET", f"/projects/{project['id']}/versions")["items"]
        return next(str(one["id"]) for one in versions if one["name"] == text)

    def seen_by_the_operator(generation: int, version: str) -> None:
        item = {**environment, "desiredVersion": version.lower()}
        patch = json.dumps({"status": {"observedGeneration": generation, "environments": [item]}})
        command = ("patch", "project", name, "--subresource=status", "--type=merge", "-p", patch)
        kubectl(*command, namespace=org.namespace)

    def generation() -> int:
        return int(stored(kubectl, org, "project", name)["metadata"]["generation"])

    def told(version: str) -> dict[str, str]:
        found = changes(client, token, f"?version={version.lower()}")
        return {kind: found[kind] for kind in found if kind.startswith("project")}

    one = deployed("one = 1")
    runs_one = {f"projectversions/{one.lower()}": f"{one}.1"}
    assert told(one) == runs_one, "the operator has not seen the deploy yet"
    first = generation()
    seen_by_the_operator(first, one)
    serves_one = {**runs_one, f"projects/{name}": f"{project['id']}.{first}"}
    eventually("told", lambda: told(one) == serves_one)

    two = deployed("two = 2")
    second = generation()
    assert second > first
    assert told(one) == serves_one, "what the operator has got to"
    seen_by_the_operator(second, two)
    eventually("told", lambda: told(two).get(f"projects/{name}") == f"{project['id']}.{second}")
    assert told(one) == runs_one, "a pod that is about to be replaced does not serve with the change"

    other, _ = make_template(client)
    assert told("") == {}, "a pod that does not say what it runs"
    assert told("nonsense") == {}
    of_another = changes(client, account_token(kubectl, org, other), f"?version={one.lower()}")
    assert one not in str(of_another), "a version of another project"
