"""An activation's variables as a run sees them: its own copy, with the defaults of the project's schema."""

from collections.abc import Mapping
from typing import Any

from tieline.errors import UnknownVariableError

# A schema may refer to itself; variables are never nested this deep.
_DEEPEST = 32


class Variables(dict[str, Any]):
    """Values by name, and as attributes. What a run changes in them is its own.

    >>> variables = with_defaults({"region": "eu"}, {"properties": {"limits": {"default": {"daily": 5}}}})
    >>> variables["region"], variables.limits.daily
    ('eu', 5)

    A name that is not there is an UnknownVariableError (a KeyError), ``get`` returns None or what it was given.
    A variable named as a dict's method, such as ``items``, is reached as ``variables["items"]``.
    """

    def __missing__(self, name: str) -> Any:
        raise UnknownVariableError(name, self)

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except UnknownVariableError as error:
            # What asks whether there is an attribute (copying, pickling, debuggers) wants an AttributeError.
            raise AttributeError(str(error)) from None


def with_defaults(values: Mapping[str, Any], schema: Mapping[str, Any]) -> Variables:
    """A copy of ``values``; what is not there has the ``default`` that ``schema`` gives it.

    Values are JSON's (the API and the operator have checked them against the schema), and stay what they are.
    Defaults are looked for in ``properties`` and ``items``, also behind a ``$ref`` within the schema.
    """
    return _object(values, schema, schema, _DEEPEST)


def _object(value: Mapping[str, Any], schema: Any, root: Mapping[str, Any], depth: int) -> Variables:
    properties = resolved(schema, root).get("properties") if depth else None
    described: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
    result = Variables()
    for name, item in value.items():
        result[name] = _copy(item, described.get(name), root, max(depth - 1, 0))
    for name, part in described.items():
        if name not in result and "default" in (found := resolved(part, root)):
            result[name] = _copy(found["default"], found, root, depth - 1)
    return result


def _copy(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if isinstance(value, Mapping):
        return _object(value, schema, root, depth)
    if isinstance(value, list):
        items = resolved(schema, root).get("items") if depth else None
        return [_copy(item, items, root, max(depth - 1, 0)) for item in value]
    return value


def resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """What ``schema`` says, with what it refers to within the root (RFC 6901); other references say nothing."""
    merged: dict[str, Any] = {}
    for _ in range(_DEEPEST):
        if not isinstance(schema, Mapping):
            break
        merged = {**schema, **merged}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            break
        schema = _found(reference, root)
    return merged


def _found(reference: str, root: Mapping[str, Any]) -> Any:
    if reference == "#":
        return root
    found: Any = root
    for part in reference.removeprefix("#/").split("/") if reference.startswith("#/") else ():
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, Mapping) else None
    return found if found is not root else None
