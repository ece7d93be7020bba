"""A Connector that refers to a description is imported, and says how that goes."""

import json
from typing import Any

import pytest

from tests.integration.operator.cluster_objects import NamespacedKubectl
from tieline_core.connectors.packing import head_of
from tieline_core.connectors.storage import content_of

pytestmark = pytest.mark.cluster

SHOP = json.dumps(
    {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "paths": {"/orders": {"get": {"responses": {"200": {"description": "ok"}}}}},
        "webhooks": {"newOrder": {"post": {}}},
        "components": {"schemas": {"Order": {"type": "object"}}},
    }
)


def with_description(acting: NamespacedKubectl, name: str, *parts: str, version: str = "one") -> None:
    """A Connector whose description is joined from the keys of a ConfigMap."""
    manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": acting.namespace},
        "data": {f"part{number}": part for number, part in enumerate(parts)},
    }
    acting.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(manifest))
    keys = [{"name": name, "key": f"part{number}"} for number in range(len(parts))]
    acting.apply("Connector", name, connector_spec(keys, version))


def connector_spec(keys: list[dict[str, str]], version: str) -> dict[str, Any]:
    return {"name": "Shop", "description": {"version": version, "configMaps": keys}}


def test_a_description_in_several_keys_becomes_a_version_with_its_result(acting: NamespacedKubectl) -> None:
    with_description(acting, "split", SHOP[:100], SHOP[100:])
    connector = acting.until_ready("connector", "split", "True", "Imported")
    assert connector["status"]["latestVersion"] == "one"
    assert "1 action, 1 trigger and 1 definition" in connector["status"]["conditions"][0]["message"]
    assert any("operationId" in message["text"] for message in connector["status"]["messages"])
    (version,) = [
        item for item in acting.list("connectorversion") if item["spec"]["connectorRef"]["name"] == "split"
    ]
    found = acting.until_ready("connectorversion", version["metadata"]["name"], "True", "Imported")
    assert (found["status"]["actions"], found["status"]["triggers"]) == (1, 1)
    first = acting.get("configmap", version["spec"]["configMaps"][0])
    assert head_of(content_of(first))["title"] == "Shop"
    assert first["metadata"]["ownerReferences"][0]["uid"] == version["metadata"]["uid"]


def test_a_description_that_cannot_be_read_says_why_and_heals_when_it_is_corrected(
    acting: NamespacedKubectl,
) -> None:
    with_description(acting, "broken", '{"openapi": "4.0"}')
    connector = acting.until_ready("connector", "broken", "False", "DescriptionUnreadable")
    assert connector["status"]["messages"][0]["severity"] == "error"
    with_description(acting, "broken", SHOP)
    acting.until_ready("connector", "broken", "True", "Imported")


def test_a_version_keeps_what_it_was_imported_from(acting: NamespacedKubectl) -> None:
    with_description(acting, "fixed", SHOP)
    acting.until_ready("connector", "fixed", "True", "Imported")
    with_description(acting, "fixed", SHOP.replace("/orders", "/items"))
    acting.until_ready("connector", "fixed", "False", "VersionTaken")
    with_description(acting, "fixed", SHOP.replace("/orders", "/items"), version="two")
    connector = acting.until_ready("connector", "fixed", "True", "Imported")
    assert connector["status"]["latestVersion"] == "two"


def test_a_missing_config_map_and_a_reserved_name_are_told(acting: NamespacedKubectl) -> None:
    acting.apply("Connector", "nothing", connector_spec([{"name": "nowhere", "key": "api.json"}], "one"))
    acting.until_ready("connector", "nothing", "False", "DescriptionMissing")
    with_description(acting, "reserved", SHOP, version="latest")
    acting.until_ready("connector", "reserved", "False", "VersionReserved")


def test_a_system_takes_from_a_connector_what_its_spec_leaves_out(acting: NamespacedKubectl) -> None:
    description = {
        **json.loads(SHOP),
        "servers": [{"url": "https://shop.example/{base}", "variables": {"base": {"default": "v1"}}}],
    }
    description["components"]["securitySchemes"] = {
        "key": {"type": "apiKey", "name": "X-Key", "in": "header"}
    }
    acting.apply("System", "from-connector", {"name": "Shop", "connectorRef": {"name": "source"}})
    acting.until_ready("system", "from-connector", "False", "ConnectorNotFound")
    with_description(acting, "source", json.dumps(description))
    found = acting.until_ready("system", "from-connector", "True", "Valid")
    assert found["spec"] == {"name": "Shop", "connectorRef": {"name": "source"}}
    given = found["status"]["fromConnector"]
    assert (given["version"], given["baseUrl"], given["domain"]) == (
        "one",
        "https://shop.example/{base}",
        "shop.example",
    )
    assert given["variables"] == [{"name": "base", "value": "v1"}]
    assert [scheme["id"] for scheme in given["authSchemeConfigs"]] == ["key"]
    credential = {"id": "main", "authSchemeConfigId": "key", "type": "none"}
    connection = {"name": "Login", "systemRef": {"name": "from-connector"}, "credentials": [credential]}
    acting.apply("Connection", "from-connector", connection)
    acting.until_ready("connection", "from-connector", "True", "Valid")


def test_a_system_without_a_connector_needs_a_domain_and_a_base_url(acting: NamespacedKubectl) -> None:
    with pytest.raises(AssertionError, match="unless connectorRef names a connector"):
        acting.apply("System", "incomplete", {"name": "Shop"})
