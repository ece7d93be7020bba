"""What a description becomes: actions, triggers, definitions, auth schemes, servers, messages."""

from typing import Any

import orjson
import pytest
import yaml

from tieline_core.connectors.descriptions.import_result import ImportResult
from tieline_core.connectors.descriptions.importer import import_description
from tieline_core.identity.ids import parse_id
from tieline_core.resources.auth_schemes import AuthSchemeConfig

SHOP = yaml.safe_load("""
openapi: 3.1.0
info: {title: Shop, version: "7", description: Sells things}
servers:
- url: https://{region}.shop.example/{base}
  variables: {region: {default: eu, enum: [eu, us]}, base: {default: v1}}
paths:
  /orders/{id}:
    parameters:
    - {name: id, in: path, required: true, schema: {type: string}}
    get:
      operationId: getOrder
      summary: One order
      parameters:
      - {name: view, in: query, schema: {type: string, enum: [full, short], default: short}}
      responses:
        "200": {description: ok, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
        default: {description: bad, content: {application/problem+json: {schema: {type: object}}}}
    put:
      operationId: getOrder
      requestBody: {$ref: "#/components/requestBodies/Order"}
      responses: {4XX: {description: no}}
      callbacks:
        shipped:
          "{$request.body#/url}":
            post:
              requestBody: {content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
              responses: {"204": {description: ok}}
webhooks:
  newOrder:
    post:
      requestBody: {required: true, content: {application/json: {schema: {$ref: "#/components/schemas/Order"}}}}
      responses: {"200": {description: ok}}
components:
  requestBodies:
    Order: {required: true, content: {application/xml: {schema: {$ref: "#/components/schemas/Order"}}}}
  schemas:
    Order: {description: An order, properties: {lines: {type: array, items: {$ref: "#/components/schemas/Line"}}}}
    Line: {properties: {code: {type: string, pattern: "["}}}
""")


def imported(description: dict[str, Any]) -> ImportResult:
    return import_description(orjson.dumps(description))


def secured(**schemes: Any) -> ImportResult:
    return imported({"openapi": "3.1.0", "components": {"securitySchemes": schemes}, "paths": {}})


def by_name(items: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in items}


def test_an_action_has_its_parameters_body_and_responses() -> None:
    result = imported(SHOP)
    order = by_name(result.definitions)["Order"]
    action = by_name(result.actions)["getOrder"]
    assert (action["method"], action["path"], action["type"]) == ("GET", "/orders/{id}", "http")
    assert action["parameters"] == [
        {"name": "id", "in": "path", "required": True, "type": "string", "completion": []},
        {
            "name": "view",
            "in": "query",
            "required": False,
            "type": "string",
            "default": "short",
            "completion": ["full", "short"],
        },
    ]
    assert [response["status"] for response in action["responses"]] == [200, 0]
    (used,) = action["responses"][0]["definitions"]
    assert used == {
        "id": order["id"],
        "definition": {"$ref": "#/components/schemas/Order"},
        "mediaTypes": ["application/json"],
    }


def test_definitions_know_who_refers_to_them_and_their_media_types() -> None:
    definitions = by_name(imported(SHOP).definitions)
    order = definitions["Order"]
    assert definitions["Line"]["referencedBy"] == [{"type": "definition", "id": order["id"], "name": "Order"}]
    assert order["accept"] == ["application/json", "application/xml"]
    assert "getOrder response default" in definitions


def test_webhooks_and_callbacks_are_triggers() -> None:
    triggers = by_name(imported(SHOP).triggers)
    assert set(triggers) == {"newOrder_post", "getOrder_2_shipped_post"}
    assert triggers["newOrder_post"]["requestBody"]["required"] is True
    assert all("path" not in trigger for trigger in triggers.values())


def test_a_description_with_webhooks_only_works() -> None:
    result = imported({"openapi": "3.1.0", "info": SHOP["info"], "webhooks": SHOP["webhooks"]})
    assert (result.actions, len(result.triggers)) == ([], 1)


def test_an_operation_id_that_is_there_twice_is_told_and_made_unique() -> None:
    action = by_name(imported(SHOP).actions)["getOrder_2"]
    assert (action["errors"][0]["field"], action["errors"][0]["severity"]) == ("operationId", "warning")


