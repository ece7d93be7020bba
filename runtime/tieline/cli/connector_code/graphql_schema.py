"""GraphQL schemas and documents as others wrote them: read, checked, and refused with the place of each error."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graphql import (
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    IntrospectionQuery,
    OperationDefinitionNode,
    OperationType,
    Source,
    build_ast_schema,
    build_client_schema,
    parse,
    print_ast,
    validate,
    validate_schema,
    visit,
)
from graphql.language import DocumentNode, Visitor
from graphql.validation.validate import validate_sdl

from tieline.cli.exit_codes import CommandError

MAX_SCHEMA_BYTES = 16 * 2**20
MAX_DOCUMENT_BYTES = 2**20
_MAX_TOKENS = 2_000_000
_MAX_ERRORS = 20
_SHOWN = 300


@dataclass(frozen=True, kw_only=True)
class NamedOperation:
    """One operation of the documents."""

    name: str
    node: OperationDefinitionNode
    fragments: Mapping[str, FragmentDefinitionNode]
    """Those that it uses, directly or not."""

    @property
    def text(self) -> str:
        """What is sent: the operation and its fragments alone."""
        return "\n\n".join(print_ast(node) for node in (self.node, *self.fragments.values()))


@dataclass(frozen=True, kw_only=True)
class ReadSchema:
    """A schema, and what is wrong with it: published ones have errors, which rarely matter to the operations."""

    schema: GraphQLSchema
    problems: Sequence[str] = ()


def schema_of(content: bytes, name: str) -> ReadSchema:
    """A schema from SDL, or from the answer to an introspection query. Raises CommandError."""
    if len(content) > MAX_SCHEMA_BYTES:
        raise CommandError(
            f"{name} has {len(content):,} bytes, and a schema has at most {MAX_SCHEMA_BYTES:,}"
        )
    problems: list[str] = []
    try:
        text = content.decode("utf-8-sig")
        if text.lstrip().startswith("{"):
            schema = build_client_schema(_introspection(json.loads(text), name))
        else:
            document = parse(Source(text, name), max_tokens=_MAX_TOKENS)
            problems += map(_text, validate_sdl(document))
            schema = build_ast_schema(document, assume_valid_sdl=True)
        problems += map(_text, validate_schema(schema))
        if schema.query_type is None:
            raise CommandError(f"{name} is no GraphQL schema: it has no type Query")
        parts: dict[str, Any] = {**schema.to_kwargs(), "assume_valid": True}
        return ReadSchema(schema=GraphQLSchema(**parts), problems=problems)
    except RecursionError:
        raise CommandError(f"{name} is nested too deep") from None
    except GraphQLError as error:
        raise CommandError(f"{name} is no GraphQL schema: {_text(error)}") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        found = "\n".join(problems[:_MAX_ERRORS]) or str(error)[:_SHOWN]
        raise CommandError(f"{name} is no GraphQL schema: {found}") from None


def _introspection(content: Any, name: str) -> IntrospectionQuery:
    found = content.get("data") or content
    if not isinstance(found.get("__schema"), dict):
        raise CommandError(f"{name} has no __schema: give SDL, or the answer to an introspection query")
    result: IntrospectionQuery = found
    return result


def operations_of(schema: GraphQLSchema, documents: Mapping[str, bytes]) -> list[NamedOperation]:
    """The operations of documents, by name, checked against the schema. Raises CommandError with all errors."""
    nodes = [node for name, content in documents.items() for node in _parsed(name, content).definitions]
    whole = DocumentNode(definitions=tuple(nodes))
    try:
        errors = validate(schema, whole, max_errors=_MAX_ERRORS)
    except RecursionError:
        raise CommandError("The documents are nested too deep") from None
    if errors:
        raise CommandError(
            "The documents do not follow the schema:\n" + "\n".join(_text(error) for error in errors)
        )
    fragments = {node.name.value: node for node in nodes if isinstance(node, FragmentDefinitionNode)}
    found = []
    for node in nodes:
        if not isinstance(node, OperationDefinitionNode):
            continue
        if node.name is None:
            raise CommandError(f"An operation has no name; write `{node.operation.value} Name {{ … }}`")
        if node.operation is OperationType.SUBSCRIPTION:
            raise CommandError(f"{node.name.value} is a subscription, which ctx.graphql cannot send")
        used = _used(node, fragments)
        found.append(NamedOperation(name=node.name.value, node=node, fragments=used))
    if not found:
        raise CommandError(f"There is no operation in {', '.join(documents) or 'no document'}")
    return sorted(found, key=lambda one: one.name)


def _parsed(name: str, content: bytes) -> DocumentNode:
    if len(content) > MAX_DOCUMENT_BYTES:
        raise CommandError(
            f"{name} has {len(content):,} bytes, and a document has at most {MAX_DOCUMENT_BYTES:,}"
        )
    try:
        return parse(Source(content.decode("utf-8-sig"), name), max_tokens=_MAX_TOKENS)
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8") from None
    except RecursionError:
        raise CommandError(f"{name} is nested too deep") from None
    except GraphQLError as error:
        raise CommandError(f"{name} is no GraphQL document: {_text(error)}") from None


def _used(
    node: OperationDefinitionNode, fragments: Mapping[str, FragmentDefinitionNode]
) -> dict[str, FragmentDefinitionNode]:
    found: dict[str, FragmentDefinitionNode] = {}

    class Spreads(Visitor):
        def enter_fragment_spread(self, spread: FragmentSpreadNode, *_: object) -> None:
            name = spread.name.value
            if name not in found:
                found[name] = fragments[name]
                visit(fragments[name], self)

    visit(node, Spreads())
    return dict(sorted(found.items()))


def _text(error: GraphQLError) -> str:
    places = ", ".join(
        f"{error.source.name if error.source else 'document'}:{one.line}:{one.column}"
        for one in (error.locations or [])[:3]
    )
    return f"{places}: {error.message[:_SHOWN]}" if places else error.message[:_SHOWN]
