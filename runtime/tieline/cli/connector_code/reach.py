"""How far schemas are followed: until what they say of one value, written out, is more than a checker can take.

`reveal_type` writes an object out with all objects in it. If those refer to each other, there are as many of them as
there are ways through the description.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tieline.cli.connector_code.paging import resolved
from tieline.cli.connector_code.parts import Json, parts_of, with_parts
from tieline.connectors.schemas import PREFIX, references

LARGEST = 5_000
"""Values that an object may have with all objects in it."""
_SMALL = 200
"""Objects with no more values stay wherever they are."""
_FURTHEST = 8


def limited(operations: Mapping[str, Json], schemas: Mapping[str, Json], *, largest: int = LARGEST) -> Json:
    """The schemas that are still needed, some of them with open objects in the place of references.

    Opened are, until no object is too large: alternatives to an id, as systems answer the id unless they are asked for
    more; then what is far away from the operations. Schemas of requests come last, because requests are checked.
    """
    roots = _roots(operations)
    if _fit(roots, schemas, largest):
        return dict(schemas)
    requests = _reached(([one.get("parameters"), one.get("body")] for one in operations.values()), schemas)
    result: Mapping[str, Json] = {}
    for kept in (requests, set[str]()):
        expanded = {
            name: schema if name in kept else _changed(schema, lambda node: _unexpanded(node, schemas))
            for name, schema in schemas.items()
        }
        for furthest in range(_FURTHEST, -1, -1):
            result = expanded if furthest == _FURTHEST else _near(roots, expanded, kept, furthest)
            if _fit(roots, result, largest):
                break
        else:
            continue
        break
    needed = _reached(operations.values(), result)
    return {name: schema for name, schema in result.items() if name in needed}


def size_of(schema: Any, schemas: Mapping[str, Json], most: int) -> int:
    """How many values a schema describes when it is written out; more than ``most`` is not counted."""
    count = 0
    waiting: list[tuple[Any, frozenset[str]]] = [(schema, frozenset())]
    while waiting and count <= most:
        node, inside = waiting.pop()
        name = _target(node)
        if name is None:
            count += 1
            waiting += [(part, inside) for part in parts_of(node)]
        elif name in schemas and name not in inside:
            waiting.append((schemas[name], inside | {name}))
        else:
            count += 1
    return count


def _roots(operations: Mapping[str, Json]) -> list[Any]:
    bodies = [
        body
        for one in operations.values()
        for body in (*one.get("parameters", ()), one.get("body"), *one.get("answers", {}).values())
    ]
    return [body["schema"] for body in bodies if body and "schema" in body]


def _fit(roots: Iterable[Any], schemas: Mapping[str, Json], largest: int) -> bool:
    return all(size_of(root, schemas, largest) <= largest for root in roots)


def _reached(start: Iterable[Any], schemas: Mapping[str, Json]) -> set[str]:
    found: set[str] = set()
    waiting = list(references(list(start)))
    while waiting:
        name = waiting.pop()
        if name in schemas and name not in found:
            found.add(name)
            waiting += references(schemas[name])
    return found


def _near(
    roots: Iterable[Any], schemas: Mapping[str, Json], kept: set[str], furthest: int
) -> Mapping[str, Json]:
    """The schemas with those references alone that lead away from the operations, and not further than that."""
    levels: dict[str, int] = {}
    names = set(references(list(roots)))
    for level in range(furthest + 1):
        names = {name for name in names if name in schemas and name not in levels}
        levels |= dict.fromkeys(names, level)
        names = {following for name in names for following in references(schemas[name])}
    stay = kept | {name for name in schemas if size_of(schemas[name], schemas, _SMALL) <= _SMALL}

    def opened(source: str) -> Callable[[Json], Json]:
        def change(node: Json) -> Json:
            name = _target(node)
            if name is None or name in stay or name == source:
                return node
            if source in levels and levels.get(name, 0) > levels[source]:
                return node
            return {"type": "object"} if _is_object(node, schemas) else {}

        return change

    return {
        name: schema if name in kept else _changed(schema, opened(name)) for name, schema in schemas.items()
    }


def _unexpanded(node: Json, schemas: Mapping[str, Json]) -> Json:
    """An open object in the place of those that stand beside an id."""
    key = "anyOf" if "anyOf" in node else "oneOf"
    members = node.get(key) or ()
    objects = [one for one in members if _target(one) is not None and _is_object(one, schemas)]
    if not objects or not any(one.get("type") == "string" for one in members):
        return node
    others = [one for one in members if one not in objects]
    return {name: part for name, part in node.items() if name not in (key, "discriminator")} | {
        "anyOf": [*others, {"type": "object"}]
    }


def _changed(schema: Json, change: Callable[[Json], Json]) -> Json:
    """A schema with all of its parts changed, the outer ones first."""
    node = change(schema)
    return _loosened(node, with_parts(node, lambda part, _: _changed(part, change)))


def _loosened(node: Json, result: Json) -> Json:
    """Alternatives that are open fit values of the others, too: one of them is enough, and none is chosen by name."""
    before, after = (
        [_target(one) for key in ("anyOf", "oneOf") for one in schema.get(key, ())]
        for schema in (node, result)
    )
    if before != after:
        result.pop("discriminator", None)
    if "oneOf" in result and "discriminator" not in result:
        alternatives = {"anyOf": result.pop("oneOf")}
        if "anyOf" in result:
            result["allOf"] = [*result.get("allOf", ()), alternatives]
        else:
            result |= alternatives
    return result


def _target(node: Any) -> str | None:
    reference = node.get("$ref") if isinstance(node, Mapping) else None
    return reference.removeprefix(PREFIX) if isinstance(reference, str) else None


def _is_object(node: Any, schemas: Mapping[str, Json]) -> bool:
    found = resolved(node, schemas)
    return found.get("type") == "object" or (
        "type" not in found and ("properties" in found or "allOf" in found)
    )
