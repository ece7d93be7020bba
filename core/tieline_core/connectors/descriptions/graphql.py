"""GraphQL schemas: each field of the types Query and Mutation becomes an action with a document that calls it.

A schema has no operations; clients write them. The documents that are made here select the leaves of the answer and of
what it refers to, so that an operation can be found, tried and called; authors who need others write their own.
"""

from collections.abc import Iterator
from typing import Any

import orjson
from graphql import (
    GraphQLArgument,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLNonNull,
    get_nullable_type,
    is_required_argument,
    is_required_input_field,
)

from tieline_core.connectors.descriptions.document import Document
from tieline_core.connectors.descriptions.findings import UnreadableDescription, cut, escaped
from tieline_core.connectors.descriptions.graphql_selection import Selection, is_connection, schema_of
from tieline_core.objects import Json
from tieline_protocol.graphql_schemas import (
    ReadSchema,
    SchemaUnreadableError,
    leaf_schema,
    nullable,
    object_schema,
    read_schema,
)

_MAX_TEXT = 4096
_MAX_SUMMARY = 200
_MAX_ARGUMENTS = 100
_MAX_PROBLEMS = 20
_JSON = "application/json"


def read_graphql(data: bytes) -> ReadSchema:
    """The schema of a description. Raises UnreadableDescription."""
    try:
        return read_schema(data, "The file")
    except SchemaUnreadableError as refused:
        raise UnreadableDescription(str(refused)) from None


def operations(read: ReadSchema, document: Document) -> tuple[list[Json], list[Json]]:
    """Definitions and actions, in the order of the schema."""
    for problem in read.problems[:_MAX_PROBLEMS]:
        document.findings.warning(f"The schema has an error: {problem}")
    if len(read.problems) > _MAX_PROBLEMS:
        document.findings.info(
            f"{len(read.problems) - _MAX_PROBLEMS} more errors of the schema are not shown"
        )
    schema = read.schema
    if schema.subscription_type is not None:
        document.findings.info("Subscriptions are left out: they are no requests with an answer")
    maker = _Actions(document)
    roots = (("query", schema.query_type), ("mutation", schema.mutation_type))
    actions = [
        maker.action(kind, name, one)
        for kind, root in roots
        if root is not None
        for name, one in root.fields.items()
    ]
    return maker.definitions, actions


