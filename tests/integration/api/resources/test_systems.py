"""Systems and their auth schemes, by REST on a real API server."""

import base64
import json
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import Client
from tests.integration.api.objects import wait_for
from tests.integration.api.resources.test_connectors import import_into, shop
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

API_KEY = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}
OAUTH2 = {
    "type": "oauth2",
    "oauth2": {
        "id": "login",
        "tokenUrl": "https://shop.example/token",
        "authorizeUrl": "https://shop.example/authorize",
        "scopes": [{"name": "orders", "description": "Orders"}],
        "grant": {
            "type": "authorizationCode",
            "authorizationCode": {"clientId": "me", "clientSecret": "s3cr3t"},
        },
    },
}
SHOP = {
    "name": "Shop",
    "domain": "shop.example",
    "templateBaseUrl": "https://api.shop.example",
    "authSchemeConfigs": [API_KEY],
}


def _system(client: Client, **changes: Any) -> dict[str, Any]:
    created: dict[str, Any] = client.ok("POST", "/systems", {**SHOP, **changes}, status=201)
    return created


def test_a_system_is_created_read_updated_and_deleted(client: Client) -> None:
    created = _system(client, labels={"team": "ops"})
    assert created["name"] == "Shop"
    assert created["labels"] == {"team": "ops"}
    assert created["authSchemeConfigs"][0]["apiKey"]["name"] == "X-API-Key"
    path = f"/systems/{created['id']}"
    assert client.ok("GET", path) == created
    assert client.ok("GET", path.lower().replace("/systems/", "/systems/")) == created
    updated = client.ok("PUT", path, {"name": "Shop (EU)"}, status=201)
    assert updated == {**created, "name": "Shop (EU)"}
    assert client("DELETE", path).status == 204
    assert client("GET", path).status == 404
    assert client("DELETE", path).status == 404


