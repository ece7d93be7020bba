"""Connections, their credentials and their links, by REST on a real API server."""

import base64
import json
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import (
    API_KEY,
    bring_connection,
    make_project,
    make_system,
    make_template,
    stored,
    wait_for,
)

pytestmark = pytest.mark.cluster

BASIC = {"type": "basic-auth", "basicAuth": {"id": "basic"}}


def _credential(value: str = "s3cr3t", **more: Any) -> dict[str, Any]:
    return {
        "id": "key",
        "authSchemeConfig": API_KEY,
        "credential": {"type": "string", "data": {"string": {"value": value}}},
        **more,
    }


def _create(client: Client, template: dict[str, Any], **changes: Any) -> dict[str, Any]:
    connection = {"name": f"C {template['connectionTemplateId']}", "credentials": [_credential()], **changes}
    body = {"connectionTemplateId": template["connectionTemplateId"], "connection": connection}
    created: dict[str, Any] = client.ok("POST", "/connections", body, status=201)
    return created


def test_a_connection_is_created_for_a_template_and_linked_with_it(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, template = make_template(client)
    created = _create(client, template, baseUrl="https://eu.shop.example")
    assert created["systemId"] == template["id"]
    assert created["connectionTemplateId"] == template["connectionTemplateId"]
    assert created["baseUrl"] == "https://eu.shop.example"
    credential = created["credentials"][0]
    assert credential["authSchemeConfig"]["apiKey"]["name"] == "X-API-Key"
    assert credential["credential"]["type"] == "string"
    assert credential["credential"]["organisationId"] == org.id
    assert "data" not in credential["credential"]
    assert credential["credential"]["errors"] == [], "it is checked at once"
    assert client.ok("GET", f"/connections/{created['id']}")["id"] == created["id"]
    environment = project["environments"][0]["id"]
    page = client.ok("GET", f"/projects/{project['id']}/connections?env_id={environment}")
    assert [item["id"] for item in page["items"]] == [created["id"]]
    # The scheme is the system's own, so the connection refers to it; the value is in a Secret that it owns.
    resource = stored(kubectl, org, "connection", created["id"])
    item = resource["spec"]["credentials"][0]
    assert item["authSchemeConfigId"] == "key"
    secret = stored(kubectl, org, "secret", item["secretRef"]["name"])
    assert secret["type"] == "tieline.dev/credential"
    assert base64.b64decode(secret["data"]["value"]) == b"s3cr3t"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == resource["metadata"]["uid"]


def test_a_second_connection_does_not_take_over_the_link(client: Client) -> None:
    project, template = make_template(client)
    first = _create(client, template)
    second = _create(client, template, name="Second")
    page = client.ok("GET", f"/projects/{project['id']}/connections")
    assert [item["id"] for item in page["items"]] == [first["id"]]
    body = {"connectionTemplateId": template["connectionTemplateId"]}
    assert client.ok("POST", f"/connections/{second['id']}/link", body, status=201) == {}
    page = client.ok("GET", f"/projects/{project['id']}/connections")
    assert [item["id"] for item in page["items"]] == [second["id"]]
    assert [item["connectionId"] for item in _templates(client, project)] == [second["id"]]
    assert client("DELETE", f"/connections/{first['id']}/link", body).status == 404
    assert client("DELETE", f"/connections/{second['id']}/link", body).status == 204
    assert client.ok("GET", f"/projects/{project['id']}/connections")["totalCount"] == 0
    assert ["connectionId" in item for item in _templates(client, project)] == [False]


def _templates(client: Client, project: dict[str, Any]) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.ok("GET", f"/projects/{project['id']}/connection-templates")["items"]
    return items


def test_only_static_templates_of_the_same_system_are_linked(client: Client) -> None:
    project, template = make_template(client)
    connection = _create(client, template)
    _, dynamic = make_template(client, project=project, system=template["id"], name="each", dynamic=True)
    _, foreign = make_template(client, project=project, name="foreign")
    for other in (dynamic, foreign):
        body = {"connectionTemplateId": other["connectionTemplateId"]}
        answer = client("POST", f"/connections/{connection['id']}/link", body)
        assert (answer.status, answer.fields) == (422, ["connectionTemplateId"])


def test_values_that_a_put_leaves_out_stay(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    _, template = make_template(client, schemes=[API_KEY, BASIC])
    created = _create(
        client,
        template,
        credentials=[
            _credential(),
            {
                "id": "staff",
                "authSchemeConfig": BASIC,
                "credential": {
                    "type": "basic-auth",
                    "data": {"basicAuth": {"username": "ann", "password": "pw"}},
                },
            },
        ],
    )
    path = f"/connections/{created['id']}"
    before = stored(kubectl, org, "connection", created["id"])["spec"]
    # What a client read, it may send back.
    assert client.ok("PUT", path, client.ok("GET", path))["credentials"] == created["credentials"]
    assert stored(kubectl, org, "connection", created["id"])["spec"] == before
    # One value of two changes; the order of the list changes with it.
    swapped = [
        {"id": "staff", "credential": {"data": {"basicAuth": {"username": "bob"}}}},
        {"id": "key"},
    ]
    client.ok("PUT", path, {"credentials": swapped})
    items = stored(kubectl, org, "connection", created["id"])["spec"]["credentials"]
    assert [item["id"] for item in items] == ["staff", "key"]
    secret = stored(kubectl, org, "secret", items[0]["secretRef"]["name"])
    assert {key: base64.b64decode(value) for key, value in secret["data"].items()} == {
        "username": b"bob",
        "password": b"pw",
    }
    # A credential that is not listed goes, with its Secret.
    client.ok("PUT", path, {"credentials": [{"id": "key"}]})
    kept = created["credentials"][0]["id"]
    assert [item["id"] for item in client.ok("GET", path)["credentials"]] == [kept]
    assert client.ok("PUT", path, {"credentials": [{"id": kept}]})["credentials"][0]["id"] == kept
    assert [
        item["id"] for item in stored(kubectl, org, "connection", created["id"])["spec"]["credentials"]
    ] == ["key"]
    gone = kubectl("get", "secret", items[0]["secretRef"]["name"], namespace=org.namespace, check=False)
    assert gone.returncode == 1


def test_name_and_base_url_are_updated_and_the_base_url_is_taken_back(client: Client) -> None:
    _, template = make_template(client)
    path = f"/connections/{_create(client, template)['id']}"
    updated = client.ok("PUT", path, {"name": "New", "baseUrl": "https://x.example"})
    assert (updated["name"], updated["baseUrl"]) == ("New", "https://x.example")
    assert client.ok("PUT", path, {})["baseUrl"] == "https://x.example"
    assert "baseUrl" not in client.ok("PUT", path, {"baseUrl": ""})
    assert client("PUT", path, {"baseUrl": "ftp://x"}).fields == ["baseUrl"]


def test_variables_of_a_connection_are_set_by_rest(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    _, template = make_template(client)
    region, shop = {"name": "region", "value": "eu"}, {"name": "shop", "value": "a"}
    created = _create(client, template, variables=[region, shop])
    assert created["variables"] == [region, shop]
    path = f"/connections/{created['id']}"
    assert client.ok("PUT", path, {"name": "New"})["variables"] == [region, shop]
    assert client.ok("PUT", path, {"variables": [shop]})["variables"] == [shop]
    found = kubectl("get", "connection", created["id"].lower(), "-o", "json", namespace=org.namespace).stdout
    assert json.loads(found)["spec"]["variables"] == {"shop": "a"}
    assert client.ok("PUT", path, {"variables": []})["variables"] == []


def test_a_scheme_of_the_connections_own_is_kept_in_it(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    _, template = make_template(client)
    own = {"type": "api-key", "apiKey": {"id": "own", "name": "token", "in": "query"}}
    created = _create(client, template, credentials=[_credential(authSchemeConfig=own)])
    item = stored(kubectl, org, "connection", created["id"])["spec"]["credentials"][0]
    assert item["authSchemeConfig"] == {
        "id": "own",
        "type": "api-key",
        "apiKey": {"name": "token", "in": "query"},
    }
    assert created["credentials"][0]["authSchemeConfig"]["apiKey"]["in"] == "query"


@pytest.mark.parametrize(
    ("credential", "field"),
    [
        ({"type": "string", "data": {"basicAuth": {"username": "a"}}}, "data"),
        ({"type": "string", "data": {"string": {"value": "a"}, "binary": {"valueBase64": "YQ=="}}}, "data"),
        ({"type": "string"}, "data"),
        ({"type": "string", "data": {"string": {}}}, "data"),
        ({}, "type"),
        ({"type": "nonsense"}, "type"),
        ({"type": "binary", "data": {"binary": {"valueBase64": "???"}}}, "data.binary.valueBase64"),
    ],
)
def test_values_that_do_not_fit_the_type_are_refused_by_path(
    client: Client, credential: dict[str, Any], field: str
) -> None:
    _, template = make_template(client)
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "C", "credentials": [{"authSchemeConfig": API_KEY, "credential": credential}]},
    }
    answer = client("POST", "/connections", body)
    assert (answer.status, answer.fields) == (422, [f"connection.credentials[0].credential.{field}"])


def test_a_binary_value_is_stored_as_its_bytes(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    _, template = make_template(client)
    value = base64.b64encode(bytes(range(256))).decode()
    credential = {"data": {"binary": {"valueBase64": value}}}
    created = _create(client, template, credentials=[{"authSchemeConfig": API_KEY, "credential": credential}])
    item = stored(kubectl, org, "connection", created["id"])["spec"]["credentials"][0]
    assert item["type"] == "binary"
    assert stored(kubectl, org, "secret", item["secretRef"]["name"])["data"] == {"value": value}


def test_connections_are_listed_by_system(client: Client) -> None:
    _, template = make_template(client)
    created = _create(client, template)
    page = client.ok("GET", f"/connections?system_id={template['id']}&first=1")
    assert [item["id"] for item in page["items"]] == [created["id"]]
    assert client.ok("GET", "/connections?system_id=nonsense")["totalCount"] == 0
    assert client.ok("GET", "/connections?end_user_id=nobody")["totalCount"] == 0


def test_a_name_is_unique_for_its_system(client: Client) -> None:
    _, template = make_template(client)
    first = _create(client, template, name="Same")
    body = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "Same", "credentials": []},
    }
    assert client("POST", "/connections", body).status == 409
    assert client.ok("PUT", f"/connections/{first['id']}", {"name": "Same"})["name"] == "Same"


def test_a_system_in_use_is_not_deleted(client: Client) -> None:
    project, template = make_template(client)
    connection = _create(client, template, name="In use")
    refused = client("DELETE", f"/systems/{template['id']}")
    assert refused.status == 409
    assert f'connection "In use" (id {connection["id"]})' in refused.json["message"]
    place = f'environment "production" of project "{project["name"]}", id {template["connectionTemplateId"]}'
    assert f'template "{template["name"]}" ({place})' in refused.json["message"]
    assert len(refused.json["usedBy"]) == 2
    assert client("DELETE", f"/connections/{connection['id']}").status == 204
    assert client("GET", f"/connections/{connection['id']}").status == 404
    templates = f"/projects/{project['id']}/connection-templates"
    assert client.ok("DELETE", f"{templates}/{template['connectionTemplateId']}") == {}
    assert client("DELETE", f"/systems/{template['id']}").status == 204


def test_what_kubectl_made_is_shown_like_what_rest_made(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    system = make_system(client)
    bring_connection(
        kubectl,
        org.namespace,
        name="by-hand",
        system=system["id"],
        credential={"id": "k", "type": "string", "authSchemeConfigId": "key"},
        values={"value": "by-hand-secret"},
    )
    shown = wait_for(client, f"/connections?system_id={system['id']}")["items"][0]
    assert shown["credentials"][0]["authSchemeConfig"]["type"] == "api-key"
    assert "by-hand-secret" not in json.dumps(shown)
    # kubectl owns the name: REST must not take it.
    refused = client("PUT", f"/connections/{shown['id']}", {"name": "Mine"})
    assert (refused.status, refused.fields) == (409, ["name"])
    kept = client("PUT", f"/connections/{shown['id']}", {"credentials": []})
    assert kept.status == 409
    assert "kubectl" in kept.json["message"]


def test_a_project_exists_for_its_templates(client: Client) -> None:
    project = make_project(client)
    assert client.ok("GET", f"/projects/{project['id']}/connection-templates") == {
        "totalCount": 0,
        "items": [],
    }


def test_a_credential_refers_to_a_scheme_of_the_system(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    _, template = make_template(client)
    values = {"type": "string", "data": {"string": {"value": "s3cr3t"}}}
    created = _create(client, template, credentials=[{"authSchemeConfigId": "key", "credential": values}])
    (item,) = created["credentials"]
    assert (item["authSchemeConfigId"], item["authSchemeConfig"]["apiKey"]["name"]) == ("key", "X-API-Key")
    path = f"/connections/{created['id']}"
    # What was read can be sent back, with another scheme of the connection's own as well: the whole scheme counts.
    assert client.ok("PUT", path, {"credentials": [item]})["credentials"][0]["authSchemeConfigId"] == "key"
    own = {"type": "api-key", "apiKey": {"id": "own", "name": "X-Other", "in": "header"}}
    changed = client.ok("PUT", path, {"credentials": [{**item, "authSchemeConfig": own}]})["credentials"][0]
    assert changed["authSchemeConfig"]["apiKey"]["name"] == "X-Other"
    assert "authSchemeConfigId" not in changed
    back = client.ok("PUT", path, {"credentials": [{"id": item["id"], "authSchemeConfigId": "key"}]})
    assert back["credentials"][0]["authSchemeConfig"]["apiKey"]["name"] == "X-API-Key"
    stored_item = stored(kubectl, org, "connection", created["id"])["spec"]["credentials"][0]
    assert (stored_item["authSchemeConfigId"], "authSchemeConfig" in stored_item) == ("key", False)
    refused = client("PUT", path, {"credentials": [{"id": item["id"], "authSchemeConfigId": "gone"}]})
    assert (refused.status, refused.fields) == (422, ["credentials[0].authSchemeConfigId"])
    neither = client("PUT", path, {"credentials": [{"credential": values}]})
    assert (neither.status, neither.fields) == (422, ["credentials[0].authSchemeConfig"])