def test_a_missing_operation_id_is_made_and_stays_the_same() -> None:
    description = {"openapi": "3.0.0", "paths": {"/pets/{petId}": {"get": {}}}}
    (action,) = imported(description).actions
    assert action["name"] == "get_pets_petId"
    assert action["errors"][0]["severity"] == "info"
    assert action["parameters"][0]["name"] == "petId"


def test_an_invalid_regular_expression_is_a_message_with_its_place() -> None:
    (message,) = [found for found in imported(SHOP).messages if "regular expression" in found["text"]]
    assert message["severity"] == "warning"
    assert message["detail"] == ["at #/components/schemas/Line/properties/code/pattern"]


def test_a_media_type_that_is_none_is_a_message_and_the_body_is_there() -> None:
    body = {"content": {"json": {"schema": {"type": "object"}}}}
    result = imported({"openapi": "3.1.0", "paths": {"/a": {"post": {"requestBody": body}}}})
    assert any('"json" is no media type' in message["text"] for message in result.messages)
    assert len(result.actions[0]["requestBody"]["definitions"]) == 1


def test_server_variables_become_connection_variables_with_their_defaults() -> None:
    result = imported(SHOP)
    assert result.base_url == "https://{region}.shop.example/{base}"
    assert result.variables == [{"name": "region", "value": "eu"}, {"name": "base", "value": "v1"}]


def test_the_same_bytes_have_the_same_ids_and_others_have_others() -> None:
    one, two = imported(SHOP), imported(SHOP)
    assert one == two
    identifiers = {item["id"] for item in (*one.actions, *one.triggers, *one.definitions)}
    assert all(parse_id(identifier) == identifier for identifier in identifiers)
    other = imported({**SHOP, "x-changed": True})
    assert identifiers.isdisjoint(item["id"] for item in other.actions)


@pytest.mark.parametrize(
    ("scheme", "expected"),
    [
        ({"type": "apiKey", "name": "X-Key", "in": "header"}, {"apiKey": {"name": "X-Key", "in": "header"}}),
        ({"type": "http", "scheme": "Basic"}, {"basicAuth": {}}),
        ({"type": "http", "scheme": "bearer"}, {"apiKey": {"name": "Authorization", "in": "header"}}),
        ({"type": "mutualTLS"}, {"certificate": {}}),
    ],
    ids=["api key", "basic", "bearer", "mutual TLS"],
)
def test_security_schemes_become_auth_schemes(scheme: dict[str, Any], expected: dict[str, Any]) -> None:
    (found,) = secured(it=scheme).auth_schemes
    assert found.items() >= expected.items()
    AuthSchemeConfig.model_validate(found)


def test_each_oauth_flow_becomes_a_scheme_and_implicit_becomes_authorisation_code_with_a_warning() -> None:
    authorize, token = "https://a.example/authorize", "https://a.example/token"
    flows = {
        "implicit": {"authorizationUrl": authorize, "scopes": {"read": "Reads"}},
        "authorizationCode": {"authorizationUrl": authorize, "tokenUrl": token, "scopes": {}},
        "clientCredentials": {"tokenUrl": token, "scopes": {}},
        "password": {"tokenUrl": token, "scopes": {}},
    }
    found = {item["id"]: item for item in secured(it={"type": "oauth2", "flows": flows}).auth_schemes}
    grants = {key: item["oauth2"]["grant"]["type"] for key, item in found.items()}
    assert grants == {
        "it-implicit": "authorizationCode",
        "it-authorizationCode": "authorizationCode",
        "it-clientCredentials": "clientCredentials",
        "it-password": "password",
    }
    assert [message["severity"] for message in found["it-implicit"]["validationMessages"]] == ["warning"]
    assert found["it-implicit"]["oauth2"]["scopes"] == [{"name": "read", "description": "Reads"}]
    for key in ("it-authorizationCode", "it-clientCredentials", "it-password"):
        AuthSchemeConfig.model_validate(found[key])


def test_open_id_connect_is_told_and_not_fetched() -> None:
    url = "https://id.example/.well-known/openid-configuration"
    (found,) = secured(it={"type": "openIdConnect", "openIdConnectUrl": url}).auth_schemes
    assert url in found["validationMessages"][0]["text"]


def test_a_description_without_authentication_has_the_scheme_none() -> None:
    assert [item["type"] for item in secured().auth_schemes] == ["none"]


