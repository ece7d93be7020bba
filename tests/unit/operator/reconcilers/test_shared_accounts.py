"""Connections are told in their status that others hold authorisations of the same account."""

from __future__ import annotations

from typing import Any

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.credentials.validation.secret_facts import TokenFacts
from tieline_core.identity.names import tokens_name
from tieline_core.kubernetes import resources as r

GRANT = {"type": "authorizationCode", "authorizationCode": {"clientId": "app"}}
SCHEME = {
    "id": "oauth",
    "type": "oauth2",
    "oauth2": {
        "authorizeUrl": "https://shop.example/authorize",
        "tokenUrl": "https://shop.example/token",
        "grant": GRANT,
        "authorization": {"grantsPerAccount": 1},
    },
}


def signed_in(name: str) -> dict[str, Any]:
    given = {
        "id": "main",
        "authSchemeConfigId": "oauth",
        "type": "oauth2-token",
        "secretRef": {"name": "given"},
    }
    return o.connection(name, credentials=[given])


def tokens(connection: dict[str, Any], account: str) -> dict[str, Any]:
    metadata = connection["metadata"]
    made = o.secret(tokens_name(metadata["name"], "main"), "accessToken")
    owner = {"kind": "Connection", "name": metadata["name"], "uid": metadata["uid"], "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return {**made, "tokens": TokenFacts(obtained=True, account=account)}


async def test_both_are_warned_while_both_hold_the_account() -> None:
    one, two, other = (signed_in(name) for name in ("one", "two", "other"))
    cluster = FakeCluster(o.system(authSchemeConfigs=[SCHEME]), one, two, other)
    cluster.put(r.SECRETS, o.secret("given", "accessToken"), tokens(one, "a"), tokens(other, "b"))
    cluster.put(r.NAMESPACES, o.namespace())
    there = ReconcileLoop(cluster)
    await there.until_quiet()

    def warnings() -> dict[str, int]:
        found = {}
        for name in ("one", "two", "other"):
            (status,) = cluster[r.CONNECTIONS].get(o.NAMESPACE, name)["status"]["credentials"]
            found[name] = len(status.get("warnings") or ())
        return found

    assert warnings() == {"one": 0, "two": 0, "other": 0}
    await there.changed(r.SECRETS, tokens(two, "a"))
    assert warnings() == {"one": 1, "two": 1, "other": 0}
    assert there.ready(r.CONNECTIONS, "one")[0] == "True", "it can be used all the same"
    await there.changed(r.SECRETS, tokens(two, "b"))
    assert warnings() == {"one": 0, "two": 1, "other": 1}
