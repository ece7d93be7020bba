"""Descriptions as people write them: YAML's own ways, parts without names, shared parts; and what is said of them."""

from typing import Any

import orjson
import pytest

from tieline_core.connectors.descriptions.findings import UnreadableDescription
from tieline_core.connectors.descriptions.importer import import_description

OK = {"responses": {"200": {"description": "Fine"}}}


def described(**parts: Any) -> bytes:
    return orjson.dumps({"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, **parts})


MERGED = b"""
openapi: 3.0.3
info: {title: T, version: "1"}
x-common: &common
  summary: Common
  responses: {200: {description: Fine}}
x-named: &named {operationId: named, summary: Named}
paths:
  /a:
    get: {<<: *common, operationId: a}
    put:
      <<: [*named, *common]
    post:
      summary: Own
      <<: [*named, {description: More, <<: *common}]
"""


def test_merge_keys_are_merged_and_own_keys_count() -> None:
    result = import_description(MERGED)
    assert [(item["name"], item["summary"], item["description"]) for item in result.actions] == [
        ("a", "Common", ""),
        ("named", "Named", ""),
        ("named_2", "Own", "More"),
    ]
    assert all([response["status"] for response in item["responses"]] == [200] for item in result.actions)


def test_a_merge_key_that_merges_nothing_is_reported() -> None:
    result = import_description(b"openapi: 3.0.3\npaths: {/a: {get: {<<: 3}}}\n")
    assert any("merge key" in message["text"] for message in result.messages)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b'{"a":' * 1100 + b"1" + b"}" * 1100, "nested deeper than 1,024 levels"),
        (b"a: " + b"[" * 300 + b"]" * 300, "nested deeper than 255 levels"),
        (
            b"openapi: 3.0.0\ninfo:\n  title: a\n   bad: 1\n",
            "line 4, column 7: mapping values are not allowed",
        ),
        (b'{"openapi": "3.0.0", "paths": {]}', "no JSON: "),
        (b"--- {openapi: 3.0.0}\n--- {openapi: 3.0.0}\n", "2 YAML documents"),
        (b"openapi: 3.0.0\n---\nopenapi: 3.0.0\n---\n{}\n", "3 YAML documents"),
        (b"openapi: 3.0.0\nx-n: " + b"9" * 40_000, "more than 16384 digits"),
    ],
    ids=["deep json", "deep yaml", "yaml", "json", "two documents", "three documents", "digits"],
)
def test_a_refusal_names_the_cause(data: bytes, said: str) -> None:
    with pytest.raises(UnreadableDescription, match=said):
        import_description(data)


def test_digits_in_quotes_are_text() -> None:
    data = b'openapi: 3.0.0\ninfo: {title: "%s"}\n' % (b"9" * 40_000)
    assert import_description(data).title.startswith("999")


def test_parameters_without_a_name_are_told_where_they_are_used() -> None:
    parameters = [{"in": "query"}, {"$ref": "#/nowhere"}, {"in": "body"}, {"name": 7, "in": "query"}, 3]
    (action,) = import_description(described(paths={"/a": {"get": {**OK, "parameters": parameters}}})).actions
    assert [item["name"] for item in action["parameters"]] == ["7"]
    assert [error["message"] for error in action["errors"] if error["field"] == "parameters"] == [
        "Parameter 1 has no name and was left out",
        "Parameter 2 is no object, or refers to none, and was left out",
        "Parameter 3 has no name and was left out",
        "Parameter 5 is no object, or refers to none, and was left out",
    ]


def test_operations_that_share_a_callback_have_a_trigger_each() -> None:
    callbacks = {"done": {"$ref": "#/components/callbacks/Done"}}
    result = import_description(
        described(
            paths={
                "/a": {"post": {**OK, "operationId": "a", "callbacks": callbacks}},
                "/b": {"post": {**OK, "operationId": "b", "callbacks": callbacks}},
            },
            components={
                "callbacks": {"Done": {"{$request.body#/url}": {"post": {**OK, "operationId": "done"}}}}
            },
        )
    )
    assert [item["name"] for item in result.triggers] == ["done", "b_done_post"]
    assert len({item["id"] for item in result.triggers}) == 2


def test_webhooks_that_share_an_item_are_triggers_of_their_own() -> None:
    shared = {"$ref": "#/components/pathItems/Told"}
    result = import_description(
        described(webhooks={"made": shared, "gone": shared}, components={"pathItems": {"Told": {"post": OK}}})
    )
    assert [item["name"] for item in result.triggers] == ["made_post", "gone_post"]
    assert len({item["id"] for item in result.triggers}) == 2


@pytest.mark.parametrize(
    ("scheme", "said"),
    [
        ({"in": "header"}, "it has no name"),
        ({"in": "header", "name": "a b"}, '"a b" is no name of a parameter'),
        ({"name": "key"}, "it does not say where the key is sent"),
    ],
)
def test_an_api_key_that_is_left_out_says_what_it_lacks(scheme: dict[str, str], said: str) -> None:
    result = import_description(
        described(components={"securitySchemes": {"K": {"type": "apiKey", **scheme}}})
    )
    (text,) = [message["text"] for message in result.messages if "left out" in message["text"]]
    assert said in text


def test_deviations_say_in_words_what_is_allowed() -> None:
    schema = {"content": {"application/json": {"schema": {"type": "objekt"}}}}
    operation = {"requestBody": schema, "responses": {"200": {"description": "ok"}}}
    description = {
        "openapi": "3.0.3",
        "info": {"title": "t", "version": "1"},
        "paths": {"items2": {}, "/items": {"post": operation}},
    }
    said = "\n".join(str(message) for message in import_description(orjson.dumps(description)).messages)
    assert 'a path must begin with a slash: "items2"' in said
    assert "the value must be one of array, boolean, integer, number, object, string" in said
    assert "keyword" not in said
    assert "unexpected" not in said
