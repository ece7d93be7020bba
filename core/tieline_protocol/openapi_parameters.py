"""How OpenAPI has parameters written, in the path, the query and headers. Values are plain JSON."""

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

FORM = "application/x-www-form-urlencoded"
NO_PARAMETERS = frozenset({"accept", "content-type", "authorization"})
"""Headers that are no parameters: credentials, and the body's form."""
_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}
_DEEPEST = 8

Resolve = Callable[[Any], Mapping[str, Any]]
"""A schema with its reference followed; empty where that leads nowhere."""


def is_json(media_type: str) -> bool:
    """Whether bodies of a media type are JSON."""
    kind = media_type.partition(";")[0].strip().lower()
    return kind.endswith(("/json", "+json"))


def json_of(value: Any) -> str:
    """As JSON, whole numbers of any size included. Raises TypeError, ValueError or RecursionError."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def text_of(value: Any) -> str:
    """A value as text: a string as it is, anything else as JSON. Raises as ``json_of``."""
    return value if isinstance(value, str) else json_of(value)


def listed(value: Any, separator: str = ",") -> str:
    """A value in the path or a header, as the style ``simple`` has it: the items of a list stand behind each other."""
    return separator.join(map(text_of, value)) if isinstance(value, list) else text_of(value)


def query_pairs(
    name: str, value: Any, *, style: str = "form", explode: bool = True
) -> Iterator[tuple[str, str]]:
    """Names and values of a parameter of the query.

    >>> list(query_pairs("tag", ["a", "b"]))
    [('tag', 'a'), ('tag', 'b')]
    >>> list(query_pairs("tag", ["a", "b"], style="pipeDelimited", explode=False))
    [('tag', 'a|b')]
    >>> list(query_pairs("at", {"x": 1, "y": [2, 3]}, style="deepObject"))
    [('at[x]', '1'), ('at[y]', '2'), ('at[y]', '3')]
    """
    if isinstance(value, dict):
        if style != "deepObject" and not explode:
            yield name, ",".join(f"{key},{text_of(item)}" for key, item in value.items())
            return
        for key, item in value.items():
            yield from repeated(f"{name}[{key}]" if style == "deepObject" else key, item)
    elif isinstance(value, list) and (not explode or style in _SEPARATORS):
        yield name, listed(value, _SEPARATORS.get(style, ","))
    else:
        yield from repeated(name, value)


def object_properties(schema: Any, resolved: Resolve) -> frozenset[str] | None:
    """The names of the properties that a schema gives objects; None for a schema of other values alone.

    >>> object_properties({"type": ["object", "null"], "properties": {"gte": {}}}, dict)
    frozenset({'gte'})
    >>> object_properties({"type": "string"}, dict) is None
    True
    """
    return _properties(schema, resolved, set(), 0)


def _properties(schema: Any, resolved: Resolve, seen: set[int], depth: int) -> frozenset[str] | None:
    node = resolved(schema)
    if id(node) in seen or depth > _DEEPEST:
        return None
    seen.add(id(node))
    kinds, properties = node.get("type"), node.get("properties")
    takes_objects = kinds == "object" or (isinstance(kinds, list) and "object" in kinds)
    names: frozenset[str] | None = frozenset() if takes_objects else None
    if isinstance(properties, Mapping) and (takes_objects or kinds is None):
        names = frozenset(properties)
    for key in ("allOf", "anyOf", "oneOf"):
        members = node.get(key)
        for member in members if isinstance(members, list) else ():
            more = _properties(member, resolved, seen, depth + 1)
            if more is not None:
                names = (names or frozenset()) | more
    return names


def unknown_names(
    value: Any, schema: Any, resolved: Resolve, *, style: str = "form", explode: bool = True
) -> list[str] | None:
    """The names in the query, of an object's own, that the description does not have; None where it takes no object.

    An exploded object writes its keys as names of parameters, so only properties of its schema are names there.

    >>> unknown_names({"_method": "DELETE"}, {"type": "object", "properties": {"state": {}}}, dict)
    ['_method']
    """
    if not isinstance(value, Mapping):
        return []
    known = object_properties(schema, resolved)
    if known is None:
        return None
    within = style == "deepObject"
    if (not within and not explode) or (within and not known):
        return []
    return [str(name) for name in value if name not in known]


def repeated(name: str, value: Any) -> Iterator[tuple[str, str]]:
    """A value of a form or of the query: each item of a list stands for itself."""
    return ((name, text_of(item)) for item in (value if isinstance(value, list) else [value]))
