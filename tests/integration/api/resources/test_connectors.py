"""Importing descriptions over REST, and reading what came of them."""

import gzip
import http.client
import json
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.inputs import api_descriptions
from tests.harness.session.waiting import PATIENCE, eventually
from tests.integration.api.conftest import Answer, Client
from tieline_core.identity.ids import new_id, project_connector_id

pytestmark = pytest.mark.cluster

BOUNDARY = "x-boundary-of-a-test"
METADATA = {"format": "openapi", "version": "1"}
SHOP: dict[str, Any] = {
    "openapi": "3.1.0",
    "info": {"title": "Shop", "version": "7"},
    "servers": [{"url": "https://{region}.shop.example", "variables": {"region": {"default": "eu"}}}],
    "paths": {
        f"/orders/{number}": {
            "get": {"operationId": f"get{number}", "responses": {"200": {"description": "ok"}}}
        }
        for number in range(45)
    },
    "webhooks": {
        "newOrder": {
            "post": {
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}}
                }
            }
        }
    },
    "components": {
        "schemas": {"Order": {"type": "object", "description": "An order"}},
        "securitySchemes": {"key": {"type": "apiKey", "name": "X-Key", "in": "header"}},
    },
}


def multipart(data: bytes, metadata: Any) -> bytes:
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="metadata"\r\n\r\n{json.dumps(metadata)}\r\n'
    )
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="api.json"\r\n\r\n'
    return head.encode() + file.encode() + data + f"\r\n--{BOUNDARY}--\r\n".encode()


def import_into(client: Client, connector: str, data: bytes, version: str = "1", **more: Any) -> Answer:
    return client.at(
        f"/api/connect/v1/o/{client.organisation}/connector/{connector}/http/import",
        method="POST",
        raw=multipart(data, {"format": "openapi", "version": version, **more}),
        Content_Type=f"multipart/form-data; boundary={BOUNDARY}",
    )


def shop(**changes: Any) -> bytes:
    return json.dumps({**SHOP, **changes}).encode()


@pytest.fixture(scope="module")
def connector(client: Client) -> str:
    identifier = new_id()
    answer = import_into(client, identifier, shop(), "one")
    assert answer.status == 201, answer.raw
    return identifier


def test_an_import_makes_the_connector_and_answers_with_everything(client: Client) -> None:
    identifier = new_id()
    answer = import_into(client, identifier, shop(), "2026-11")
    assert answer.status == 201, answer.raw
    result = answer.json
    assert result.keys() == {"connector", "definitions", "actions", "triggers", "messages"}
    found = result["connector"]
    assert (found["id"], found["name"], found["protocol"]) == (identifier, "Shop", "http")
    assert found["connectionVariables"] == [{"name": "region", "value": "eu"}]
    assert [item["schemeType"] for item in found["authSchemeConfigs"]] == ["api-key"]
    (version,) = found["versions"]
    assert (version["name"], version["isLatest"], version["isDefault"]) == ("2026-11", True, True)
    assert len(result["actions"]) == 45
    assert [item["name"] for item in result["triggers"]] == ["newOrder_post"]
    assert result["triggers"][0]["requestBody"]["definitions"][0]["id"] == result["definitions"][0]["id"]
    assert client.ok("GET", f"/connectors/{identifier}") == found


def test_a_second_version_is_the_latest_and_the_same_name_again_is_a_conflict(client: Client) -> None:
    identifier = new_id()
    first = import_into(client, identifier, shop(), "one").json
    second = import_into(client, identifier, shop(), "two").json
    names = {item["name"]: item["isLatest"] for item in second["connector"]["versions"]}
    assert names == {"two": True, "one": False}
    again = import_into(client, identifier, shop(), "two")
    assert (again.status, again.json["code"]) == (409, "conflict")
    assert [item["id"] for item in first["actions"]] == [item["id"] for item in second["actions"]]
    page = client.ok("GET", f"/connectors/{identifier}/versions")
    assert [item["name"] for item in page["items"]] == ["two", "one"]


