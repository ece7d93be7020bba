"""Users, activations and variables, by REST on a real API server."""

import json
import re
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import API_KEY, make_project, make_template, stored
from tests.integration.api.pods import account_token
from tieline_core.identity.ids import new_id, static_activation_id

pytestmark = pytest.mark.cluster

SCHEMA = {
    "type": "object",
    "properties": {"region": {"enum": ["eu", "us"]}, "limit": {"type": "integer", "minimum": 1}},
    "additionalProperties": False,
}
CONNECTION = {
    "name": "Mine",
    "credentials": [
        {
            "id": "key",
            "authSchemeConfig": API_KEY,
            "credential": {"type": "string", "data": {"string": {"value": "s3cr3t"}}},
        }
    ],
}


def _user(client: Client, external: str | None = None) -> dict[str, Any]:
    body = {"externalId": external or f"customer-{new_id()}", "displayName": "Ann"}
    created: dict[str, Any] = client.ok("POST", "/users", body, status=201)
    return created


def _dynamic(client: Client) -> tuple[dict[str, Any], str, dict[str, Any]]:
    """A project with a schema and a dynamic template; its environment's id."""
    project, template = make_template(client, dynamic=True)
    client.ok("PUT", f"/projects/{project['id']}/variables", SCHEMA)
    return project, project["environments"][0]["id"], template


def _activate(client: Client, environment: str, user: dict[str, Any], **more: Any) -> dict[str, Any]:
    body = {"userId": user["id"], "environmentId": environment, "connections": [], **more}
    created: dict[str, Any] = client.ok("POST", "/activations", body)
    return created


def test_a_user_is_created_found_by_both_ids_and_deleted(client: Client, org: Organisation) -> None:
    created = _user(client)
    assert created["organisationId"] == org.id
    assert created["displayName"] == "Ann"
    for identifier in (created["id"], created["id"].lower(), created["externalId"]):
        assert client.ok("GET", f"/users/{identifier}") == created
    again = client("POST", "/users", {"externalId": created["externalId"]})
    assert again.status == 409
    assert client("DELETE", f"/users/{created['externalId']}").status == 204
    assert client("GET", f"/users/{created['id']}").status == 404
    assert _user(client, created["externalId"])["externalId"] == created["externalId"]


def test_users_are_listed_searched_and_filtered_by_activation(client: Client) -> None:
    marker = new_id()
    users = [_user(client, f"{marker}-{number}") for number in range(3)]
    _, environment, _ = _dynamic(client)
    _activate(client, environment, users[1])
    page = client.ok("GET", f"/users?search={marker.lower()}&first=2")
    assert (page["totalCount"], len(page["users"])) == (3, 2)
    assert len(client.ok("GET", f"/users?search={marker}&after={page['next']}")["users"]) == 1

    def listed(query: str) -> set[str]:
        found = client.ok("GET", f"/users?search={marker}&{query}")["users"]
        return {user["externalId"].rpartition("-")[2] for user in found}

    assert listed("activated=true") == {"1"}
    assert listed(f"activated=true&environment_id={environment}") == {"1"}
    assert listed(f"activated=false&environment_id={environment}") == {"0", "2"}
    assert listed(f"activated=true&environment_id={new_id()}") == set()


