"""API keys by REST: made, shown once, used, and revoked; and who has which role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client, Server
from tieline_core.identity.ids import format_time, new_id

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def org(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """An organisation whose roles these tests give."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Server, org: Organisation, token_for: Callable[..., str]) -> Client:
    made = Client(server.url, token_for(org.namespace, "admin", "tieline-admin"), org.id)
    made.until_known()
    return made


def user() -> str:
    return f"ci-{new_id().lower()}"


def by_key(client: Client, key: str) -> Answer:
    return Client(client.url, None, client.organisation, {"X-API-Key": key})("GET", "/projects")


def give(kubectl: Kubectl, org: Organisation, role: str, subject: str) -> str:
    name = f"given-{new_id().lower()}"
    kubectl(
        "create", "rolebinding", name, f"--clusterrole={role}", f"--user={subject}", namespace=org.namespace
    )
    return name


def test_a_key_works_once_its_user_has_a_role_and_until_it_is_revoked(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    made = client.ok("POST", "/api-keys", {"user": user()}, status=201)
    assert made["role"] == "none"
    assert by_key(client, made["key"]).status == 404
    give(kubectl, org, "tieline-viewer", made["subject"])
    eventually("the role", lambda: by_key(client, made["key"]).status == 200)

    def shown() -> str:
        listed = client.ok("GET", "/api-keys?first=200")["items"]
        return str(next(one["role"] for one in listed if one["id"] == made["id"]))

    eventually("the role in the list", lambda: shown() == "viewer")
    client.ok("DELETE", f"/api-keys/{made['id']}", status=204)
    assert by_key(client, made["key"]).status == 401
    assert client("DELETE", f"/api-keys/{made['id']}").status == 404


def test_the_key_is_in_no_other_answer_and_in_no_resource(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    answer = client("POST", "/api-keys", {"user": user(), "groups": ["bots"]})
    made = answer.json
    assert answer.headers["Cache-Control"] == "no-store"
    assert made["key"].encode() not in client("GET", "/api-keys?first=200").raw
    stored = kubectl("get", "secret", made["secretName"], "-o", "yaml", namespace=org.namespace).stdout
    assert made["key"] not in stored
    assert made["groups"] == ["bots"]


def test_an_end_that_has_been_or_a_user_that_cannot_be_is_refused(client: Client) -> None:
    past = format_time(datetime.now(UTC) - timedelta(minutes=1))
    refused = client("POST", "/api-keys", {"user": user(), "expiresAt": past})
    assert (refused.status, refused.fields) == (422, ["expiresAt"])
    refused = client("POST", "/api-keys", {"user": "../admin"})
    assert (refused.status, refused.fields) == (422, ["user"])


def test_a_key_with_an_end_says_it(client: Client) -> None:
    end = format_time(datetime.now(UTC) + timedelta(days=90))
    made = client.ok("POST", "/api-keys", {"user": user(), "expiresAt": end}, status=201)
    assert made["expiresAt"] == end


def test_nobody_gets_a_key_of_a_user_who_may_do_more(
    client: Client, kubectl: Kubectl, org: Organisation
) -> None:
    name = user()
    give(kubectl, org, "admin", f"tieline:api-key:{org.id.lower()}:{name}")

    def refused() -> bool:
        answer = client("POST", "/api-keys", {"user": name})
        return answer.status == 403 and "get secrets" in answer.json["message"]

    eventually("the role of the user", refused)


def test_an_organisation_sees_and_revokes_only_its_own_keys(client: Client, neighbour: Client) -> None:
    made = client.ok("POST", "/api-keys", {"user": user()}, status=201)
    assert neighbour("DELETE", f"/api-keys/{made['id']}").status == 404
    assert made["id"].encode() not in neighbour("GET", "/api-keys?first=200").raw
    assert by_key(neighbour, made["key"]).status == 404


def test_role_bindings_say_who_has_which_role(client: Client, kubectl: Kubectl, org: Organisation) -> None:
    given, other = give(kubectl, org, "tieline-editor", "ann"), give(kubectl, org, "system:node", "bob")
    found = {one["name"]: one for one in client.ok("GET", "/role-bindings?first=200")["items"]}
    assert found[given]["role"] == "editor"
    assert found[given]["subjects"] == [{"kind": "User", "name": "ann"}]
    assert "role" not in found[other]
    assert found[other]["roleName"] == "system:node"
