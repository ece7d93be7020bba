"""Who may do what: no token, no membership, no permission, another organisation."""

import json
import re
from collections.abc import Callable

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import ORIGIN, Client, Server
from tests.integration.api.objects import make_project, make_system, make_template
from tieline_api.handlers import OPERATIONS
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def viewer(server: Server, org: Organisation, token_for: Callable[..., str]) -> Client:
    return Client(server.url, token_for(org.namespace, "viewer", "tieline-viewer"), org.id)


@pytest.fixture(scope="module")
def editor(server: Server, org: Organisation, token_for: Callable[..., str]) -> Client:
    return Client(server.url, token_for(org.namespace, "editor", "tieline-editor"), org.id)


# Where the project names the organisation: tests/integration/api/resources/test_notifications.py.
IN_ORGANISATION = [one for one in OPERATIONS if "{organisation_id}" in one.path]


def _some_path(operation: Operation, organisation: str) -> str:
    path = operation.path.replace("{organisation_id}", organisation)
    return re.sub(r"\{\w+\}", lambda _: new_id(), path)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_without_a_token_every_operation_is_401(client: Client, operation: Operation) -> None:
    nobody = Client(client.url, None, client.organisation)
    answer = nobody.at(_some_path(operation, client.organisation), method=operation.method, body={})
    assert answer.status == 401
    assert operation.method == "HEAD" or answer.json["code"] == "unauthenticated"
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.parametrize("operation", IN_ORGANISATION, ids=lambda operation: operation.id)
def test_another_organisation_is_404_for_every_operation(
    client: Client, neighbour: Client, operation: Operation
) -> None:
    answer = neighbour.at(_some_path(operation, client.organisation), method=operation.method, body={})
    assert answer.status == 404
    missing = neighbour.at(_some_path(operation, unknown := new_id()), method=operation.method, body={})
    # Word for word what an organisation that does not exist answers.
    assert answer.raw.decode().replace(client.organisation, unknown) == missing.raw.decode()
    assert set(answer.headers) == set(missing.headers)


@pytest.mark.parametrize("form", [str.lower, str.swapcase, str.capitalize])
def test_the_case_of_an_id_tells_nobody_whether_there_is_an_organisation(
    client: Client, neighbour: Client, form: Callable[[str], str]
) -> None:
    unknown = new_id()
    answers = [neighbour.at(f"/api/v2/o/{form(one)}/projects") for one in (client.organisation, unknown)]
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].raw.decode().replace(client.organisation, unknown) == answers[1].raw.decode()


def test_of_two_namespaces_with_one_id_the_older_is_the_organisation(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    before = client.ok("GET", "/systems?first=200")["totalCount"]
    name = f"{org.namespace}-copy"
    copy = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"tieline.dev/organisation": org.id}},
    }
    theirs = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "System",
        "metadata": {"name": "copied", "namespace": name},
        "spec": {"name": "Copied", "domain": "shop.example", "templateBaseUrl": "https://shop.example"},
    }
    try:
        kubectl("apply", "-f", "-", stdin=json.dumps(copy))
        kubectl("apply", "-f", "-", stdin=json.dumps(theirs))
        for _ in range(3):
            make_system(client)
        page = client.ok("GET", "/systems?first=200")
        assert page["totalCount"] == before + 3
        assert "Copied" not in {item["name"] for item in page["items"]}
    finally:
        kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize(
    "operation", [one for one in IN_ORGANISATION if one.method != "GET"], ids=lambda operation: operation.id
)
def test_a_viewer_changes_nothing(viewer: Client, operation: Operation) -> None:
    answer = viewer.at(_some_path(operation, viewer.organisation), method=operation.method, body={})
    if operation.id.startswith(("listStoreKeys", "countStoreKeys")):  # they read by POST
        assert answer.status == 404
        return
    if (
        operation.id == "answerApproval"
    ):  # the approval says who may: tests/integration/api/resources/test_approvals.py
        assert answer.status == 422
        return
    assert answer.status == 403
    if operation.method != "HEAD":
        assert answer.json["code"] == "forbidden"
        assert "needs the permission to" in answer.json["message"]


def test_a_viewer_reads(viewer: Client, client: Client) -> None:
    project = make_project(client)
    assert viewer.ok("GET", f"/projects/{project['id']}")["id"] == project["id"]
    assert viewer("GET", "/systems").status == 200


