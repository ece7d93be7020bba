"""A System that refers to a connector has what its spec leaves out from the connector's version."""

from __future__ import annotations

from typing import Any

import orjson

from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.objects import NAMESPACE, namespace, obj
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.connectors import storage
from tieline_core.connectors.descriptions.importer import import_description
from tieline_core.connectors.packing import pack
from tieline_core.kubernetes import resources as r
from tieline_core.systems import connection_base_url

KEY = {"type": "apiKey", "name": "X-Key", "in": "header"}
IMPLICIT = {
    "type": "oauth2",
    "flows": {"implicit": {"authorizationUrl": "https://a.example/authorize", "scopes": {}}},
}


def described(url: str = "https://{region}.shop.example/v1", **schemes: Any) -> dict[str, Any]:
    servers = [{"url": url, "variables": {"region": {"default": "eu"}}}]
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": servers if url else [],
        "paths": {},
        "components": {"securitySchemes": schemes},
    }


def new(**spec: Any) -> ReconcileLoop:
    cluster = FakeCluster()
    cluster.put(r.NAMESPACES, namespace())
    cluster.put(r.CONNECTORS, obj("Connector", "shop", spec={"name": "Shop"}))
    cluster.put(
        r.SYSTEMS, obj("System", "shop", spec={"name": "Shop", "connectorRef": {"name": "shop"}, **spec})
    )
    return ReconcileLoop(cluster)


async def imported(there: ReconcileLoop, name: str, description: dict[str, Any]) -> None:
    """A version of the connector, as an import stores it."""
    cluster = there.cluster
    maps = pack(import_description(orjson.dumps(description)))
    connector = cluster[r.CONNECTORS].get(NAMESPACE, "shop")
    version = storage.version_manifest(
        connector, name=name, digest="0" * 64, maps=maps, siblings=cluster[r.CONNECTOR_VERSIONS].list()
    )
    version = await cluster.create(r.CONNECTOR_VERSIONS, version)
    for manifest in storage.config_maps(version, maps):
        await cluster.create(r.CONFIG_MAPS, manifest)


def system(there: ReconcileLoop) -> Any:
    return there.cluster[r.SYSTEMS].get(NAMESPACE, "shop")


def schemes(there: ReconcileLoop) -> list[str]:
    return [scheme["id"] for scheme in system(there)["spec"].get("authSchemeConfigs", ())]


async def test_base_url_domain_variables_and_auth_schemes_come_from_the_version() -> None:
    there = new()
    await imported(there, "one", described("https://shop.example/v1", key=KEY))
    await there.until_quiet()
    spec = system(there)["spec"]
    assert (spec["templateBaseUrl"], spec["domain"]) == ("https://shop.example/v1", "shop.example")
    assert spec["authSchemeConfigs"] == [
        {"id": "key", "description": "", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}
    ]
    assert there.ready(r.SYSTEMS, "shop")[:2] == ("True", "Valid")
    stored = there.cluster.objects[r.SYSTEMS][NAMESPACE, "shop"]
    assert stored["spec"] == {"name": "Shop", "connectorRef": {"name": "shop"}}
    assert stored["status"]["fromConnector"]["version"] == "one"


async def test_server_variables_have_their_defaults_and_a_connection_may_have_others() -> None:
    there = new()
    await imported(there, "one", described())
    await there.until_quiet()
    spec = system(there)["spec"]
    assert spec["variables"] == {"region": "eu"}
    assert connection_base_url({}, spec) == "https://eu.shop.example/v1"
    assert connection_base_url({"variables": {"region": "us"}}, spec) == "https://us.shop.example/v1"
    assert connection_base_url({"baseUrl": "https://mine.example"}, spec) == "https://mine.example"
    assert connection_base_url({}, {"templateBaseUrl": "https://{x}.example"}) == "https://{x}.example"