def test_a_user_is_activated_with_a_connection_of_its_own(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, environment, template = _dynamic(client)
    user = _user(client)
    given = [{"connectionTemplateId": template["connectionTemplateId"], "connection": CONNECTION}]
    created = _activate(client, environment, user, connections=given, dynamicVariables={"region": "eu"})
    assert created["user"] == user
    assert created["environment"]["id"] == environment
    assert created["dynamicVariables"] == {"region": "eu"}
    connection = created["connections"][0]
    assert created["connections"][0]["connectionTemplateId"] == template["connectionTemplateId"]
    assert "s3cr3t" not in json.dumps(created)
    resource = stored(kubectl, org, "connection", connection["id"])
    assert resource["spec"]["endUserRef"] == {"name": user["id"].lower()}
    path = f"/environments/{environment}/activations"
    assert client.ok("GET", f"{path}/{created['id']}") == created
    assert client.ok("GET", path) == [created]
    assert client.ok("GET", f"/environment/{environment}/users/{user['externalId']}/activations") == [created]
    used = f"/environment-systems/{template['connectionTemplateId']}/activations/{created['id']}"
    assert client.ok("GET", used)["id"] == connection["id"]
    assert client.ok("GET", f"/connections?end_user_id={user['externalId']}")["totalCount"] == 1
    # Again: the same activation, with what is new.
    again = _activate(client, environment, user, dynamicVariables={"region": "us"})
    assert (again["id"], again["dynamicVariables"]) == (created["id"], {"region": "us"})
    assert again["connections"] == created["connections"]
    # Another user may use the same name, and a connection of the organisation's own.
    other = _user(client)
    _activate(client, environment, other, connections=given)
    refused = client(
        "POST",
        "/activations",
        {
            "userId": other["externalId"],
            "environmentId": environment,
            "connections": [
                {
                    "connectionTemplateId": template["connectionTemplateId"],
                    "existingConnectionId": connection["id"],
                }
            ],
        },
    )
    assert (refused.status, refused.fields) == (422, ["connections[0].existingConnectionId"])
    # A user goes with what REST made for it.
    assert client("DELETE", f"/users/{user['id']}").status == 204
    assert client("GET", f"/connections/{connection['id']}").status == 404
    assert client("GET", f"{path}/{created['id']}").status == 404
    assert client("DELETE", f"/projects/{project['id']}").status == 204


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"userId": "nobody"}, "userId"),
        ({"environmentId": "01JD3Y7M5RZX9KQW8T2V4N6P0A"}, "environmentId"),
        ({"dynamicVariables": {"region": "mars"}}, "dynamicVariables.region"),
        ({"dynamicVariables": {"colour": 1}}, "dynamicVariables"),
        ({"connections": [{"connectionTemplateId": "01JD3Y7M5RZX9KQW8T2V4N6P0A"}]}, "connections[0]"),
        (
            {
                "connections": [
                    {"connectionTemplateId": "01JD3Y7M5RZX9KQW8T2V4N6P0A", "connection": CONNECTION}
                ]
            },
            "connections[0].connectionTemplateId",
        ),
    ],
)
def test_an_activation_that_cannot_be_is_refused_by_field(
    client: Client, changes: dict[str, Any], field: str
) -> None:
    _, environment, _ = _dynamic(client)
    body = {"userId": _user(client)["id"], "environmentId": environment, "connections": [], **changes}
    answer = client("POST", "/activations", body)
    assert (answer.status, answer.fields) == (422, [field])
    assert "mars" not in answer.raw.decode()


def test_an_activation_without_a_needed_connection_says_so_wherever_it_is_shown(client: Client) -> None:
    _, environment, template = _dynamic(client)
    user, where = _user(client), f"/environments/{environment}/activations"
    body = {"userId": user["id"], "environmentId": environment, "connections": []}
    created = client("POST", "/activations", body)
    assert created.status == 200, created.raw
    shown = (
        created,
        client("GET", f"{where}/{created.json['id']}"),
        client("GET", where),
        client("GET", f"/environment/{environment}/users/{user['externalId']}/activations"),
    )
    for answer in shown:
        warning = answer.headers["Warning"].replace("\\", "")
        assert f'cannot be used: no connection for "{template["name"]}"' in warning
    given = {"connectionTemplateId": template["connectionTemplateId"], "connection": CONNECTION}
    assert "Warning" not in client("POST", "/activations", {**body, "connections": [given]}).headers
    assert "Warning" not in client("GET", where).headers


