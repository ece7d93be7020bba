"""What an operation made from a GraphQL schema selects, and the JSON Schema of what it answers."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    GraphQLField,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    get_named_type,
    is_composite_type,
    is_leaf_type,
    is_required_argument,
)

from tieline_core.objects import Json
from tieline_protocol.graphql_schemas import leaf_schema, nullable, object_schema

_MAX_FIELDS = 100
"""The most fields of an operation: leaves of the root come before those of what it refers to."""
_MAX_INNER = 12
_INDENT = "  "
_PAGE_INFO = ("hasNextPage", "endCursor")


@dataclass
class Selected:
    """Selected fields in their order: of each, its type's field and what is selected of that."""

    of: Any
    fields: dict[str, "tuple[GraphQLField, Selected | None]"] = field(default_factory=dict)

    def text(self, depth: int) -> str:
        """The selection set, in braces."""
        begin = _INDENT * (depth + 1)
        lines = [
            f"{begin}{name}" + (f" {inner.text(depth + 1)}" if inner else "")
            for name, (_, inner) in self.fields.items()
        ]
        if not isinstance(self.of, GraphQLObjectType) or not lines:
            lines.insert(0, f"{begin}__typename")
        return "{\n" + "\n".join(lines) + f"\n{_INDENT * depth}}}"

    def schema(self) -> Json:
        """The JSON Schema of an object with these fields."""
        properties = {name: schema_of(found.type, inner) for name, (found, inner) in self.fields.items()}
        if not isinstance(self.of, GraphQLObjectType) or not properties:
            properties = {"__typename": {"type": "string"}, **properties}
        return object_schema(properties, list(properties))


class Selection:
    """Chooses the fields of one operation: leaves, and those of what it refers to directly."""

    def __init__(self) -> None:
        self._left = _MAX_FIELDS

    def of(self, kind: Any) -> Selected | None:
        """What is selected of a field of this type; None for a leaf."""
        named = get_named_type(kind)
        return self._object(named, 1) if is_composite_type(named) else None

    def _object(self, kind: Any, depth: int) -> Selected:
        found = Selected(kind)
        known = list(_usable(kind))
        if is_connection(kind):
            self._connection(found, dict(known), depth)
            return found
        leaves = [(name, one) for name, one in known if is_leaf_type(get_named_type(one.type))]
        for name, one in leaves if depth else leaves[:_MAX_INNER]:
            if self._left > 0:
                self._left -= 1
                found.fields[name] = (one, None)
        for name, one in known if depth else ():
            named = get_named_type(one.type)
            if is_composite_type(named) and not is_connection(named) and self._left > 0:
                self._left -= 1
                found.fields[name] = (one, self._object(named, depth - 1))
        return found

    def _connection(self, found: Selected, known: dict[str, GraphQLField], depth: int) -> None:
        if "nodes" in known:
            found.fields["nodes"] = (known["nodes"], self._object(get_named_type(known["nodes"].type), depth))
        else:
            edges = get_named_type(known["edges"].type)
            inner = Selected(edges)
            for name, one in _usable(edges):
                if name == "node":
                    inner.fields[name] = (one, self.of(one.type))
            found.fields["edges"] = (known["edges"], inner)
        info = known["pageInfo"]
        kind: Any = get_named_type(info.type)
        parts: dict[str, tuple[GraphQLField, Selected | None]] = {
            name: (kind.fields[name], None) for name in _PAGE_INFO
        }
        found.fields["pageInfo"] = (info, Selected(kind, parts))


def is_connection(kind: Any) -> bool:
    """Whether a type is a list in pages, as Relay specifies them."""
    if not isinstance(kind, GraphQLObjectType) or not (kind.fields.keys() & {"nodes", "edges"}):
        return False
    info = kind.fields.get("pageInfo")
    named = get_named_type(info.type) if info else None
    if not isinstance(named, GraphQLObjectType) or not named.fields.keys() >= set(_PAGE_INFO):
        return False
    items = kind.fields.get("nodes") or kind.fields["edges"]
    return is_composite_type(get_named_type(items.type))


def schema_of(kind: Any, selected: Selected | None) -> Json:
    """The JSON Schema of a field's value."""
    if isinstance(kind, GraphQLNonNull):
        return _plain(kind.of_type, selected)
    return nullable(_plain(kind, selected))


def _plain(kind: Any, selected: Selected | None) -> Json:
    if isinstance(kind, GraphQLList):
        return {"type": "array", "items": schema_of(kind.of_type, selected)}
    return selected.schema() if selected is not None else leaf_schema(kind)


def _usable(kind: Any) -> Iterator[tuple[str, GraphQLField]]:
    """The fields that can be selected without values for their arguments."""
    if not isinstance(kind, GraphQLObjectType | GraphQLInterfaceType):
        return
    for name, one in kind.fields.items():
        needs = any(is_required_argument(argument) for argument in one.args.values())
        if one.deprecation_reason is None and not needs:
            yield name, one
