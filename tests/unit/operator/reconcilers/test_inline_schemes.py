"""An auth scheme that a credential brings itself is judged like a system's, in the connection's status."""

from __future__ import annotations

from typing import Any

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import resources as r


def connected(scheme: dict[str, Any]) -> ReconcileLoop:
    item = {"id": "main", "type": "string", "authSchemeConfig": scheme, "secretRef": {"name": "login"}}
    cluster = FakeCluster(o.system(), o.connection(credentials=[item]))
    cluster.put(r.SECRETS, o.secret("login", "value"))
    cluster.put(r.NAMESPACES, o.namespace())
    return ReconcileLoop(cluster)


def told(there: ReconcileLoop) -> dict[str, Any]:
    found: dict[str, Any] = there.cluster[r.CONNECTIONS].get(o.NAMESPACE, "login")["status"]["credentials"][0]
    return found


async def test_what_is_odd_is_told_and_the_connection_is_ready() -> None:
    there = connected({"id": "own", "type": "api-key", "apiKey": {"name": "key", "in": "query"}})
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"
    assert [one["severity"] for one in told(there)["validationMessages"]] == ["info"]


async def test_what_is_wrong_is_an_error_of_the_credential() -> None:
    there = connected({"id": "own", "type": "api-key", "apiKey": {"name": "Host", "in": "header"}})
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[:2] == ("False", "NameReserved")
    assert "HTTP client's own" in told(there)["errors"][0]
    assert [one["severity"] for one in told(there)["validationMessages"]] == ["error"]
