"""GraphQL operations in the form of a connector's description: schemas of their variables, and of what they select."""

from collections.abc import Iterator
from typing import Any

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLInterfaceType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLSchema,
    GraphQLUnionType,
    InlineFragmentNode,
    SelectionSetNode,
    VariableNode,
    get_named_type,
    is_abstract_type,
    is_required_input_field,
    type_from_ast,
)

from tieline.cli.connector_code.descriptions import RESERVED
from tieline.cli.connector_code.graphql_schema import NamedOperation
from tieline.cli.connector_code.names import Names, class_name
from tieline.cli.connector_code.parts import Json, without_texts
from tieline.cli.connector_code.reach import limited
from tieline.cli.connector_code.sharing import shared
from tieline.cli.exit_codes import CommandError
from tieline.connectors.description import FORMAT
from tieline.connectors.schemas import PREFIX
from tieline_protocol.graphql_schemas import leaf_schema, nullable, object_schema

_MAX_TEXT = 300
_MAX_FIELDS = 20_000
_Selected = dict[str, tuple[list[FieldNode], bool]]
"""By key of the answer: the fields that are put together, and whether the key may be left out."""


def description_of_documents(
    schema: GraphQLSchema, operations: list[NamedOperation], *, name: str, version: str, class_named: str
) -> Json:
    """The content of the file beside the code. Raises CommandError."""
    names = Names({*RESERVED, class_named})
    inputs = _Inputs(names)
    schemas: Json = {}
    found: dict[str, Json] = {}
    for operation in operations:
        item: Json = {
            "method": "POST",
            "path": "",
            "summary": f"{operation.node.operation.value} {operation.name}",
            "document": operation.text,
        }
        if (variables := inputs.variables(schema, operation)) is not None:
            title = names.free(class_name(f"{operation.name}Variables"))
            schemas[title] = variables
            item["body"] = {
                "required": bool(variables.get("required")),
                "mediaType": "application/json",
                "schema": {"$ref": f"{PREFIX}{title}"},
            }
        selection = _Selection(schema, operation)
        title = names.free(class_name(f"{operation.name}Data"))
        schemas[title] = selection.root()
        item["answers"] = {"200": {"mediaType": "application/json", "schema": {"$ref": f"{PREFIX}{title}"}}}
        if pages := selection.pages():
            item["pages"] = pages
        found[operation.name] = item
    schemas = shared(found, limited(found, {**schemas, **inputs.schemas}), names)
    return {
        "format": FORMAT,
        "connector": {"id": "", "name": name, "version": version},
        "operations": found,
        "schemas": dict(sorted(schemas.items())),
    }


class _Inputs:
    """Schemas of variables. Input objects have names, because they refer to each other."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._known: dict[str, str] = {}
        self.schemas: Json = {}

    def variables(self, schema: GraphQLSchema, operation: NamedOperation) -> Json | None:
        """The object of an operation's variables; None if it has none."""
        properties: Json = {}
        required = []
        for one in operation.node.variable_definitions or ():
            kind = type_from_ast(schema, one.type)
            key = one.variable.name.value
            properties[key] = self._of(kind)  # type: ignore[arg-type]  # validated: variables have input types
            if isinstance(kind, GraphQLNonNull) and one.default_value is None:
                required.append(key)
        if not properties:
            return None
        return object_schema(properties, required) | {"additionalProperties": False}

    def _of(self, kind: GraphQLInputType) -> Json:
        if isinstance(kind, GraphQLNonNull):
            return self._plain(kind.of_type)
        return nullable(self._plain(kind))

    def _plain(self, kind: Any) -> Json:
        if isinstance(kind, GraphQLList):
            return {"type": "array", "items": self._of(kind.of_type)}
        if isinstance(kind, GraphQLInputObjectType):
            return {"$ref": f"{PREFIX}{self._object(kind)}"}
        return leaf_schema(kind)

    def _object(self, kind: GraphQLInputObjectType) -> str:
        name = self._known.get(kind.name)
        if name is None:
            name = self._known[kind.name] = self._names.free(class_name(kind.name))
            properties = {key: self._of(field.type) for key, field in kind.fields.items()}
            for key, field in kind.fields.items():
                if field.description and "$ref" not in properties[key]:
                    properties[key] = {**properties[key], "description": field.description[:_MAX_TEXT]}
            required = [key for key, field in kind.fields.items() if is_required_input_field(field)]
            self.schemas[name] = object_schema(properties, required) | {"additionalProperties": False}
        return name