async def test_what_the_spec_says_wins() -> None:
    own = {"id": "key", "type": "basic-auth"}
    there = new(
        templateBaseUrl="https://other.example",
        domain="other.example",
        variables={"region": "us"},
        authSchemeConfigs=[own],
    )
    await imported(there, "one", described(key=KEY, more={"type": "http", "scheme": "basic"}))
    await there.until_quiet()
    spec = system(there)["spec"]
    assert (spec["templateBaseUrl"], spec["domain"]) == ("https://other.example", "other.example")
    assert spec["variables"] == {"region": "us"}
    assert (spec["authSchemeConfigs"][0], schemes(there)) == (own, ["key", "more"])


async def test_a_new_version_is_followed_unless_one_is_named() -> None:
    there = new()
    await imported(there, "one", described(key=KEY))
    await there.until_quiet()
    await imported(there, "two", described(other=KEY))
    await there.until_quiet()
    assert schemes(there) == ["other"]
    there.cluster.edited(r.SYSTEMS, "shop")["spec"]["connectorRef"]["version"] = "one"
    await there.until_quiet()
    assert schemes(there) == ["key"]
    assert await ReconcileLoop(there.cluster).until_quiet() == 0


async def test_a_scheme_that_lacks_something_is_told_and_can_be_completed() -> None:
    there = new()
    await imported(there, "one", described(key=KEY, login=IMPLICIT))
    await there.until_quiet()
    (finding,) = system(there)["status"]["authSchemes"]
    assert (finding["id"], finding["validationMessages"][0]["severity"]) == ("login", "warning")
    assert "tokenUrl is missing" in finding["validationMessages"][0]["text"]
    assert schemes(there) == ["key"]
    stored = there.cluster.edited(r.SYSTEMS, "shop")
    stored["spec"]["authSchemeConfigs"] = [{"id": "login", "type": "none"}]
    await there.until_quiet()
    assert "authSchemes" not in system(there)["status"]


async def test_what_is_missing_is_told_and_what_was_there_goes_on_to_work() -> None:
    there = new()
    await there.until_quiet()
    assert there.ready(r.SYSTEMS, "shop")[:2] == ("False", "ConnectorVersionNotFound")
    await imported(there, "one", described(key=KEY))
    await there.until_quiet()
    there.cluster.remove(r.CONNECTORS, "shop")
    await there.until_quiet()
    assert there.ready(r.SYSTEMS, "shop")[:2] == ("False", "ConnectorNotFound")
    assert schemes(there) == ["key"]


async def test_a_version_without_a_base_url_asks_for_one() -> None:
    there = new()
    await imported(there, "one", described(""))
    await there.until_quiet()
    assert there.ready(r.SYSTEMS, "shop")[:2] == ("False", "BaseUrlMissing")


async def test_a_connection_says_which_part_of_its_base_url_has_no_value() -> None:
    there = new(templateBaseUrl="https://{region}.{zone}.example", domain="shop.example")
    await imported(there, "one", described())
    there.cluster.put(
        r.CONNECTIONS, obj("Connection", "login", spec={"name": "l", "systemRef": {"name": "shop"}})
    )
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[1] == "VariableMissing"
    assert "no value for zone;" in there.ready(r.CONNECTIONS, "login")[2]
    there.cluster.edited(r.CONNECTIONS, "login")["spec"]["variables"] = {"zone": "a"}
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"


async def test_a_connection_can_use_a_scheme_of_the_connector() -> None:
    there = new()
    await imported(there, "one", described(key=KEY))
    credential = {"id": "main", "authSchemeConfigId": "key", "type": "none"}
    spec = {"name": "login", "systemRef": {"name": "shop"}, "credentials": [credential]}
    await there.changed(r.CONNECTIONS, obj("Connection", "login", spec=spec))
    assert there.ready(r.CONNECTIONS, "login")[0] == "False"
    await there.changed(r.SYSTEMS, there.cluster.objects[r.SYSTEMS][NAMESPACE, "shop"])
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"