def test_an_import_after_one_that_a_clock_ahead_has_dated_is_the_latest(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    identifier = new_id()
    import_into(client, identifier, shop(), "one")
    found = client.ok("GET", f"/connectors/{identifier}/versions")["items"][0]
    text = kubectl(
        "get", "connectorversion", found["id"].lower(), "-o", "json", namespace=org.namespace
    ).stdout
    one = json.loads(text)
    name = new_id().lower()
    metadata = {
        "name": name,
        "namespace": org.namespace,
        "ownerReferences": one["metadata"]["ownerReferences"],
    }
    published = (datetime.now(UTC) + timedelta(minutes=4)).isoformat()
    spec = {**one["spec"], "name": "ahead", "publishedAt": published}
    manifest = {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": metadata, "spec": spec}
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    path = f"/connectors/{identifier}/versions"
    eventually("the version ahead", lambda: len(client.ok("GET", path)["items"]) == 2)
    answer = import_into(client, identifier, shop(), "two")
    assert answer.status == 201, answer.raw
    assert [item["name"] for item in client.ok("GET", path)["items"]] == ["two", "ahead", "one"]
    assert client.ok("GET", f"{path}/latest")["name"] == "two"


def test_two_imports_of_one_version_at_once_make_one(client: Client) -> None:
    identifier = new_id()
    import_into(client, identifier, shop(), "zero")
    answers: list[int] = []

    def run() -> None:
        answers.append(import_into(client, identifier, shop(), "one").status)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 409, 409]


def test_first_imports_of_a_new_connector_at_once_both_make_their_version(client: Client) -> None:
    identifier = new_id()
    answers: list[int] = []

    def run(version: str) -> None:
        answers.append(import_into(client, identifier, shop(), version).status)

    threads = [threading.Thread(target=run, args=[name]) for name in ("one", "two", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers) == [201, 201, 409]
    names = {item["name"] for item in client.ok("GET", f"/connectors/{identifier}/versions")["items"]}
    assert names == {"one", "two"}


@pytest.mark.parametrize("name", ["latest", "default", "Latest"])
def test_reserved_version_names_are_422(client: Client, name: str) -> None:
    answer = import_into(client, new_id(), shop(), name)
    assert (answer.status, answer.fields) == (422, ["version"])


@pytest.mark.parametrize("name", ["actions", "triggers", "definitions"])
def test_lists_come_in_pages_that_hold_every_item_once(client: Client, connector: str, name: str) -> None:
    whole = import_into(client, new_id(), shop()).json[name]
    found: list[Any] = []
    path = f"/connectors/{connector}/versions/latest/{name}"
    page = client.ok("GET", f"{path}?first=20")
    while True:
        assert page["totalCount"] == len(whole)
        found += page["items"]
        if "next" not in page:
            break
        page = client.ok("GET", f"{path}?first=20&after={page['next']}")
    assert found == whole
    if "prev" in page:
        before = client.ok("GET", f"{path}?first=20&before={page['prev']}")
        assert before["items"] == whole[20:40]


def test_a_version_is_found_by_id_name_latest_and_default(client: Client, connector: str) -> None:
    (version,) = client.ok("GET", f"/connectors/{connector}")["versions"]
    for wanted in ("latest", "default", "one", version["id"]):
        assert client.ok("GET", f"/connectors/{connector}/versions/{wanted}")["id"] == version["id"]
    assert client("GET", f"/connectors/{connector}/versions/none").status == 404


def test_a_definition_comes_with_its_schema(client: Client, connector: str) -> None:
    path = f"/connectors/{connector}/versions/default/definitions"
    (item,) = client.ok("GET", path)["items"]
    found = client.ok("GET", f"{path}/{item['id']}")
    assert found == {**item, "schema": SHOP["components"]["schemas"]["Order"]}
    assert client("GET", f"{path}/{new_id()}").status == 404


def test_a_cursor_of_another_version_is_400(client: Client, connector: str) -> None:
    other = new_id()
    import_into(client, other, shop())
    page = client.ok("GET", f"/connectors/{other}/versions/latest/actions?first=1")
    answer = client("GET", f"/connectors/{connector}/versions/latest/actions?after={page['next']}")
    assert answer.status == 400


@pytest.mark.parametrize(
    ("data", "status"),
    [(b"", 400), (b"[" * 100_000, 400), (b'{"openapi": "4.0"}', 400), (b"\xff\xfe\xfd", 400)],
    ids=["empty", "brackets", "unknown version", "no text"],
)
def test_what_cannot_be_read_is_400_with_messages_and_makes_no_connector(
    client: Client, data: bytes, status: int
) -> None:
    identifier = new_id()
    answer = import_into(client, identifier, data)
    assert (answer.status, answer.json["code"]) == (status, "malformed")
    assert answer.json["messages"][0]["severity"] == "error"
    assert client("GET", f"/connectors/{identifier}").status == 404


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        (b"{}", "application/json", 415),
        (b"", f"multipart/form-data; boundary={BOUNDARY}", 400),
        (b"nothing", "multipart/form-data", 400),
        (f"--{BOUNDARY}--\r\n".encode(), f"multipart/form-data; boundary={BOUNDARY}", 422),
        (
            multipart(b"{}", {"format": "wsdl", "version": "1"}),
            f"multipart/form-data; boundary={BOUNDARY}",
            422,
        ),
        (multipart(b"{}", []), f"multipart/form-data; boundary={BOUNDARY}", 422),
        (multipart(b"{}", {})[:-40], f"multipart/form-data; boundary={BOUNDARY}", 400),
    ],
    ids=["json", "empty", "no boundary", "no parts", "another format", "metadata is a list", "cut off"],
)
def test_bodies_that_are_no_upload_are_refused(
    client: Client, body: bytes, content_type: str, status: int
) -> None:
    path = f"/api/connect/v1/o/{client.organisation}/connector/{new_id()}/http/import"
    answer = client.at(path, method="POST", raw=body, Content_Type=content_type)
    assert answer.status == status, answer.raw


