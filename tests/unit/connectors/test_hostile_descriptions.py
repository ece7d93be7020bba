"""Whatever is uploaded: a result or a sentence, never a crash, never a fetch."""

import socket
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tieline_core.connectors.descriptions.findings import UnreadableDescription
from tieline_core.connectors.descriptions.importer import import_description

SMALL = b'{"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "paths": {"/a": {"get": {"responses": {}}}}}'
ALIAS_BOMB = (
    "openapi: 3.0.0\na0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 10))
).encode()

UNREADABLE = {
    "nothing": b"",
    "white space": b" \n ",
    "100,000 brackets": b"[" * 100_000,
    "100,000 braces": b'{"a":' * 100_000,
    "braces 500 deep, closed": b'{"openapi": "3.0.0", "a": ' + b'{"a":' * 500 + b"1" + b"}" * 501,
    "an alias bomb": ALIAS_BOMB,
    "NUL characters": b'{"openapi": "3.0.0\0"}',
    "latin-1": '{"openapi": "3.0.0", "info": {"title": "Größe"}}'.encode("latin-1"),
    "UTF-16 without a mark": '{"openapi": "3.0.0"}'.encode("utf-16-le"),
    "binary": bytes(range(256)),
    "a zip": b"PK\x03\x04" + bytes(100),
    "a list": b"[1, 2]",
    "a word": b"hello",
    "two documents": b"--- {openapi: 3.0.0}\n--- {openapi: 3.0.0}\n",
    "no version": b'{"info": {}}',
    "OpenAPI 4": b'{"openapi": "4.0.0"}',
    "Swagger 1.2": b'{"swaggerVersion": "1.2"}',
    "a Python object": b"!!python/object/apply:os.system ['true']",
    "a version that is a map": b'{"openapi": {"a": 1}}',
}


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("an import must not use the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


@pytest.mark.parametrize("data", UNREADABLE.values(), ids=UNREADABLE.keys())
def test_what_cannot_be_read_is_refused_with_a_sentence(data: bytes) -> None:
    with pytest.raises(UnreadableDescription) as refused:
        import_description(data)
    assert 20 < len(str(refused.value)) < 600


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_marked_encodings_are_read(encoding: str) -> None:
    assert len(import_description(SMALL.decode().encode(encoding)).actions) == 1


@pytest.mark.parametrize(
    "data",
    [
        b'{"openapi": "3.0.0", "paths": {"/a": {"get": {}}}, "paths": {"/b": {"get": {}}, "/c": {"get": {}}}}',
        b"openapi: 3.0.0\npaths: {/a: {get: {}}}\npaths: {/b: {get: {}}, /c: {get: {}}}\n",
    ],
    ids=["json", "yaml"],
)
def test_of_duplicate_keys_the_last_counts_and_a_message_tells(data: bytes) -> None:
    result = import_description(data)
    assert [item["path"] for item in result.actions] == ["/b", "/c"]
    assert any("twice" in message["text"] and "paths" in message["text"] for message in result.messages)


@pytest.mark.parametrize(
    "reference", ["http://127.0.0.1:9/x.json", "file:///etc/passwd", "other.yaml#/a", "#/nowhere", "//h/x"]
)
def test_references_to_elsewhere_are_told_and_never_fetched(reference: str) -> None:
    schema = {"$ref": reference}
    content = {"application/json": {"schema": schema}}
    description = {
        "openapi": "3.0.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/a": {"post": {"requestBody": {"content": content}, "responses": {}}, "$ref": reference}},
        "components": {"schemas": {"A": {"properties": {"b": schema}}}},
    }
    result = import_description(orjson.dumps(description))
    told = [message for message in result.messages if reference in message["text"]]
    assert any("#/components/schemas/A/properties/b/$ref" in message["detail"][0] for message in told)


def test_references_that_go_round_in_circles_end() -> None:
    circle = {"$ref": "#/components/parameters/B"}
    description = {
        "openapi": "3.1.0",
        "info": {"title": "T", "version": "1"},
        "paths": {"/a": {"$ref": "#/paths/~1a"}, "/b": {"get": {"parameters": [circle]}}},
        "components": {
            "parameters": {"A": circle, "B": {"$ref": "#/components/parameters/A"}},
            "schemas": {"Node": {"properties": {"next": {"$ref": "#/components/schemas/Node"}}}},
        },
    }
    result = import_description(orjson.dumps(description))
    assert [item["path"] for item in result.actions] == ["/b"]
    assert any("leads to itself" in message["text"] for message in result.messages)
    (node,) = result.definitions
    assert [user["name"] for user in node["referencedBy"]] == ["Node"]


def test_callbacks_that_call_themselves_end() -> None:
    description = {
        "openapi": "3.1.0",
        "paths": {"/a": {"post": {"callbacks": {"done": {"$ref": "#/components/callbacks/Done"}}}}},
        "components": {
            "callbacks": {
                "Done": {
                    "{$request.body#/url}": {
                        "post": {"callbacks": {"again": {"$ref": "#/components/callbacks/Done"}}}
                    }
                }
            }
        },
    }
    assert len(import_description(orjson.dumps(description)).triggers) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYS = st.sampled_from(
    ["paths", "webhooks", "components", "schemas", "securitySchemes", "get", "post", "parameters", "$ref",
     "requestBody", "responses", "content", "application/json", "schema", "callbacks", "servers", "variables",
     "flows", "implicit", "type", "oauth2", "name", "in", "200", "default", "/a", "info", "title", "enum",
     "definitions", "securityDefinitions", "consumes", "additionalOperations", "pattern", "security", "#/paths"]
)  # fmt: skip
LOOKALIKES = st.recursive(
    KEYS | st.none() | st.booleans() | st.integers(-5, 600),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=40,
)


@settings(max_examples=300)
@given(st.dictionaries(KEYS, LOOKALIKES, max_size=8), st.sampled_from(["2.0", "3.0.3", "3.1.0", "3.2.0"]))
def test_any_shape_of_description_gives_a_result(parts: dict[str, Any], version: str) -> None:
    key = "swagger" if version == "2.0" else "openapi"
    data = orjson.dumps({**parts, key: version})
    result = import_description(data)
    orjson.dumps([result.summary(), result.actions, result.triggers, result.definitions])
    assert import_description(data) == result


@settings(max_examples=200)
@given(st.binary(max_size=200) | JSON.map(lambda value: orjson.dumps(value) if _writable(value) else b""))
def test_any_bytes_give_a_result_or_a_sentence(data: bytes) -> None:
    try:
        import_description(data)
    except UnreadableDescription as refused:
        assert str(refused)  # noqa: PT017


def _writable(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True
