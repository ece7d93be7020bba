"""GraphQL schemas and documents as others wrote them: read, checked, and refused with the place of each error."""

from collections.abc import Mapping
from dataclasses import dataclass

from graphql import (
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
    Source,
    parse,
    print_ast,
    validate,
    visit,
)
from graphql.language import DocumentNode, Visitor

from tieline.cli.exit_codes import CommandError
from tieline_protocol.graphql_schemas import (
    MAX_TOKENS,
    ReadSchema,
    SchemaUnreadableError,
    error_text,
    read_schema,
)

MAX_SCHEMA_BYTES = 16 * 2**20
MAX_DOCUMENT_BYTES = 2**20
_MAX_ERRORS = 20


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


def schema_of(content: bytes, name: str) -> ReadSchema:
    """A schema from SDL, or from the answer to an introspection query. Raises CommandError."""
    if len(content) > MAX_SCHEMA_BYTES:
        raise CommandError(
            f"{name} has {len(content):,} bytes, and a schema has at most {MAX_SCHEMA_BYTES:,}"
        )
    try:
        return read_schema(content, name)
    except SchemaUnreadableError as error:
        raise CommandError(str(error)) from None


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
            "The documents do not follow the schema:\n" + "\n".join(error_text(error) for error in errors)
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
        return parse(Source(content.decode("utf-8-sig"), name), max_tokens=MAX_TOKENS)
    except UnicodeDecodeError:
        raise CommandError(f"{name} is not UTF-8") from None
    except RecursionError:
        raise CommandError(f"{name} is nested too deep") from None
    except GraphQLError as error:
        raise CommandError(f"{name} is no GraphQL document: {error_text(error)}") from None


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