class _Selection:
    """The schema of an operation's data, and where it has a connection to read in pages."""

    def __init__(self, schema: GraphQLSchema, operation: NamedOperation) -> None:
        self._schema = schema
        self._operation = operation
        self._left = _MAX_FIELDS
        root = schema.get_root_type(operation.node.operation)
        assert root is not None  # noqa: S101  # validated
        self._root: GraphQLObjectType = root

    def root(self) -> Json:
        """The schema of ``data``."""
        return self._fields(self._root, [self._operation.node.selection_set])

    def pages(self) -> Json | None:
        """How the pages of the one connection that asks for them follow each other."""
        found = list(self._connections(self._root, [self._operation.node.selection_set], ()))
        if len(found) != 1:
            return None
        place, parameter = found[0]
        return {"kind": "graphql", "items": ".".join(place), "parameter": parameter}

    def _connections(
        self, kind: GraphQLObjectType, sets: list[SelectionSetNode], place: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], str]]:
        for key, (nodes, _) in self._selected(kind, sets).items():
            field = kind.fields.get(nodes[0].name.value)
            inner = [node.selection_set for node in nodes if node.selection_set]
            found = (
                field.type.of_type
                if field and isinstance(field.type, GraphQLNonNull)
                else field and field.type
            )
            if not inner or not isinstance(found, GraphQLObjectType):
                continue
            selected = self._selected(found, inner)
            parameter = _after(nodes[0])
            if parameter and self._has_page_info(found, selected) and selected.keys() & {"nodes", "edges"}:
                yield (*place, key), parameter
            else:
                yield from self._connections(found, inner, (*place, key))

    def _has_page_info(self, kind: GraphQLObjectType, selected: _Selected) -> bool:
        nodes, _ = selected.get("pageInfo", ((), False))
        field = kind.fields.get("pageInfo")
        info = get_named_type(field.type) if field else None
        sets = [node.selection_set for node in nodes if node.selection_set]
        return (
            isinstance(info, GraphQLObjectType)
            and {"hasNextPage", "endCursor"} <= self._selected(info, sets).keys()
        )

    def _of(self, kind: GraphQLOutputType, nodes: list[FieldNode]) -> Json:
        if isinstance(kind, GraphQLNonNull):
            return self._plain(kind.of_type, nodes)
        return nullable(self._plain(kind, nodes))

    def _plain(self, kind: Any, nodes: list[FieldNode]) -> Json:
        if isinstance(kind, GraphQLList):
            return {"type": "array", "items": self._of(kind.of_type, nodes)}
        sets = [node.selection_set for node in nodes if node.selection_set]
        if isinstance(kind, GraphQLObjectType):
            return self._fields(kind, sets)
        if isinstance(kind, GraphQLInterfaceType | GraphQLUnionType):
            return self._alternatives(kind, sets)
        return leaf_schema(kind)

    def _alternatives(
        self, kind: GraphQLInterfaceType | GraphQLUnionType, sets: list[SelectionSetNode]
    ) -> Json:
        """One object for each group of types of which the same is selected."""
        groups: dict[str, tuple[Json, list[str]]] = {}
        for one in self._schema.get_possible_types(kind):
            found = self._fields(one, sets, typename=False)
            groups.setdefault(repr(without_texts(found)), (found, []))[1].append(one.name)
        result = [_with_types(found, types) for found, types in groups.values()]
        if not result:
            return {"type": "object"}
        return result[0] if len(result) == 1 else {"anyOf": result}

    def _fields(
        self, kind: GraphQLObjectType, sets: list[SelectionSetNode], *, typename: bool = True
    ) -> Json:
        properties: Json = {}
        required = []
        for key, (nodes, is_optional) in self._selected(kind, sets).items():
            name = nodes[0].name.value
            field = kind.fields.get(name)
            if field is None:
                # Without names, as long as it is not known which types have the same fields.
                properties[key] = {"type": "string", "enum": [kind.name] if typename else []}
            else:
                properties[key] = self._of(field.type, nodes)
                if field.description:
                    properties[key]["description"] = field.description[:_MAX_TEXT]
            if not is_optional:
                required.append(key)
        return object_schema(properties, required)

    def _selected(self, kind: GraphQLObjectType, sets: list[SelectionSetNode]) -> _Selected:
        """The fields that a type's objects have in the answer. Raises CommandError for too many."""
        found: _Selected = {}
        self._left -= 1
        if self._left < 0:
            raise CommandError(
                f"{self._operation.name} selects more than {_MAX_FIELDS:,} fields with those of its fragments"
            )
        for selections in sets:
            self._collect(kind, selections, found, is_optional=False)
        return found

    def _collect(
        self, kind: GraphQLObjectType, selections: SelectionSetNode, found: _Selected, *, is_optional: bool
    ) -> None:
        for node in selections.selections:
            may_miss = is_optional or any(
                one.name.value in ("include", "skip", "defer") for one in node.directives or ()
            )
            if isinstance(node, FieldNode):
                key = node.alias.value if node.alias else node.name.value
                nodes, was_optional = found.get(key, ([], True))
                found[key] = ([*nodes, node], was_optional and may_miss)
                continue
            if isinstance(node, FragmentSpreadNode):
                fragment = self._operation.fragments[node.name.value]
                condition, inner = fragment.type_condition.name.value, fragment.selection_set
            elif isinstance(node, InlineFragmentNode):
                condition = node.type_condition.name.value if node.type_condition else kind.name
                inner = node.selection_set
            if self._is_a(kind, condition):
                self._collect(kind, inner, found, is_optional=may_miss)

    def _is_a(self, kind: GraphQLObjectType, condition: str) -> bool:
        other = self._schema.type_map[condition]
        return other is kind or (is_abstract_type(other) and self._schema.is_sub_type(other, kind))


def _after(node: FieldNode) -> str | None:
    """The variable of the argument ``after``."""
    for one in node.arguments or ():
        if one.name.value == "after" and isinstance(one.value, VariableNode):
            return one.value.name.value
    return None


def _with_types(schema: Json, types: list[str]) -> Json:
    """An object of several types, whose names are the values of ``__typename``."""
    properties = {
        key: {"type": "string", "enum": sorted(types)} if one.get("enum") == [] else one
        for key, one in schema["properties"].items()
    }
    return {**schema, "properties": properties}