def test_swagger_2_bodies_forms_and_base_url_are_read_as_they_are() -> None:
    description = {
        "swagger": "2.0",
        "host": "shop.example",
        "basePath": "/v1",
        "schemes": ["http", "https"],
        "consumes": ["application/json"],
        "produces": ["application/json"],
        "paths": {
            "/a": {
                "post": {
                    "operationId": "a",
                    "parameters": [
                        {"in": "body", "name": "b", "required": True, "schema": {"$ref": "#/definitions/A"}}
                    ],
                    "responses": {"200": {"schema": {"type": "array", "items": {"$ref": "#/definitions/A"}}}},
                },
                "put": {
                    "operationId": "b",
                    "parameters": [{"in": "formData", "name": "f", "type": "file"}],
                    "responses": {},
                },
            }
        },
        "definitions": {"A": {"type": "object"}},
        "securityDefinitions": {
            "o": {"type": "oauth2", "flow": "application", "tokenUrl": "https://t.example"}
        },
    }
    result = imported(description)
    assert result.base_url == "https://shop.example/v1"
    actions, definitions = by_name(result.actions), by_name(result.definitions)
    assert actions["a"]["requestBody"]["definitions"][0]["id"] == definitions["A"]["id"]
    assert actions["a"]["parameters"] == []
    assert definitions["b request"]["accept"] == ["multipart/form-data"]
    assert [user["name"] for user in definitions["A"]["referencedBy"]] == ["a response 200"]
    assert result.auth_schemes[0]["oauth2"]["grant"]["type"] == "clientCredentials"


def test_openapi_3_2_brings_query_and_additional_methods() -> None:
    item = {"query": {"operationId": "q"}, "additionalOperations": {"COPY": {"operationId": "c"}}}
    result = imported({"openapi": "3.2.0", "paths": {"/a": item}})
    assert [(action["name"], action["method"]) for action in result.actions] == [
        ("q", "QUERY"),
        ("c", "COPY"),
    ]


def test_what_calling_an_operation_takes_is_kept() -> None:
    array = {"type": "array", "items": {"type": "integer"}}
    content = {"application/json": {"schema": {}, "example": {"id": 7}}, "text/csv": {"schema": {}}}
    result = imported(
        {
            "openapi": "3.0.3",
            "info": {"title": "x", "version": "1"},
            "paths": {
                "/x": {
                    "get": {
                        "operationId": "x",
                        "parameters": [
                            {
                                "name": "ids",
                                "in": "query",
                                "style": "pipeDelimited",
                                "explode": False,
                                "schema": array,
                            },
                            {"name": "q", "in": "query", "schema": {"type": "string", "minLength": 3}},
                        ],
                        "responses": {
                            "2XX": {"description": "", "headers": {"Link": {}}, "content": content},
                            "404": {"description": ""},
                        },
                    }
                }
            },
        }
    )
    (action,) = result.actions
    ids, query = action["parameters"]
    assert (ids["schema"], ids["style"], ids["explode"]) == (array, "pipeDelimited", False)
    assert query["schema"] == {"type": "string", "minLength": 3}
    assert not query.keys() & {"style", "explode"}
    found, missing = action["responses"]
    assert (found["status"], found["range"], found["headers"]) == (200, True, ["Link"])
    assert not missing.keys() & {"range", "headers"}
    first, second = found["definitions"]
    assert (first["mediaTypes"], first["example"]) == (["application/json"], {"id": 7})
    assert (second["mediaTypes"], "example" in second) == (["text/csv"], False)


def test_lists_of_swagger_have_commas_unless_it_says_otherwise() -> None:
    parameters = [
        {"name": name, "in": "query", "type": "array", "items": {"type": "string"}, **more}
        for name, more in (
            ("a", {}),
            ("b", {"collectionFormat": "multi"}),
            ("c", {"collectionFormat": "pipes"}),
        )
    ]
    result = imported(
        {
            "swagger": "2.0",
            "info": {"title": "x", "version": "1"},
            "paths": {"/x": {"get": {"parameters": parameters, "responses": {"200": {"description": ""}}}}},
        }
    )
    written = [(item.get("style"), item["explode"]) for item in result.actions[0]["parameters"]]
    assert written == [(None, False), (None, True), ("pipeDelimited", False)]