class _Actions:
    """Makes actions, with the definitions that they refer to."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._names: set[str] = set()
        self._inputs: dict[str, Json] = {}
        self._by_url: dict[str, Json] = {}
        self._waiting: list[tuple[GraphQLInputObjectType, Json]] = []
        self.definitions: list[Json] = []

    def action(self, kind: str, name: str, one: GraphQLField) -> Json:
        """The action that calls one field of a root type."""
        try:
            return self._action(kind, name, one)
        except RecursionError:
            raise UnreadableDescription("The schema is nested too deep") from None

    def _action(self, kind: str, name: str, one: GraphQLField) -> Json:
        location = f"#/{kind}/{escaped(name)}"
        called = self._free(name, kind)
        arguments = _arguments(one)
        text, answer = _document(kind, called, name, one, arguments)
        about = one.description or ""
        errors: list[Json] = []
        if one.deprecation_reason is not None:
            note = f"Deprecated: {cut(one.deprecation_reason, 300)}"
            errors.append({"field": "name", "message": note, "severity": "warning"})
        result: Json = {
            "id": self._document.id_of(location),
            "errors": errors,
            "type": "http",
            "name": called,
            "summary": _first_line(about),
            "description": about[:_MAX_TEXT],
            "method": "POST",
            "path": "",
            "parameters": [],
            "responses": [
                {
                    "status": 200,
                    "id": self._document.id_of(f"{location}/answer"),
                    "definitions": [self._body(f"{location}/data", f"{called} data", answer)],
                }
            ],
            "graphql": {
                "kind": kind,
                "document": text,
                "arguments": [
                    {
                        "name": key,
                        "type": str(argument.type),
                        "required": is_required_argument(argument),
                        "description": (argument.description or "")[:_MAX_SUMMARY],
                    }
                    for key, argument in arguments.items()
                ],
                "answer": str(one.type),
            },
        }
        if "after" in arguments and is_connection(get_nullable_type(one.type)):
            result["graphql"]["pages"] = {"items": name, "parameter": "after"}
        if arguments:
            schema = self._variables(arguments)
            self._define_inputs()
            result["requestBody"] = {
                "required": bool(schema.get("required")),
                "definitions": [self._body(f"{location}/variables", f"{called} variables", schema)],
            }
        self._document.spend(len(orjson.dumps(result)))
        return result

    def _free(self, name: str, kind: str) -> str:
        """The field's name; a mutation that is called like a query has its kind in front."""
        found = name if name not in self._names else f"{kind}_{name}"
        while found in self._names:
            found += "_"
        self._names.add(found)
        return found

    def _variables(self, arguments: dict[str, GraphQLArgument]) -> Json:
        properties = {}
        for key, argument in arguments.items():
            properties[key] = self._of(argument.type)
            if argument.description and "$ref" not in properties[key]:
                properties[key] = {**properties[key], "description": argument.description[:_MAX_SUMMARY]}
        required = [key for key, argument in arguments.items() if is_required_argument(argument)]
        return object_schema(properties, required) | {"additionalProperties": False}

    def _of(self, kind: Any) -> Json:
        if isinstance(kind, GraphQLNonNull):
            return self._plain(kind.of_type)
        return nullable(self._plain(kind))

    def _plain(self, kind: Any) -> Json:
        if isinstance(kind, GraphQLList):
            return {"type": "array", "items": self._of(kind.of_type)}
        if isinstance(kind, GraphQLInputObjectType):
            return {"$ref": self._input(kind)["url"]}
        return leaf_schema(kind)

    def _input(self, kind: GraphQLInputObjectType) -> Json:
        found = self._inputs.get(kind.name)
        if found is None:
            found = self._define(f"#/types/{escaped(kind.name)}", kind.name, kind.description or "")
            self._inputs[kind.name] = found
            self._waiting.append((kind, found))
        return found

    def _define_inputs(self) -> None:
        """Gives input objects their schemas; they may refer to each other in long chains."""
        while self._waiting:
            kind, found = self._waiting.pop()
            properties = {key: self._of(one.type) for key, one in kind.fields.items()}
            required = [key for key, one in kind.fields.items() if is_required_input_field(one)]
            self._finish(found, object_schema(properties, required) | {"additionalProperties": False})

    def _body(self, location: str, name: str, schema: Json) -> Json:
        found = self._define(location, name, "")
        found["accept"].append(_JSON)
        self._finish(found, schema)
        return {"id": found["id"], "definition": {"$ref": location}, "mediaTypes": [_JSON]}

    def _define(self, location: str, name: str, about: str) -> Json:
        found: Json = {
            "id": self._document.id_of(location),
            "name": name[:256],
            "accept": [],
            "description": about[:_MAX_TEXT],
            "url": location,
            "referencedBy": [],
            "schema": {},
        }
        self.definitions.append(found)
        self._by_url[location] = found
        return found

    def _finish(self, definition: Json, schema: Json) -> None:
        """Gives a definition its schema, and tells those that it refers to."""
        definition["schema"] = schema
        self._document.spend(len(orjson.dumps(schema)))
        referrer = {"type": "definition", "id": definition["id"], "name": definition["name"]}
        for url in dict.fromkeys(_references(schema)):
            self._by_url[url]["referencedBy"].append(referrer)


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"]
        for one in schema.values():
            yield from _references(one)
    elif isinstance(schema, list):
        for one in schema:
            yield from _references(one)


def _arguments(one: GraphQLField) -> dict[str, GraphQLArgument]:
    """The arguments that an operation passes on: all that are needed, and others that are not deprecated."""
    known = {
        key: argument
        for key, argument in one.args.items()
        if is_required_argument(argument) or argument.deprecation_reason is None
    }
    return {
        key: argument
        for number, (key, argument) in enumerate(known.items())
        if is_required_argument(argument) or number < _MAX_ARGUMENTS
    }


def _document(
    kind: str, called: str, name: str, one: GraphQLField, arguments: dict[str, GraphQLArgument]
) -> tuple[str, Json]:
    """The text of the operation, and the JSON Schema of its data."""
    selected = Selection().of(one.type)
    declared = ", ".join(f"${key}: {argument.type}" for key, argument in arguments.items())
    passed = ", ".join(f"{key}: ${key}" for key in arguments)
    head = f"{kind} {called}" + (f"({declared})" if declared else "")
    field = name + (f"({passed})" if passed else "") + (f" {selected.text(1)}" if selected else "")
    return f"{head} {{\n  {field}\n}}", object_schema({name: schema_of(one.type, selected)}, [name])


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")[:_MAX_SUMMARY]