def test_rest_sets_variables_and_connector_as_kubectl_does(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    def stored(identifier: str) -> dict[str, Any]:
        found = kubectl("get", "system", identifier.lower(), "-o", "json", namespace=org.namespace).stdout
        spec: dict[str, Any] = json.loads(found)["spec"]
        assert spec.pop("authSchemeConfigs") == []
        return spec

    connector = new_id()
    assert import_into(client, connector, shop(), "one").status == 201
    region = {"name": "region", "value": "eu"}
    follows = {"domain": "", "templateBaseUrl": "", "authSchemeConfigs": []}
    refused = client("POST", "/systems", {"name": "Shop", **follows})
    assert refused.status == 422
    assert "domain" in refused.json["fields"][0]["message"]
    made = client.ok(
        "POST",
        "/systems",
        {"name": "Shop", **follows, "variables": [region], "connectorRef": {"id": connector}},
        status=201,
    )
    assert (made["variables"], made["connectorRef"]) == ([region], {"id": connector})
    name = {"name": connector.lower()}
    assert stored(made["id"]) == {"name": "Shop", "variables": {"region": "eu"}, "connectorRef": name}
    path = f"/systems/{made['id']}"
    shown = client.ok("PUT", path, {"connectorRef": {"id": connector, "version": "one"}}, status=201)
    assert stored(made["id"])["connectorRef"] == {**name, "version": "one"}
    assert client.ok("PUT", path, shown, status=201) == shown
    for wrong in ({"id": new_id()}, {"id": connector, "version": "two"}, {"version": "one"}):
        assert client("PUT", path, {"connectorRef": wrong}).status == 422
    needed = client("PUT", path, {"connectorRef": {}})
    assert needed.status == 422, needed.raw
    assert "templateBaseUrl" in needed.json["message"]
    own = {"domain": "shop.example", "templateBaseUrl": "https://{shop}.example"}
    alone = client.ok(
        "PUT", path, {**own, "connectorRef": {}, "variables": [], "labels": {"team": "ops"}}, status=201
    )
    assert "connectorRef" not in alone
    assert (alone["variables"], alone["labels"]) == ([], {"team": "ops"})
    assert stored(made["id"]) == {"name": "Shop", **own, "labels": {"team": "ops"}}
    twice = client("PUT", path, {"variables": [region, region]})
    assert (twice.status, twice.fields) == (422, ["variables"])


def test_lists_page_in_a_stable_order_and_search_name_and_domain(client: Client) -> None:
    made = [_system(client, name=f"Pagable {number}", domain="PAGES.example")["id"] for number in range(5)]
    listed: list[str] = []
    query = "?search=pages.EXAMPLE&first=2"
    page = client.ok("GET", f"/systems{query}")
    assert page["totalCount"] == 5
    assert "prev" not in page
    while True:
        listed += [item["id"] for item in page["items"]]
        if "next" not in page:
            break
        page = client.ok("GET", f"/systems{query}&after={page['next']}")
    assert listed == sorted(made)
    back = client.ok("GET", f"/systems{query}&before={page['prev']}")
    assert [item["id"] for item in back["items"]] == sorted(made)[2:4]
    assert client.ok("GET", "/systems?search=gable%203")["items"][0]["id"] == made[3]
    assert client("GET", "/systems?after=nonsense").status == 400
    assert client("GET", "/systems?first=0").status == 422
    assert client("GET", "/systems?first=201&unknown=1").fields == ["first"]


def test_an_etag_saves_a_transfer_and_prevents_a_lost_update(client: Client) -> None:
    path = f"/systems/{_system(client)['id']}"
    first = client("GET", path)
    etag = first.headers["ETag"]
    assert client("GET", path, If_None_Match=etag).status == 304
    assert client("PUT", path, {"name": "One"}, If_Match=etag).status == 201
    lost = client("PUT", path, {"name": "Two"}, If_Match=etag)
    assert (lost.status, lost.json["code"]) == (412, "precondition_failed")
    assert client.ok("GET", path)["name"] == "One"
    assert client("PUT", path, {"name": "Three"}, If_Match="*").status == 201


def test_an_auth_scheme_is_added_updated_and_deleted(client: Client) -> None:
    path = f"/systems/{_system(client)['id']}/auth-scheme-configs"
    basic = {"type": "basic-auth", "basicAuth": {"id": "basic", "description": "Staff"}}
    added = client.ok("PUT", f"{path}/basic", basic, status=201)
    assert added["basicAuth"]["description"] == "Staff"
    client.ok(
        "PUT",
        f"{path}/key",
        {"type": "api-key", "apiKey": {"id": "key", "name": "k", "in": "query"}},
        status=201,
    )
    schemes = client.ok("GET", path.rpartition("/")[0])["authSchemeConfigs"]
    assert [(scheme["type"]) for scheme in schemes] == ["api-key", "basic-auth"]
    assert schemes[0]["apiKey"]["in"] == "query"
    assert client("DELETE", f"{path}/basic").status == 204
    assert client("DELETE", f"{path}/basic").status == 404
    wrong = client("PUT", f"{path}/other", basic)
    assert (wrong.status, wrong.fields) == (422, ["basicAuth.id"])


def test_a_client_secret_is_stored_in_a_secret_and_never_comes_back(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    created = _system(client, name=f"Shop-{new_id()}", authSchemeConfigs=[OAUTH2])
    path = f"/systems/{created['id']}"
    listed = client.ok("GET", f"/systems?search={created['name']}")
    assert created["id"] in {one["id"] for one in listed["items"]}
    assert "s3cr3t" not in json.dumps([created, client.ok("GET", path), listed])
    name = created["id"].lower()
    resource = _get(kubectl, org, "system", name)
    assert "s3cr3t" not in json.dumps(resource)
    reference = resource["spec"]["authSchemeConfigs"][0]["oauth2"]["grant"]["authorizationCode"]["secretRef"][
        "name"
    ]
    secret = _get(kubectl, org, "secret", reference)
    assert secret["type"] == "tieline.dev/credential"
    assert base64.b64decode(secret["data"]["clientSecret"]) == b"s3cr3t"
    assert secret["metadata"]["ownerReferences"][0]["uid"] == resource["metadata"]["uid"]
    # Without the secret, what is stored stays; so do fields that are left out.
    again = {"type": "oauth2", "oauth2": {**OAUTH2["oauth2"], "pkce": True}}  # type: ignore[dict-item]
    again["oauth2"]["grant"] = {"type": "authorizationCode", "authorizationCode": {"clientId": "you"}}  # type: ignore[index]
    answer = client.ok("PUT", f"{path}/auth-scheme-configs/login", again, status=201)
    assert answer["oauth2"]["grant"]["authorizationCode"]["clientId"] == "you"
    resource = _get(kubectl, org, "system", name)
    grant = resource["spec"]["authSchemeConfigs"][0]["oauth2"]["grant"]["authorizationCode"]
    assert grant == {"clientId": "you", "secretRef": {"name": reference}}
    assert client("DELETE", f"{path}/auth-scheme-configs/login").status == 204
    assert kubectl("get", "secret", reference, namespace=org.namespace, check=False).returncode == 1
    assert client.ok("GET", path)["authSchemeConfigs"] == []


def test_unknown_and_foreign_fields_are_warned_about(client: Client) -> None:
    answer = client(
        "POST", "/systems", {**SHOP, "colour": 1, "authSchemeConfigs": [{**API_KEY, "oauth2": 3}]}
    )
    assert answer.status == 201
    assert '299 - "unknown field \\"colour\\""' in answer.headers["Warning"]
    assert "oauth2" in answer.headers["Warning"]


def test_two_schemes_with_one_id_are_refused(client: Client) -> None:
    answer = client("POST", "/systems", {**SHOP, "authSchemeConfigs": [API_KEY, API_KEY]})
    assert (answer.status, answer.fields) == (422, ["authSchemeConfigs[1].apiKey.id"])


def test_what_kubectl_made_is_there_at_once_under_the_same_id(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "System",
        "metadata": {"name": "by-kubectl", "namespace": org.namespace},
        "spec": {"name": "By hand", "domain": "hand.example", "templateBaseUrl": "https://hand.example"},
    }
    kubectl("apply", "-f", "-", stdin=json.dumps(manifest))
    found = wait_for(client, "/systems?search=hand.example")["items"]
    assert [item["name"] for item in found] == ["By hand"]
    identifier = found[0]["id"]
    kubectl("label", "system", "by-kubectl", f"tieline.dev/id={identifier}", namespace=org.namespace)
    assert client.ok("GET", f"/systems/{identifier}")["name"] == "By hand"


def test_what_rest_made_is_there_for_kubectl_under_the_same_id(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    created = _system(client)
    resource = _get(kubectl, org, "system", created["id"].lower())
    assert resource["metadata"]["labels"]["tieline.dev/id"] == created["id"]
    assert resource["spec"]["authSchemeConfigs"] == [
        {"id": "key", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}}
    ]


def test_a_field_that_git_owns_is_409_and_names_manager_and_field(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    manifest = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "System",
        "metadata": {"name": "by-git", "namespace": org.namespace},
        "spec": {
            "name": "From Git",
            "domain": "git.example",
            "templateBaseUrl": "https://git.example",
            "variables": {"region": "eu"},
            "authSchemeConfigs": [{"id": "key", "type": "api-key", "apiKey": {"name": "K", "in": "header"}}],
        },
    }
    kubectl("apply", "--server-side", "--field-manager=argocd", "-f", "-", stdin=json.dumps(manifest))
    identifier = wait_for(client, "/systems?search=git.example")["items"][0]["id"]
    answer = client("PUT", f"/systems/{identifier}", {"name": "Mine"})
    assert (answer.status, answer.json["code"], answer.fields) == (409, "conflict", ["name"])
    assert '"argocd"' in answer.json["message"]
    gone = client("DELETE", f"/systems/{identifier}/auth-scheme-configs/key")
    assert gone.status == 409
    assert "argocd" in gone.json["message"]
    removed = client("PUT", f"/systems/{identifier}", {"variables": []})
    assert removed.status == 409
    assert "argocd" in removed.json["message"]
    theirs, ours = {"name": "region", "value": "eu"}, {"name": "shop", "value": "a"}
    for given in ([theirs, ours], [theirs]):
        changed = client.ok("PUT", f"/systems/{identifier}", {"variables": given}, status=201)
        assert changed["variables"] == given
    # What REST adds beside it is REST's own: it can be added and taken away.
    mine = {"type": "none", "none": {"id": "mine"}}
    assert client("PUT", f"/systems/{identifier}/auth-scheme-configs/mine", mine).status == 201
    assert len(client.ok("GET", f"/systems/{identifier}")["authSchemeConfigs"]) == 2
    assert client("DELETE", f"/systems/{identifier}/auth-scheme-configs/mine").status == 204
    assert len(client.ok("GET", f"/systems/{identifier}")["authSchemeConfigs"]) == 1


def test_concurrent_updates_of_one_system_all_arrive(client: Client) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = f"/systems/{_system(client, authSchemeConfigs=[])['id']}"

    def add(number: int) -> int:
        body = {"type": "none", "none": {"id": f"n{number}"}}
        return client("PUT", f"{path}/auth-scheme-configs/n{number}", body).status

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(add, range(8))) == {201}
    assert len(client.ok("GET", path)["authSchemeConfigs"]) == 8


def _get(kubectl: Kubectl, org: Organisation, kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        kubectl("get", kind, name, "-o", "json", namespace=org.namespace).stdout
    )
    return found
