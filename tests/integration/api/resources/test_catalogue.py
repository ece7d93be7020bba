"""The catalogue by REST, and its entries on a real API server."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.integration.api.conftest import PUBLIC_URL, Client, Server
from tests.integration.api.objects import stored
from tieline_catalogue.catalogue import catalogue
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

CATALOGUE = "/api/v2/catalogue"
CLIENT = {"scheme": "oauth", "clientId": "app", "clientSecret": "s3cr3t-of-the-app"}


def test_kubernetes_accepts_every_entry(kubectl: Kubectl, org: Organisation) -> None:
    items = [
        {
            "apiVersion": "tieline.dev/v1alpha1",
            "kind": "System",
            "metadata": {"name": one.key, "namespace": org.namespace},
            "spec": catalogue().get(one.key).system,
        }
        for one in catalogue().summaries
    ]
    document = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    # make catalogue-check compares field names; the rules are the server's.
    done = kubectl("create", "--dry-run=server", "--validate=ignore", "-f", "-", stdin=document, check=False)
    assert done.stderr == ""


def test_everyone_reads_the_catalogue_page_by_page(
    server: Server, org: Organisation, token_for: Callable[..., str]
) -> None:
    viewer = Client(server.url, token_for(org.namespace, "catalogue-reader", None), org.id)
    keys: list[str] = []
    after = ""
    while True:
        page = viewer.at(f"{CATALOGUE}?first=2{after}").json
        keys += [one["key"] for one in page["items"]]
        if "next" not in page:
            break
        after = f"&after={page['next']}"
    assert keys == [one.key for one in catalogue().summaries]
    assert page["totalCount"] == len(keys)
    back = viewer.at(f"{CATALOGUE}?first=2&before={page['prev']}").json
    assert [one["key"] for one in back["items"]] == keys[: -len(page["items"])][-2:]


@pytest.mark.parametrize(
    ("query", "found"),
    [("search=github+pull", {"github"}), ("category=commerce&search=shopify", {"shopify"})],
)
def test_the_catalogue_is_searched(client: Client, query: str, found: set[str]) -> None:
    assert found <= {one["key"] for one in client.at(f"{CATALOGUE}?{query}").json["items"]}


@pytest.mark.parametrize(
    ("query", "status"), [("after=AAAA", 400), ("category=everything", 422), ("first=1000", 422)]
)
def test_a_wrong_query_is_refused(client: Client, query: str, status: int) -> None:
    assert client.at(f"{CATALOGUE}?{query}").status == status


def test_an_entry_says_what_to_fill_in_at_the_provider(client: Client) -> None:
    entry = client.at(f"{CATALOGUE}/github").json
    oauth = entry["schemes"][0]
    assert oauth["id"] == "oauth"
    assert oauth["needsClient"] is True
    assert oauth["redirectUrl"] == f"{PUBLIC_URL}/oauth2/callback"
    assert oauth["redirectUrlField"] == "Authorization callback URL"
    assert {"name": "read:user", "description": "Read the profile", "default": True} in oauth["scopes"]
    assert entry["spec"] == catalogue().get("github").system
    missing = client.at(f"{CATALOGUE}/{new_id()}")
    assert missing.status == 404
    assert "search it" in missing.json["message"]


def schemes_of(system: dict[str, Any]) -> set[str]:
    """The ids of a System's auth schemes."""
    return {item["id"] for item in system["spec"]["authSchemeConfigs"]}


def test_a_system_is_made_of_an_entry_with_its_client(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    made = client.ok("POST", "/catalogue/github/systems", {"name": "Code", "clients": [CLIENT]}, status=201)
    assert (made["name"], made["labels"], made["messages"]) == ("Code", {"catalogue": "github"}, [])
    system = stored(kubectl, org, "system", made["id"])
    assert system["spec"]["check"] == {"path": "/user"}
    (oauth,) = [one for one in system["spec"]["authSchemeConfigs"] if one["id"] == "oauth"]
    given = oauth["oauth2"]["grant"]["authorizationCode"]
    assert given["clientId"] == "app"
    assert "s3cr3t" not in json.dumps([made, system])
    secret = stored(kubectl, org, "secret", given["secretRef"]["name"])
    assert secret["metadata"]["ownerReferences"][0]["name"] == made["id"].lower()


def test_a_public_client_has_no_secret(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    (oauth, _) = client.at(f"{CATALOGUE}/lichess").json["schemes"]
    assert (oauth["needsClient"], oauth["needsClientSecret"]) == (True, False)
    body = {"clients": [{"scheme": "oauth", "clientId": "tieline.example"}]}
    made = client.ok("POST", "/catalogue/lichess/systems", body, status=201)
    spec = stored(kubectl, org, "system", made["id"])["spec"]
    (oauth,) = [one for one in spec["authSchemeConfigs"] if one["id"] == "oauth"]
    assert oauth["oauth2"]["grant"]["authorizationCode"] == {"clientId": "tieline.example"}


def test_a_scheme_without_its_client_is_left_out_and_named(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    made = client.ok("POST", "/catalogue/github/systems", {}, status=201)
    assert [one["text"].split(":")[0] for one in made["messages"]] == ["The auth scheme oauth is left out"]
    assert schemes_of(stored(kubectl, org, "system", made["id"])) == {"token", "webhooks"}
    chosen = client.ok("POST", "/catalogue/github/systems", {"schemes": ["webhooks"]}, status=201)
    assert schemes_of(stored(kubectl, org, "system", chosen["id"])) == {"webhooks"}


@pytest.mark.parametrize(
    ("body", "field"),
    [({"clients": [{**CLIENT, "scheme": "login"}]}, "clients[0]"), ({"schemes": ["login"]}, "schemes[0]")],
)
def test_a_scheme_that_the_entry_lacks_is_refused(client: Client, body: dict[str, Any], field: str) -> None:
    answer = client("POST", "/catalogue/github/systems", body)
    assert answer.status == 422
    assert answer.json["fields"][0]["field"] == field