def test_an_editor_deploys_and_does_not_change_systems(editor: Client, client: Client) -> None:
    project = make_project(editor)
    files = [{"filename": "main.py", "content": ""}]
    assert editor("PUT", f"/projects/{project['id']}/deploy", {"files": files}).status == 200
    system = make_system(client)
    assert editor("PUT", f"/systems/{system['id']}", {"name": "x"}).status == 403
    _, template = make_template(client, project=project)
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "c", "credentials": []},
    }
    assert editor("POST", "/connections", body).status == 201


def test_ids_of_another_organisation_are_not_found(client: Client, neighbour: Client) -> None:
    system = make_system(client)
    project, template = make_template(client)
    for path in (
        f"/systems/{system['id']}",
        f"/projects/{project['id']}",
        f"/projects/{project['id']}/files",
    ):
        assert neighbour("GET", path).status == 404
    theirs = make_project(neighbour)
    body = {"systemId": system["id"], "name": "stolen"}
    assert neighbour("POST", f"/projects/{theirs['id']}/connection-templates", body).fields == ["systemId"]
    connection = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "c", "credentials": []},
    }
    assert neighbour("POST", "/connections", connection).status == 404
    assert neighbour.ok("GET", "/systems?first=200")["totalCount"] == 0


@pytest.mark.parametrize("word", ["Bearer", "JWT", "bearer"])
def test_both_words_before_the_token_work(client: Client, word: str) -> None:
    answer = client("GET", "/projects", Authorization=f"{word} {client.token}")
    assert answer.status == 200


def test_a_wrong_token_is_401(client: Client) -> None:
    assert client("GET", "/projects", Authorization="Bearer nonsense").status == 401


def test_a_pods_own_token_opens_no_other_door(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    token = kubectl("create", "token", "admin", "--audience=tieline", namespace=org.namespace).stdout.strip()
    assert client("GET", "/projects", Authorization=f"Bearer {token}").status == 401


def test_a_permission_that_was_given_counts_soon(
    server: Server, org: Organisation, kubectl: Kubectl, token_for: Callable[..., str]
) -> None:
    newcomer = Client(server.url, token_for(org.namespace, "newcomer", None), org.id)
    assert newcomer("GET", "/projects").status == 404
    kubectl(
        "create",
        "rolebinding",
        "newcomer",
        "--clusterrole=tieline-viewer",
        f"--serviceaccount={org.namespace}:newcomer",
        namespace=org.namespace,
    )
    newcomer.until_known()


def test_organisation_ids_may_be_lower_case(client: Client) -> None:
    assert client.at(f"/api/v2/o/{client.organisation.lower()}/projects").status == 200


def test_browsers_of_listed_origins_may_call(client: Client) -> None:
    path = f"/api/v2/o/{client.organisation}/projects"
    asked = {"Access_Control_Request_Method": "PUT"}
    preflight = Client(client.url, None, "").at(path, method="OPTIONS", Origin=ORIGIN, **asked)
    assert preflight.status == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "Access-Control-Allow-Credentials" not in preflight.headers
    # Those of the Model Context Protocol's clients are among them.
    sent = {
        "Authorization",
        "Last-Event-ID",
        "Mcp-Protocol-Version",
        "Mcp-Session-Id",
        "Mcp-Method",
        "Mcp-Name",
    }
    assert sent <= set(preflight.headers["Access-Control-Allow-Headers"].split(", "))
    answer = client.at(path, Origin=ORIGIN)
    assert answer.headers["Access-Control-Allow-Origin"] == ORIGIN
    refused = client("GET", "/systems/x", Origin=ORIGIN)
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (404, ORIGIN)
    stranger = client.at(path, Origin="https://evil.example")
    assert "Access-Control-Allow-Origin" not in stranger.headers
    assert (
        Client(client.url, None, "").at(path, method="OPTIONS", Origin="https://evil.example", **asked).status
        == 405
    )


def test_no_error_tells_more_than_it_should(client: Client) -> None:
    answer = client("GET", "/nothing/here")
    assert (answer.status, answer.json["code"]) == (404, "not_found")
    assert "Traceback" not in json.dumps(answer.json)
