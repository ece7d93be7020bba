"""GraphQL schemas as others wrote them, read from SDL or from the answer to an introspection query.

It needs graphql-core, which pods do not have: nothing that they load imports this module.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLError,
    GraphQLScalarType,
    GraphQLSchema,
    IntrospectionQuery,
    Source,
    build_ast_schema,
    build_client_schema,
    parse,
    validate_schema,
)
from graphql.validation.validate import validate_sdl

Json = dict[str, Any]

MAX_TOKENS = 2_000_000
MAX_CHOICES = 1_000
"""The most values of an enumeration that a schema lists."""
_MAX_ERRORS = 20
_SHOWN = 300
_SCALARS: Mapping[str, Json] = {
    "Int": {"type": "integer"},
    "Float": {"type": "number"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": "string"},
    # Of schemas' own making; everybody writes them as texts.
    **{name: {"type": "string"} for name in ("DateTime", "Date", "Time", "URI", "URL", "HTML", "UUID")},
}


class SchemaUnreadableError(Exception):
    """There is no GraphQL schema; the message says why."""


@dataclass(frozen=True, kw_only=True)
class ReadSchema:
    """A schema, and what is wrong with it: published ones have errors, which rarely matter to the operations."""

    schema: GraphQLSchema
    problems: Sequence[str] = ()


def read_schema(content: bytes, name: str) -> ReadSchema:
    """A schema from SDL, or from the answer to an introspection query. Raises SchemaUnreadableError."""
    problems: list[str] = []
    try:
        text = content.decode("utf-8-sig")
        if text.lstrip().startswith("{"):
            schema = build_client_schema(_introspection(json.loads(text), name))
        else:
            document = parse(Source(text, name), max_tokens=MAX_TOKENS)
            problems += map(error_text, validate_sdl(document))
            schema = build_ast_schema(document, assume_valid_sdl=True)
        problems += map(error_text, validate_schema(schema))
        if schema.query_type is None:
            raise SchemaUnreadableError(f"{name} is no GraphQL schema: it has no type Query")
        parts: dict[str, Any] = {**schema.to_kwargs(), "assume_valid": True}
        return ReadSchema(schema=GraphQLSchema(**parts), problems=problems)
    except RecursionError:
        raise SchemaUnreadableError(f"{name} is nested too deep") from None
    except GraphQLError as error:
        raise SchemaUnreadableError(f"{name} is no GraphQL schema: {error_text(error)}") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        found = "\n".join(problems[:_MAX_ERRORS]) or str(error)[:_SHOWN]
        raise SchemaUnreadableError(f"{name} is no GraphQL schema: {found}") from None


def error_text(error: GraphQLError) -> str:
    """An error with its places, in one line."""
    places = ", ".join(
        f"{error.source.name if error.source else 'document'}:{one.line}:{one.column}"
        for one in (error.locations or [])[:3]
    )
    return f"{places}: {error.message[:_SHOWN]}" if places else error.message[:_SHOWN]


def leaf_schema(kind: Any) -> Json:
    """The JSON Schema of a scalar or an enumeration; anything goes for a scalar of the schema's own."""
    if isinstance(kind, GraphQLEnumType):
        values = list(kind.values)
        return {"type": "string", "enum": values} if len(values) <= MAX_CHOICES else {"type": "string"}
    if isinstance(kind, GraphQLScalarType):
        return dict(_SCALARS.get(kind.name, {}))
    return {}


def nullable(schema: Json) -> Json:
    """The same, or null."""
    if not schema:
        return {}
    members = schema["anyOf"] if schema.keys() == {"anyOf"} else [schema]
    return {"anyOf": [*members, {"type": "null"}]}


def object_schema(properties: Json, required: Sequence[str]) -> Json:
    """The JSON Schema of an object."""
    return {
        "type": "object",
        "properties": properties,
        **({"required": list(required)} if required else {}),
    }


def _introspection(content: Any, name: str) -> IntrospectionQuery:
    found = content.get("data") or content
    if not isinstance(found.get("__schema"), dict):
        raise SchemaUnreadableError(
            f"{name} has no __schema: give SDL, or the answer to an introspection query"
        )
    result: IntrospectionQuery = found
    return result