def endless(start: bytes, chunk: bytes) -> Iterator[bytes]:
    yield start
    for _ in range(100_000):
        yield chunk


@pytest.mark.parametrize(
    "body",
    [
        lambda: endless(multipart(b"", METADATA)[:-30], b"x" * 262144),
        lambda: endless(b"", b"preamble\r\n" * 20_000),
        lambda: endless(f"--{BOUNDARY}\r\n".encode(), b"X-Header: y\r\n" * 20_000),
        lambda: endless(b"", multipart(b"{}", METADATA)[:-4]),
    ],
    ids=["a file", "a preamble", "a part's headers", "parts"],
)
def test_a_body_without_an_end_is_refused_soon(client: Client, body: Callable[[], Iterator[bytes]]) -> None:
    address = urlsplit(client.url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=60)
    path = f"/api/connect/v1/o/{client.organisation}/connector/{new_id()}/http/import"
    headers = {
        "Authorization": f"Bearer {client.token}",
        "Content-Type": f"multipart/form-data; boundary={BOUNDARY}",
    }
    began = time.monotonic()
    try:
        connection.request("POST", path, body=body(), headers=headers, encode_chunked=True)
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):
        status = 413  # the server answered and closed while we were still sending
    finally:
        connection.close()
    assert status in (400, 413)
    assert time.monotonic() - began < PATIENCE


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_body_counts_as_what_it_becomes(client: Client, encoding: str) -> None:
    bomb = multipart(b" " * (200 * 1024 * 1024), METADATA)
    body = gzip.compress(bomb, 1) if encoding == "gzip" else zlib.compress(bomb, 1)
    assert len(body) < 1024 * 1024
    path = f"/api/connect/v1/o/{client.organisation}/connector/{new_id()}/http/import"
    content_type = f"multipart/form-data; boundary={BOUNDARY}"
    answer = client.at(path, method="POST", raw=body, Content_Type=content_type, Content_Encoding=encoding)
    assert answer.status in (400, 413, 415), answer.raw


