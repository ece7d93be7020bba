"""Descriptions made at random, each valid: nothing of them gets lost, in JSON and YAML, whatever the version."""

from collections import Counter
from typing import Any

import orjson
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_core.connectors.descriptions.importer import import_description
from tieline_core.connectors.packing import all_lines, head_of, pack

NAMES = st.text(alphabet="abcXYZ09_~/%{} ä", min_size=1, max_size=6)
WORDS = st.text(alphabet="abcdefgh", min_size=1, max_size=5)
METHODS = st.sampled_from(["get", "put", "post", "delete", "patch", "head", "options", "trace"])
ANSWERS = st.dictionaries(
    st.sampled_from(["200", "201", "404", "5XX", "default"]), st.just({"description": "ok"}), min_size=1
)
SCHEMES: list[dict[str, Any]] = [
    {"type": "apiKey", "name": "X-Key", "in": "header"},
    {"type": "http", "scheme": "basic"},
    {"type": "http", "scheme": "bearer"},
    {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://a.example/t", "scopes": {}}}},
    {"type": "openIdConnect", "openIdConnectUrl": "https://a.example/.well-known/openid-configuration"},
]


@st.composite
def schemas(draw: st.DrawFn) -> dict[str, Any]:
    """Named schemas that refer to each other, in circles too."""
    names = draw(st.lists(NAMES, unique=True, max_size=5))
    return {
        name: {
            "type": "object",
            "properties": {
                f"p{number}": {"$ref": f"#/components/schemas/{pointer(target)}"}
                for number, target in enumerate(draw(st.lists(st.sampled_from(names), max_size=3)))
            },
        }
        for name in names
    }


@st.composite
def operations(draw: st.DrawFn, named: list[str]) -> dict[str, Any]:
    operation: dict[str, Any] = {"responses": draw(ANSWERS)}
    if draw(st.booleans()):
        operation["operationId"] = draw(WORDS)
    if named and draw(st.booleans()):
        schema = {"$ref": f"#/components/schemas/{pointer(draw(st.sampled_from(named)))}"}
        operation["requestBody"] = {"content": {"application/json": {"schema": schema}}}
    return operation


@st.composite
def descriptions(draw: st.DrawFn) -> dict[str, Any]:
    found = draw(schemas())
    items = st.dictionaries(METHODS, operations(list(found)), max_size=3)
    return {
        "openapi": draw(st.sampled_from(["3.1.0", "3.1.1", "3.2.0"])),
        "info": {"title": draw(WORDS), "version": "1"},
        "paths": draw(st.dictionaries(WORDS.map(lambda word: f"/{word}"), items, max_size=5)),
        "webhooks": draw(st.dictionaries(WORDS, items, max_size=3)),
        "components": {
            "schemas": found,
            "securitySchemes": draw(st.dictionaries(WORDS, st.sampled_from(SCHEMES), max_size=4)),
        },
    }


def pointer(name: str) -> str:
    escaped = name.replace("~", "~0").replace("/", "~1")
    return escaped.replace("%", "%25")


def count(items: dict[str, dict[str, Any]]) -> int:
    return sum(len(item) for item in items.values())


def referrers(found: dict[str, Any]) -> Counter[tuple[str, str]]:
    """Who refers to whom, by a walk of its own."""
    pairs: Counter[tuple[str, str]] = Counter()
    for name, schema in found.items():
        targets = {used["$ref"] for used in schema["properties"].values()}
        for target in found:
            if f"#/components/schemas/{pointer(target)}" in targets:
                pairs[target, name] += 1
    return pairs


@settings(max_examples=50)
@given(descriptions())
def test_nothing_gets_lost(description: dict[str, Any]) -> None:
    result = import_description(orjson.dumps(description))
    components = description["components"]
    assert len(result.actions) == count(description["paths"])
    assert len(result.triggers) == count(description["webhooks"])
    assert len(result.definitions) == len(components["schemas"])
    kept = [scheme for scheme in result.auth_schemes if scheme["type"] != "none"]
    assert len(kept) == len(components["securitySchemes"])
    names = [item["name"] for item in (*result.actions, *result.triggers)]
    assert len(set(names)) == len(names)
    found: Counter[tuple[str, str]] = Counter()
    for item in result.definitions:
        for user in item["referencedBy"]:
            found[item["name"], user["name"]] += 1
    assert found == referrers(components["schemas"])
    assert not [message for message in result.messages if message["severity"] == "error"]


@settings(max_examples=25)
@given(descriptions())
def test_yaml_says_the_same_and_what_is_stored_is_all(description: dict[str, Any]) -> None:
    one = import_description(orjson.dumps(description))
    two = import_description(yaml.safe_dump(description, allow_unicode=True, sort_keys=False).encode())
    assert [item["name"] for item in one.actions] == [item["name"] for item in two.actions]
    maps = pack(one)
    assert head_of(maps[0])["actions"] == len(one.actions)
    assert [orjson.loads(line) for line in all_lines(maps, "actions")] == one.actions
    assert [orjson.loads(line) for line in all_lines(maps, "triggers")] == one.triggers
