"""The files of a connector as the command writes them, from a description's bytes."""

import json
from pathlib import Path
from typing import Any

from tieline.cli.connector_code.descriptions import description_of
from tieline.cli.connector_code.module import class_named, module_of
from tieline.connectors.description import Description, parse
from tieline_core.connectors.descriptions.importer import import_description

SHOP: dict[str, Any] = {
    "openapi": "3.0.3",
    "info": {"title": "Shop", "version": "1"},
    "paths": {
        "/orders": {
            "get": {
                "operationId": "listOrders",
                "summary": "List orders",
                "parameters": [
                    {"name": "state", "in": "query", "schema": {"type": "string", "enum": ["open", "paid"]}},
                    {"name": "tags", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
                    {
                        "name": "ids",
                        "in": "query",
                        "explode": False,
                        "schema": {"type": "array", "items": {}},
                    },
                    {"name": "after", "in": "query", "schema": {"type": "string"}},
                    {
                        "name": "total",
                        "in": "query",
                        "schema": {"type": "object", "properties": {"above": {"type": "integer"}}},
                    },
                ],
                "responses": {
                    "200": {
                        "description": "A page",
                        "content": {
                            "application/json": {
                                "schema": {
                                    "type": "object",
                                    "required": ["orders"],
                                    "properties": {
                                        "orders": {
                                            "type": "array",
                                            "items": {"$ref": "#/components/schemas/Order"},
                                        },
                                        "next": {"type": "string", "nullable": True},
                                    },
                                }
                            }
                        },
                    }
                },
            },
            "post": {
                "operationId": "createOrder",
                "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
                "requestBody": {
                    "required": True,
                    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
                },
                "responses": {
                    "201": {
                        "description": "Created",
                        "content": {
                            "application/json": {
                                "schema": {"$ref": "#/components/schemas/Order"},
                                "example": {"id": "7", "reference": "A-1", "lines": []},
                            }
                        },
                    }
                },
            },
        },
        "/orders/{id}": {
            "parameters": [{"name": "id", "in": "path", "required": True, "schema": {"type": "string"}}],
            "get": {
                "operationId": "getOrder",
                "responses": {
                    "200": {
                        "description": "It",
                        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Order"}}},
                    }
                },
            },
            "delete": {"operationId": "deleteOrder", "responses": {"204": {"description": "Gone"}}},
        },
        "/files": {
            "post": {
                "operationId": "upload",
                "requestBody": {
                    "content": {
                        "multipart/form-data": {
                            "schema": {
                                "type": "object",
                                "required": ["file"],
                                "properties": {
                                    "file": {"type": "string", "format": "binary"},
                                    "name": {"type": "string"},
                                },
                            }
                        }
                    }
                },
                "responses": {"200": {"description": "A receipt", "content": {"text/plain": {}}}},
            }
        },
    },
    "components": {
        "schemas": {
            "Order": {
                "type": "object",
                "description": "An order.",
                "required": ["id", "reference", "lines"],
                "properties": {
                    "id": {"type": "string", "readOnly": True},
                    "reference": {"type": "string", "description": "Your own number."},
                    "lines": {"type": "array", "items": {"$ref": "#/components/schemas/Line"}},
                    "note": {"type": "string", "nullable": True},
                    "parent": {"$ref": "#/components/schemas/Order"},
                },
            },
            "Line": {
                "type": "object",
                "required": ["sku"],
                "properties": {
                    "sku": {"type": "string"},
                    "quantity": {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
                    "from": {"type": "string"},
                },
            },
        }
    },
}


def file_of(description: dict[str, Any], name: str = "shop", only: set[str] | None = None) -> dict[str, Any]:
    """What ``connectors/<name>.json`` holds."""
    return file_of_bytes(json.dumps(description).encode(), name, only)


def file_of_bytes(data: bytes, name: str = "shop", only: set[str] | None = None) -> dict[str, Any]:
    """The same, of a description as it is published."""
    result = import_description(data)
    found = description_of(
        connector={"id": "01", "name": result.title},
        version={"name": "1"},
        actions=[action for action in result.actions if only is None or action["name"] in only],
        definitions=result.definitions,
        class_named=class_named(name),
    )
    content: dict[str, Any] = json.loads(json.dumps(found))
    return content


def source_of(description: dict[str, Any], name: str = "shop", *, plain: bool = False) -> str:
    """What ``connectors/<name>.py`` holds."""
    return module_of(file_of(description, name), name, plain=plain)


def parsed(description: dict[str, Any], name: str = "shop") -> Description:
    """The description as pods have it."""
    return parse(name, file_of(description, name))


def write_files(
    description: dict[str, Any], folder: Path, name: str = "shop", only: set[str] | None = None
) -> None:
    """Write both files into a project's folder."""
    content = file_of(description, name, only)
    (folder / "connectors").mkdir()
    (folder / f"connectors/{name}.json").write_text(json.dumps(content))
    (folder / f"connectors/{name}.py").write_text(module_of(content, name))