def test_results_are_immutable_config_maps_that_go_with_the_version(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    identifier = new_id()
    import_into(client, identifier, shop())
    text = kubectl("get", "connectorversions", "-o", "json", namespace=org.namespace).stdout
    (version,) = [
        item
        for item in json.loads(text)["items"]
        if item["spec"]["connectorRef"]["name"] == identifier.lower()
    ]
    for name in version["spec"]["configMaps"]:
        found = json.loads(kubectl("get", "configmap", name, "-o", "json", namespace=org.namespace).stdout)
        assert found["immutable"] is True
        assert found["metadata"]["ownerReferences"][0]["uid"] == version["metadata"]["uid"]


def test_githubs_description_imports_over_rest(client: Client) -> None:
    answer = import_into(client, new_id(), api_descriptions.github())
    assert answer.status == 201, answer.raw[:500]
    assert len(answer.json["actions"]) == 1223


def test_a_system_is_made_from_a_version(client: Client) -> None:
    identifier = new_id()
    implicit = {"authorizationUrl": "https://a.example/authorize", "scopes": {}}
    schemes = {
        **SHOP["components"]["securitySchemes"],
        "login": {"type": "oauth2", "flows": {"implicit": implicit}},
    }
    import_into(client, identifier, shop(components={"securitySchemes": schemes}), "one")
    path = f"/connectors/{identifier}/versions/latest/systems"
    refused = client("POST", path)
    assert (refused.status, refused.fields) == (422, ["domain"])
    answer = client("POST", path, {"domain": "shop.example"})
    assert answer.status == 201, answer.raw
    made = answer.json
    assert (made["name"], made["templateBaseUrl"]) == ("Shop", "https://{region}.shop.example")
    assert [scheme["apiKey"]["id"] for scheme in made["authSchemeConfigs"]] == ["key"]
    assert ["login" in message["text"] for message in made.pop("messages")] == [True]
    assert made["connectorRef"] == {"id": identifier, "version": "one"}
    assert client.ok("GET", f"/systems/{made['id']}") == made


def test_a_projects_connector_is_shown_and_changes_with_the_project_only(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project = client.ok("POST", "/projects", {"name": "Orders"})
    identifier = project_connector_id(project["id"])
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Connector",
        "metadata": {
            "name": identifier.lower(),
            "namespace": org.namespace,
            "labels": {"tieline.dev/id": identifier},
        },
        "spec": {"name": "Orders", "projectRef": {"name": project["id"].lower()}},
    }
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    shown = _until_known(client, f"/connectors/{identifier}")
    assert shown["projectId"] == project["id"]
    assert import_into(client, identifier, shop()).status == 409
    assert client("DELETE", f"/connectors/{identifier}").status == 409


def test_a_system_that_follows_a_connector_is_shown_with_what_it_gives(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    identifier = new_id()
    metadata = {
        "name": identifier.lower(),
        "namespace": org.namespace,
        "labels": {"tieline.dev/id": identifier},
    }
    scheme = {"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}
    given = {"version": "one", "baseUrl": "https://shop.example", "domain": "shop.example"}
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "System",
        "metadata": metadata,
        "spec": {"name": "Shop", "connectorRef": {"name": "shop"}},
    }
    kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    assert _until_known(client, f"/systems/{identifier}")["templateBaseUrl"] == ""
    status = {"status": {"fromConnector": {**given, "authSchemeConfigs": [scheme]}}}
    patch = (
        "patch",
        "system",
        identifier.lower(),
        "--subresource=status",
        "--type=merge",
        "-p",
        json.dumps(status),
    )
    kubectl(*patch, namespace=org.namespace)
    eventually(
        "what the connector gives", lambda: client.ok("GET", f"/systems/{identifier}")["authSchemeConfigs"]
    )
    found = client.ok("GET", f"/systems/{identifier}")
    assert (found["domain"], found["templateBaseUrl"]) == ("shop.example", "https://shop.example")
    assert found["authSchemeConfigs"][0]["apiKey"]["name"] == "X-Key"
    refused = client("DELETE", f"/systems/{identifier}/auth-scheme-configs/key")
    assert (refused.status, refused.json["code"]) == (409, "conflict")
    changed = client.ok(
        "PUT", f"/systems/{identifier}", {"templateBaseUrl": "https://mine.example"}, status=201
    )
    assert changed == {**found, "templateBaseUrl": "https://mine.example"}


def _until_known(client: Client, path: str) -> Any:
    """What was applied by kubectl, once the API has heard of it."""
    return eventually(f"{path} known", lambda: client.ok("GET", path))


def test_definitions_come_with_their_schemas_when_asked_for(client: Client, connector: str) -> None:
    path = f"/connectors/{connector}/versions/latest/definitions"
    (bare,) = client.ok("GET", path)["items"]
    (whole,) = client.ok("GET", f"{path}?schemas=true")["items"]
    assert "schema" not in bare
    assert whole == {**bare, "schema": {"type": "object", "description": "An order"}}


def catalogue(title: str, count: int, **more: Any) -> bytes:
    operations = {
        f"/{title.lower()}/{number}": {
            "get": {"operationId": f"find{title}{number}", "summary": f"Finds\n{title}", "responses": {}}
        }
        for number in range(count)
    }
    return shop(info={"title": title, "version": "1"}, paths=operations, webhooks={}, **more)


SCHEMA = b"""
"An order" type Order { id: ID! reference: String! }
type Query { "Finds parcels" parcels(first: Int!): [Order!]! }
type Mutation { sendParcel(id: ID!): Order }
"""


def test_a_graphql_schema_is_imported_and_its_operations_are_found(neighbour: Client) -> None:
    identifier = new_id()
    answer = import_into(neighbour, identifier, SCHEMA, "one", format="graphql", name="Parcels")
    assert answer.status == 201, answer.raw
    assert answer.json["connector"]["name"] == "Parcels"
    parcels, send = neighbour.ok("GET", f"/connectors/{identifier}/versions/latest/actions")["items"]
    assert (parcels["method"], parcels["path"]) == ("POST", "")
    assert parcels["graphql"] == {
        "kind": "query",
        "document": "query parcels($first: Int!) {\n  parcels(first: $first) {\n    id\n    reference\n  }\n}",
        "arguments": [{"name": "first", "type": "Int!", "required": True, "description": ""}],
        "answer": "[Order!]!",
    }
    (found,) = neighbour.ok("GET", "/connectors/operations?search=query%20parcels")["items"]
    assert (found["id"], found["graphql"], found["path"]) == (parcels["id"], "query", "")
    (found,) = neighbour.ok("GET", "/connectors/operations?search=sendparcel")["items"]
    assert (found["id"], found["graphql"]) == (send["id"], "mutation")
    refused = import_into(neighbour, new_id(), b"type A { a: Int }", "one", format="graphql")
    assert (refused.status, refused.json["code"]) == (400, "malformed")
    assert "no type Query" in refused.json["messages"][0]["text"]
    assert neighbour("DELETE", f"/connectors/{identifier}").status == 204


def test_operations_of_all_connectors_are_searched(neighbour: Client) -> None:
    first, second = new_id(), new_id()
    for identifier, title in ((first, "Invoices"), (second, "Refunds")):
        assert import_into(neighbour, identifier, catalogue(title, 3), "one").status == 201
    found = neighbour.ok("GET", "/connectors/operations")
    names = [f"find{title}{number}" for title in ("Invoices", "Refunds") for number in range(3)]
    assert (found["totalCount"], [item["name"] for item in found["items"]]) == (6, names)
    (item,) = neighbour.ok("GET", "/connectors/operations?search=REFUNDS%202%20finds")["items"]
    (action,) = [
        one
        for one in neighbour.ok("GET", f"/connectors/{second}/versions/latest/actions")["items"]
        if one["name"] == "findRefunds2"
    ]
    version = neighbour.ok("GET", f"/connectors/{second}/versions/latest")
    assert item == {
        "id": action["id"],
        "name": "findRefunds2",
        "method": "GET",
        "path": "/refunds/2",
        "summary": "Finds\nRefunds",
        "connectorId": second,
        "connectorName": "Refunds",
        "versionId": version["id"],
        "version": "one",
    }
    of_one = neighbour.ok("GET", f"/connectors/operations?search=find&connector_id={first}")
    assert of_one["totalCount"] == 3
    assert neighbour.ok("GET", "/connectors/operations?search=nothing")["items"] == []
    pages, after = [], ""
    while True:
        page = neighbour.ok("GET", f"/connectors/operations?first=4{after}")
        pages.append([item["name"] for item in page["items"]])
        if "next" not in page:
            break
        after = f"&after={page['next']}"
    assert pages == [names[:4], names[4:]]
    back = neighbour.ok("GET", f"/connectors/operations?first=4&before={page['prev']}")
    assert [item["name"] for item in back["items"]] == names[:4]
    assert neighbour("GET", "/connectors/operations?after=nonsense").status == 400
    # The newest version is the default one, from the next search on.
    assert import_into(neighbour, second, catalogue("Credits", 1), "two").status == 201
    assert neighbour.ok("GET", "/connectors/operations?search=credits")["totalCount"] == 1
    assert neighbour.ok("GET", "/connectors/operations?search=refunds")["totalCount"] == 0
    assert neighbour("DELETE", f"/connectors/{first}").status == 204
    assert neighbour.ok("GET", "/connectors/operations?search=invoices")["totalCount"] == 0


def test_the_catalogue_is_searched_also_where_a_result_is_gone(
    neighbour: Client, other_org: Organisation, kubectl: Kubectl
) -> None:
    identifier = new_id()
    assert import_into(neighbour, identifier, catalogue("Broken", 2), "one").status == 201
    listed = kubectl("get", "connectorversions", "-o", "json", namespace=other_org.namespace).stdout
    (version,) = [
        item
        for item in json.loads(listed)["items"]
        if item["spec"]["connectorRef"]["name"] == identifier.lower()
    ]
    kubectl("delete", "configmap", *version["spec"]["configMaps"], namespace=other_org.namespace)
    assert neighbour.ok("GET", "/connectors/operations?search=broken")["totalCount"] == 0
