"""The OpenAPI document is valid, complete, and its examples are true."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from openapi_spec_validator import validate

from tieline_api.handlers import OPERATIONS
from tieline_api.http.openapi import document
from tieline_api.http.operation import Operation
from tieline_api.http.request_body import validate as read
from tieline_api.schemas import examples


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return document(OPERATIONS, title="Tieline", version="1")


def _operations(openapi: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for methods in openapi["paths"].values():
        yield from methods.values()


def test_the_document_is_valid_openapi_3_1(openapi: dict[str, Any]) -> None:
    validate(openapi)
    assert openapi["openapi"].startswith("3.1")


def test_operation_ids_are_unique(openapi: dict[str, Any]) -> None:
    identifiers = [operation["operationId"] for operation in _operations(openapi)]
    assert len(identifiers) == len(set(identifiers)) == len(OPERATIONS)


def test_no_two_rows_have_the_same_method_and_path() -> None:
    rows = [(operation.method, operation.path) for operation in OPERATIONS]
    assert len(rows) == len(set(rows))


def test_every_answer_documents_its_errors(openapi: dict[str, Any]) -> None:
    for operation in _operations(openapi):
        if operation["operationId"] == "getMe":  # whoever has a token may ask who it is
            assert {"401", "429", "503"} <= operation["responses"].keys() - {"403", "404"}
            continue
        if operation["operationId"] in ("listCatalogue", "listProjectTemplates"):  # closed to end users alone
            assert {"401", "403", "429", "503"} <= operation["responses"].keys() - {"404"}
            continue
        assert {"401", "403", "404", "503"} <= operation["responses"].keys(), operation["operationId"]
        if "requestBody" in operation:
            assert {"400", "413", "415", "422"} <= operation["responses"].keys(), operation["operationId"]


def test_custom_resource_keywords_stay_out(openapi: dict[str, Any]) -> None:
    assert "x-kubernetes" not in str(openapi)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_examples_are_true(operation: Operation, openapi: dict[str, Any]) -> None:
    described = openapi["paths"][operation.path][operation.method.lower()]
    if operation.body is not None:
        assert operation.example is not None, "a body needs an example"
        _, unknown = read(operation.body, operation.example)
        assert unknown == []
        (content,) = described["requestBody"]["content"].values()
        _check(openapi, content)
    if operation.response is not None:
        assert operation.response_example is not None, "an answer needs an example"
        (content,) = described["responses"][str(operation.success)]["content"].values()
        _check(openapi, content)


def test_what_requests_take_beyond_the_type_of_answers_is_in_a_schema_of_their_own(
    openapi: dict[str, Any],
) -> None:
    """Generated clients keep the names of what they read, and may send null where it is accepted."""
    schemas = openapi["components"]["schemas"]
    assert all(re.fullmatch(r"[A-Za-z0-9]+", name) for name in schemas), "names that generators can use"
    read, sent = schemas["OAuth2Scheme"]["properties"], schemas["OAuth2SchemeInput"]["properties"]
    assert read["defaultScopes"]["type"] == "array"
    assert {"type": "null"} in sent["defaultScopes"]["anyOf"]
    assert {"type": "string", "maxLength": 0} in sent["id"]["anyOf"]
    assert schemas["SystemPage"]["properties"]["items"]["items"]["$ref"].endswith("/System")


def test_each_schema_has_a_title_of_its_own(openapi: dict[str, Any]) -> None:
    titles = [node["title"] for node in _nodes(openapi["components"]) if isinstance(node.get("title"), str)]
    assert sorted(titles) == sorted({*openapi["components"]["schemas"]}), "generators name types by titles"


def test_nullable_fields_have_no_default_but_null(openapi: dict[str, Any]) -> None:
    nullable = [one for one in _nodes(openapi) if {"type": "null"} in one.get("anyOf", ())]
    assert nullable
    assert not [one for one in nullable if one.get("default") is not None]
    field = openapi["components"]["schemas"]["ConnectSessionCreate"]["properties"]["expiresIn"]
    assert field["description"].endswith("Default: `1800`.")


def test_every_example_belongs_to_an_operation() -> None:
    models = {model.__name__ for one in OPERATIONS for model in (one.body, one.response) if model is not None}
    assert examples.MODELS.keys() <= models
    assert examples.OPERATIONS.keys() <= {one.id for one in OPERATIONS}


def test_no_example_has_a_reference(openapi: dict[str, Any]) -> None:
    """Generators follow references wherever they stand."""
    assert not [example for example in _examples(openapi) if '"$ref"' in json.dumps(example)]


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _nodes(child)


def _examples(openapi: dict[str, Any]) -> Iterator[Any]:
    for node in _nodes(openapi):
        yield from (node[key] for key in ("example", "examples") if key in node)


def test_descriptions_speak_to_users(openapi: dict[str, Any]) -> None:
    for operation in _operations(openapi):
        text = operation["description"]
        assert not re.search(r"\bS\d+\b", text), f"a number of a specification: {text}"
        assert not text.lower().startswith("the same"), f"refers to another operation's text: {text}"
        assert text.partition(" Requires the Kubernetes permission ")[0].endswith("."), text


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_every_row_says_what_it_does(operation: Operation) -> None:
    assert operation.handler.__doc__
    open_to_all = ("/api/v2/me", "/api/v2/connect/session", "/api/v2/catalogue", "/api/v2/project-templates")
    for_everyone = operation.path.startswith(open_to_all)
    assert operation.permissions or for_everyone, "every caller reads about itself, and the catalogue"
    assert operation.method in {"GET", "POST", "PUT", "PATCH", "DELETE"} or operation.proxies


def _check(openapi: dict[str, Any], content: dict[str, Any]) -> None:
    schema = {**content["schema"], "components": openapi["components"]}
    jsonschema.Draft202012Validator(schema).validate(content["example"])
