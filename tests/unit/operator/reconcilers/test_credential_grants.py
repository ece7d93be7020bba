"""CredentialGrant: what is told of the credentials, and whom a change concerns."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_operator.cache.event_mapping import keys_to_enqueue

BORROWER = "01BX5ZZKBKACTAV9WEVGEMMVRZ"
TOKEN_URL = "https://login.shop.example/token"
SCHEME = {
    "id": "oauth",
    "type": "oauth2",
    "oauth2": {"tokenUrl": TOKEN_URL, "grant": {"type": "clientCredentials", "clientCredentials": {}}},
}


def elsewhere(obj: dict[str, Any]) -> dict[str, Any]:
    return {
        **obj,
        "metadata": {**obj["metadata"], "namespace": "borrower", "uid": obj["metadata"]["uid"][::-1]},
    }


def client(**changes: Any) -> dict[str, Any]:
    credential = {
        "id": "client",
        "credentialId": "shared",
        "type": "oauth2-client",
        "authSchemeConfigId": "oauth",
        "secretRef": {"name": "client"},
        **changes,
    }
    return o.connection("clients", credentials=[credential])


def grant(**changes: Any) -> dict[str, Any]:
    item = {"connection": "clients", "credentialId": "client", **changes}
    return o.obj("CredentialGrant", "shared", spec={"from": [{"organisationId": BORROWER}], "to": [item]})


def cluster(*changed: dict[str, Any]) -> ReconcileLoop:
    there = {obj["kind"]: obj for obj in (o.system(authSchemeConfigs=[SCHEME]), client(), grant(), *changed)}
    made = FakeCluster(*there.values())
    made.put(r.SECRETS, o.secret("client", "clientId", "clientSecret"))
    made.put(r.NAMESPACES, o.namespace())
    return ReconcileLoop(made)


async def test_it_tells_the_id_to_name_and_where_the_secret_goes() -> None:
    acting = cluster()
    await acting.until_quiet()
    status, reason, message = acting.ready(r.CREDENTIAL_GRANTS, "shared")
    assert (status, reason) == ("True", "Granted")
    assert message == f"Credential shared may be used by organisation {BORROWER}"
    stored = acting.cluster[r.CREDENTIAL_GRANTS].get(o.NAMESPACE, "shared")
    assert stored["status"]["credentials"] == [
        {"connection": "clients", "credentialId": "client", "id": "shared", "tokenUrls": [TOKEN_URL]}
    ]


@pytest.mark.parametrize(
    ("changed", "reason", "words"),
    [
        (grant(connection="gone"), "ConnectionNotFound", '"gone" does not exist'),
        (grant(credentialId="gone"), "CredentialNotFound", 'no credential "gone"'),
        (client(type="string"), "CredentialTypeWrong", "only oauth2-client"),
        (o.system(authSchemeConfigs=[{"id": "oauth", "type": "none"}]), "TokenUrlMissing", "add tokenUrls"),
    ],
)
async def test_what_cannot_be_granted_is_said(changed: dict[str, Any], reason: str, words: str) -> None:
    acting = cluster(changed)
    await acting.until_quiet()
    status, found, message = acting.ready(r.CREDENTIAL_GRANTS, "shared")
    assert (status, found) == ("False", reason)
    assert words in message


async def test_in_a_namespace_that_is_no_organisation_nothing_can_be_granted() -> None:
    acting = cluster()
    acting.cluster.remove(r.NAMESPACES, o.NAMESPACE, "")
    await acting.until_quiet()
    assert acting.ready(r.CREDENTIAL_GRANTS, "shared")[:2] == ("False", "NotAnOrganisation")


async def test_it_heals_when_the_connection_comes() -> None:
    acting = cluster()
    acting.cluster.remove(r.CONNECTIONS, "clients")
    await acting.until_quiet()
    assert acting.ready(r.CREDENTIAL_GRANTS, "shared")[1] == "ConnectionNotFound"
    await acting.changed(r.CONNECTIONS, client())
    assert acting.ready(r.CREDENTIAL_GRANTS, "shared")[1] == "Granted"


async def test_who_borrows_is_looked_at_when_the_grant_or_the_client_changes() -> None:
    acting = cluster()
    borrowed = {"credentialId": "shared", "organisationId": o.ORGANISATION}
    scheme = {
        "id": "oauth",
        "type": "oauth2",
        "oauth2": {
            "tokenUrl": TOKEN_URL,
            "grant": {"type": "authorizationCode", "authorizationCode": borrowed},
        },
    }
    acting.cluster.put(r.SYSTEMS, elsewhere(o.system(authSchemeConfigs=[scheme])))
    login = {"id": "main", "type": "oauth2-code", "authSchemeConfigId": "oauth", "secretRef": {"name": "x"}}
    acting.cluster.put(r.CONNECTIONS, elsewhere(o.connection("login", credentials=[login])))
    for resource, obj in ((r.CREDENTIAL_GRANTS, grant()), (r.CONNECTIONS, client())):
        for change in (Change(old=obj, new=None), Change(old=None, new=obj)):
            keys = {str(key) for key in keys_to_enqueue(acting.cluster, resource, change)}
            assert {"System borrower/shop", "Connection borrower/login"} <= keys


async def test_a_new_certificate_is_looked_at_by_all_connections_of_its_system() -> None:
    acting = cluster(client(type="certificate"))
    acting.cluster.put(r.CONNECTIONS, o.connection("login"))
    keys = keys_to_enqueue(acting.cluster, r.CONNECTIONS, Change(old=None, new=client(type="certificate")))
    assert "Connection acme/login" in {str(key) for key in keys}
