"""The links of the OpenAPI document: followed with the document's own examples, each leads where it says."""

import re
from typing import Any

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.engine_objects import make_state_streams
from tests.integration.api.objects import make_channel, make_project, make_system, make_template
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
MAKERS = [
    "createSystem",
    "createProject",
    "createConnectionTemplate",
    "createConnection",
    "createUser",
    "activateUser",
]
ALREADY = {
    # What the example says is so already, or needs what the example does not make.
    "initialiseOAuth2": {409, 422},
    "initialiseOAuth1": {409, 422},
    "createConnectionTemplate": {409},
    "addSystemToEnvironment": {409},
    "activateUser": {422},
    "linkConnection": {201, 422},
    "unlinkConnection": {404, 409},
    "removeSystemFromEnvironment": {404},
    "removeSystemFromEnvironmentByPut": {404},
    "createConnection": {409},
    "publishEvent": {409},
    "publishEvents": {409},
    "cloneEnvironment": {409},
    "createEnvironment": {409},
    "syncEnvironments": {404, 409},
    "deleteEnvironment": {404, 409},
    "deleteEnvironmentByPost": {409},
    "callEnvironment": {409},
    "createSystemFromConnector": {404},
}


class Document:
    """The document that the API serves, by operation."""

    def __init__(self, client: Client) -> None:
        self.operations: dict[str, tuple[str, str, Json]] = {
            operation["operationId"]: (method.upper(), path, operation)
            for path, methods in client.at("/openapi.json").json["paths"].items()
            for method, operation in methods.items()
        }

    def good(self, identifier: str) -> tuple[int, Json]:
        """The good answer of an operation."""
        responses = self.operations[identifier][2]["responses"]
        return next((int(status), one) for status, one in responses.items() if status.startswith("2"))

    def links(self, identifier: str) -> dict[str, Json]:
        """Those that lead on; deletions last, those of parts before those of the whole."""
        found = self.good(identifier)[1].get("links", {})

        def last(identifier: str) -> tuple[bool, bool, int]:
            method, path, _ = self.operations[identifier]
            # Once there are two environments, operations ask which one is meant.
            return method == "DELETE", identifier in ("createEnvironment", "cloneEnvironment"), -len(path)

        return {identifier: found[identifier] for identifier in sorted(found, key=last)}

    def example(self, identifier: str) -> Any:
        content = self.operations[identifier][2].get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("example")

    def needs_query(self, identifier: str) -> bool:
        return any(
            one["in"] == "query" and one["required"] for one in self.operations[identifier][2]["parameters"]
        )


def _value(expression: str, *, path: dict[str, str], body: Any) -> str:
    """A runtime expression of the two forms that the document has."""
    if name := re.fullmatch(r"\$request\.path\.(\w+)", expression):
        return path[name[1]]
    pointer = re.fullmatch(r"\$response\.body#(/.+)", expression)
    assert pointer, expression
    for part in pointer[1].strip("/").split("/"):
        body = body[int(part) if part.isdigit() else part]
    return str(body)


def _ask(client: Client, document: Document, identifier: str, path: dict[str, str], body: Any) -> Answer:
    method, template, _ = document.operations[identifier]
    place = re.sub(r"\{(\w+)\}", lambda found: path[found[1]], template)
    return client.at(place, method=method, body=body)


@pytest.mark.parametrize("maker", MAKERS)
def test_what_was_made_can_be_read_changed_and_deleted_by_its_links(
    client: Client, engine: NatsServer, maker: str
) -> None:
    make_state_streams(engine, client.organisation)
    document = Document(client)
    project, template = make_template(client, name="static")
    environment = project["environments"][0]["id"]
    there = {
        "systemId": make_system(client)["id"],
        "environmentId": environment,
        "connectionTemplateId": template["connectionTemplateId"],
        "environment_id": environment,
        "channel_id": make_channel(client)["id"],
        "userId": client.ok("POST", "/users", {"externalId": f"linked-{new_id()}"}, status=201)["id"],
        "connections": [],
    }  # fmt: skip

    def body_for(identifier: str, linked: Json) -> Any:
        example = document.example(identifier)
        if example is None:
            return None
        if identifier == "createConnection":
            example = {**example, "connection": {"name": f"Linked {new_id()}", "credentials": []}}
        return {name: linked.get(name, there.get(name, value)) for name, value in example.items()} | linked

    connection = client.ok("POST", "/connections", body_for("createConnection", {}), status=201)
    path = {
        "organisation_id": client.organisation,
        "project_id": project["id"],
        "connection_id": connection["id"],
    }

    def make() -> Any:
        there["externalId"] = f"made-{new_id()}"
        name = {"name": f"Made {new_id()}"} if maker == "createConnectionTemplate" else {}
        answer = _ask(client, document, maker, path, body_for(maker, name))
        assert answer.status == document.good(maker)[0], answer.raw
        return answer.json

    made, followed = make(), []
    for target, link in document.links(maker).items():
        if document.needs_query(target):
            continue
        # What takes the id into its body makes the thing one in use: it gets one of its own.
        source = make() if "requestBody" in link else made
        found = {name: _value(one, path=path, body=source) for name, one in link["parameters"].items()}
        linked = {
            name: _value(one, path=path, body=source) for name, one in link.get("requestBody", {}).items()
        }
        answer = _ask(client, document, target, {**path, **found}, body_for(target, linked))
        good = {document.good(target)[0]} | ALREADY.get(target, set())
        assert answer.status in good, f"{maker} -> {target}: {answer.status} {answer.raw.decode()}"
        followed.append(target)
    kind = {"activateUser": "Activation"}.get(maker, maker.removeprefix("create"))
    assert any(one in followed for one in (f"delete{kind}", "deleteActivation"))


def test_what_was_deleted_has_no_links(client: Client) -> None:
    document = Document(client)
    for identifier, (method, _, _) in document.operations.items():
        if method == "DELETE":
            assert document.links(identifier) == {}, identifier


def test_a_project_that_was_made_by_rest_leads_to_its_environment(client: Client) -> None:
    document = Document(client)
    project = make_project(client)
    link = document.links("createProject")["listActivations"]
    identifier = _value(link["parameters"]["environment_id"], path={}, body=project)
    assert identifier == project["environments"][0]["id"]
