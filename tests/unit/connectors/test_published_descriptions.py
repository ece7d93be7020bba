"""Descriptions that the world publishes import, and nothing in them gets lost."""

import json
import tempfile
from typing import Any

import pytest
import yaml

from tests.harness.inputs import api_descriptions
from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.importer import import_description
from tieline_core.connectors.import_process import MIB, Importer, ImportLimits
from tieline_core.connectors.packing import MAP_BYTES, MAX_MAPS, head_of

METHODS = {"get", "put", "post", "delete", "options", "head", "patch", "trace"}
FLOWS = {"implicit", "accessCode", "application", "authorizationCode", "clientCredentials", "password"}

NAMED = {"#/components/schemas", "#/definitions"}


class Count:
    """An independent count: a plain walk over what other parsers read, of descriptions with local references."""

    def __init__(self, data: bytes) -> None:
        text = data.decode()
        self.root: dict[str, Any] = (
            json.loads(text)
            if text.startswith("{")
            else yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        )
        self.operations = sum(
            1 for item in self.items(self.root.get("paths")) for key in item if key in METHODS
        )
        self.webhooks = sum(
            1 for item in self.items(self.root.get("webhooks")) for key in item if key in METHODS
        )
        components = self.root.get("components") or {}
        self.schemas = len(self.root.get("definitions") or components.get("schemas") or {})
        self.security = sum(
            self.flows(self.resolve(scheme))
            for scheme in (
                self.root.get("securityDefinitions") or components.get("securitySchemes") or {}
            ).values()
        )

    def items(self, found: Any) -> list[dict[str, Any]]:
        return [self.resolve(item) for key, item in (found or {}).items() if not str(key).startswith("x-")]

    def resolve(self, node: Any) -> dict[str, Any]:
        while isinstance(node, dict) and "$ref" in node:
            target: Any = self.root
            for step in node["$ref"].split("/")[1:]:
                target = target[step.replace("~1", "/").replace("~0", "~")]
            node = target
        return node or {}

    @staticmethod
    def flows(scheme: dict[str, Any]) -> int:
        if scheme["type"] == "oauth2":
            return len(FLOWS & set(scheme["flows"])) if "flows" in scheme else 1
        if scheme["type"] == "http":
            return int(scheme["scheme"].lower() in ("basic", "bearer"))
        return int(scheme["type"] in ("basic", "apiKey", "openIdConnect", "mutualTLS"))


def check(result: ImportResult, count: Count) -> None:
    assert len(result.actions) == count.operations
    assert len(result.triggers) >= count.webhooks
    named = [item for item in result.definitions if item["url"].rpartition("/")[0] in NAMED]
    assert len(named) == count.schemas
    assert len([item for item in result.auth_schemes if item["type"] != "none"]) == count.security
    identifiers = [item["id"] for item in (*result.definitions, *result.actions, *result.triggers)]
    assert len(set(identifiers)) == len(identifiers)
    names = [item["name"] for item in result.actions]
    assert len(set(names)) == len(names)
    known = {item["id"] for item in result.definitions}
    for item in (*result.actions, *result.triggers):
        used = [*item.get("requestBody", {}).get("definitions", [])]
        used += [found for response in item["responses"] for found in response["definitions"]]
        assert {found["id"] for found in used} <= known


@pytest.fixture(scope="module")
def examples() -> dict[str, bytes]:
    return dict(api_descriptions.examples())


def test_all_129_example_descriptions_import_and_every_operation_schema_and_scheme_is_there(
    examples: dict[str, bytes],
) -> None:
    assert len(examples) == 129
    for data in examples.values():
        check(import_description(data), Count(data))


def test_the_same_description_in_json_and_yaml_has_the_same_actions(examples: dict[str, bytes]) -> None:
    pairs = [
        (data, examples[name.replace("/json/", "/yaml/").replace(".json", ".yaml")])
        for name, data in examples.items()
        if "/json/" in name and name.replace("/json/", "/yaml/").replace(".json", ".yaml") in examples
    ]
    assert len(pairs) > 30
    for left, right in pairs:
        one, two = import_description(left), import_description(right)
        assert [item["name"] for item in one.actions] == [item["name"] for item in two.actions]
        assert len(one.definitions) == len(two.definitions)


def test_githubs_description_imports_whole() -> None:
    data = api_descriptions.github()
    result = import_description(data)
    check(result, Count(data))
    assert (len(result.actions), len(result.triggers)) == (1223, 270)


def test_kubernetes_own_swagger_imports_whole() -> None:
    data = api_descriptions.kubernetes()
    result = import_description(data)
    check(result, Count(data))
    assert len(result.actions) > 1000
    pod = next(item for item in result.definitions if item["name"] == "io.k8s.api.core.v1.PodSpec")
    assert "io.k8s.api.core.v1.PodTemplateSpec" in {item["name"] for item in pod["referencedBy"]}


async def test_47_mb_with_22_000_operations_import_in_the_memory_that_a_deployed_server_leaves() -> None:
    data = api_descriptions.large()
    assert len(data) > 47_000_000
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        maps = await Importer(ImportLimits(memory=704 * MIB)).run(file)
    head = head_of(maps[0])
    assert (head["actions"], head["triggers"]) == (22_014, 270)
    assert all(sum(map(len, content.values())) <= MAP_BYTES for content in maps)
    assert len(maps) <= MAX_MAPS