def test_variables_are_merged_by_name_and_validated_as_a_whole(client: Client) -> None:
    _, environment, _ = _dynamic(client)
    activation = _activate(client, environment, _user(client), dynamicVariables={"region": "eu"})
    path = f"/environments/{environment}/activations/{activation['id']}/variables"
    assert client.ok("PATCH", path, {"limit": 5}) == {"region": "eu", "limit": 5}
    assert client.ok("PUT", f"{path}/region", {"value": "us"}) == {"region": "us", "limit": 5}
    assert client("PATCH", path, {"limit": 0}).fields == ["limit"]
    assert client("PUT", f"{path}/region", {"value": "mars"}).fields == ["region"]
    assert client("PUT", f"{path}/region", {}).fields == ["value"]
    shown = client.ok("GET", f"/environments/{environment}/activations/{activation['id']}")
    assert shown["dynamicVariables"] == {"region": "us", "limit": 5}
    assert client.ok("PATCH", f"{path}?unset=limit&unset=never", {"region": "eu"}) == {"region": "eu"}
    assert client("PATCH", f"{path}?unset=region", {"region": "us"}).fields == ["unset"]
    assert client.ok("PATCH", f"{path}?unset=region", {}) == {}


def test_the_static_activation_carries_the_environments_own_variables(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    project, environment, _ = _dynamic(client)
    identifier = static_activation_id(environment)
    one = f"/environments/{environment}/activations/{identifier}"
    assert client.ok("GET", one)["dynamicVariables"] == {}
    assert client.ok("PATCH", f"/environments/{environment}/variables", {"region": "eu"}) == {"region": "eu"}
    assert client.ok("PATCH", f"{one}/variables", {"limit": 3}) == {"region": "eu", "limit": 3}
    shown = client.ok("GET", one)
    assert shown["id"] == identifier
    assert "user" not in shown
    assert client.ok("GET", f"/environments/{environment}/activations") == [], "only users' are listed"
    pod = Client(client.url, account_token(kubectl, org, project), org.id)
    assert pod.at("/internal/v1/environment").json["variables"] == {"region": "eu", "limit": 3}
    assert client.ok("DELETE", one) == {}
    assert client.ok("GET", one)["dynamicVariables"] == {}
    assert pod.at("/internal/v1/environment").json["variables"] == {}


def test_an_activation_is_deleted(client: Client) -> None:
    _, environment, _ = _dynamic(client)
    user = _user(client)
    activation = _activate(client, environment, user)
    path = f"/environments/{environment}/activations/{activation['id']}"
    _, elsewhere, _ = _dynamic(client)
    assert client("GET", path.replace(environment, elsewhere)).status == 404
    assert client.ok("DELETE", path) == {}
    assert client("DELETE", path).status == 404
    assert _activate(client, environment, user)["id"] == activation["id"]


def test_a_long_list_of_activations_is_followed_by_its_link_header(client: Client) -> None:
    _, environment, _ = _dynamic(client)
    made = {_activate(client, environment, _user(client))["id"] for _ in range(5)}
    seen: list[str] = []
    path = f"/api/v2/o/{client.organisation}/environments/{environment}/activations?first=2"
    while path:
        answer = client.at(path)
        seen += [item["id"] for item in answer.json]
        link = re.fullmatch(r'<([^>]+)>; rel="next"', answer.headers.get("Link", ""))
        path = link[1] if link else ""
    assert len(seen) == 5
    assert set(seen) == made


def test_an_external_id_may_hold_anything(client: Client) -> None:
    created = _user(client, f"a/b?c&d é {new_id()}")
    from urllib.parse import quote

    assert client.ok("GET", f"/users/{quote(created['externalId'], safe='')}") == created


def test_a_draft_project_has_a_static_activation_by_definition(client: Client) -> None:
    environment = make_project(client)["environments"][0]["id"]
    assert (
        client("GET", f"/environments/{environment}/activations/{static_activation_id(environment)}").status
        == 200
    )
    assert client("GET", f"/environments/{environment}/activations/{new_id()}").status == 404
    assert client("GET", f"/environments/{new_id()}/activations").status == 404
