"""Examples of connectors for the OpenAPI document; a test checks each against its schema."""

from tieline_api.schemas.examples import ORGANISATION_ID, SYSTEM, TIME, Example, page

CONNECTOR_ID = "01JD3YFM7CZX9KQW8T2V4N6P0K"
VERSION_ID = "01JD3YFM7C5TQ0M3H7RS8XA1BK"
DEFINITION_ID = "3B7Q9XKD2M5TQ0M3H7RS8XA1BM"
ACTION_ID = "3B7Q9XKD2M8F3XK5D1VJ7Q4M6P"
TRIGGER_ID = "3B7Q9XKD2MZX9KQW8T2V4N6P0N"

METADATA: Example = {"format": "openapi", "version": "2026-11"}
VERSION: Example = {
    "id": VERSION_ID,
    "name": "2026-11",
    "description": "",
    "isLatest": True,
    "isDefault": True,
    "createdAt": TIME,
    "updatedAt": TIME,
    "publishedAt": TIME,
}
CONNECTOR: Example = {
    "id": CONNECTOR_ID,
    "organisationId": ORGANISATION_ID,
    "name": "Shop",
    "public": False,
    "tags": {},
    "protocol": "http",
    "authSchemeConfigs": [
        {
            "id": "key",
            "description": "",
            "validationMessages": [],
            "schemeType": "api-key",
            "apiKey": {"name": "X-API-Key", "in": "header"},
        }
    ],
    "connectionVariables": [{"name": "region", "value": "eu"}],
    "connections": [],
    "versions": [VERSION],
    "createdAt": TIME,
    "updatedAt": TIME,
    "baseUrl": "https://{region}.shop.example/v1",
}
DEFINITION: Example = {
    "id": DEFINITION_ID,
    "name": "Order",
    "accept": ["application/json"],
    "description": "An order",
    "url": "#/components/schemas/Order",
    "referencedBy": [],
}
DEFINITION_WITH_SCHEMA: Example = {
    **DEFINITION,
    "schema": {"type": "object", "properties": {"id": {"type": "string"}}},
}
_BODY: Example = {"id": DEFINITION_ID, "definition": {"$ref": "#/components/schemas/Order"}}
ACTION: Example = {
    "id": ACTION_ID,
    "errors": [],
    "type": "http",
    "name": "getOrder",
    "summary": "One order",
    "description": "",
    "method": "GET",
    "path": "/orders/{id}",
    "parameters": [{"name": "id", "in": "path", "required": True, "type": "string", "completion": []}],
    "responses": [{"status": 200, "id": "3B7Q9XKD2M0000000000000000", "definitions": [_BODY]}],
}
TRIGGER: Example = {
    "id": TRIGGER_ID,
    "errors": [],
    "type": "http",
    "name": "newOrder_post",
    "summary": "",
    "description": "",
    "method": "POST",
    "parameters": [],
    "requestBody": {"required": True, "definitions": [_BODY]},
    "responses": [],
}
SYSTEM_FROM_VERSION: Example = {
    **SYSTEM,
    "messages": [
        {
            "text": "login: The connector's auth scheme cannot be used as it is: oauth2.tokenUrl is missing; "
            "add the whole scheme to the system under this id",
            "severity": "warning",
        }
    ],
}
RESULT: Example = {
    "connector": CONNECTOR,
    "definitions": [DEFINITION],
    "actions": [ACTION],
    "triggers": [TRIGGER],
    "messages": [{"text": "The description names no server: set the base URL yourself", "severity": "info"}],
}

__all__ = ["ACTION", "CONNECTOR", "DEFINITION", "METADATA", "RESULT", "TRIGGER", "VERSION", "page"]
