"""What a field manager owns of an object, by the API server's own books (``metadata.managedFields``).

A server-side apply must repeat everything that its manager wants to keep: what it leaves out, and nobody
else owns, is removed. So a partial change is: what we own, plus the change.
"""

from collections.abc import Mapping
from typing import Any

import orjson

_MISSING = object()
_APPLIED_METADATA = frozenset({"labels", "annotations", "ownerReferences", "finalizers"})


def owned(obj: Mapping[str, Any], manager: str, *, subresource: str = "") -> dict[str, Any]:
    """The part of ``obj`` that ``manager`` owns through server-side apply, ready to be applied again.

    Holds apiVersion, kind, name and namespace in any case. ``obj`` must have its managedFields, so read it
    from the API server (caches drop them). Format of the fields: KEP-555, FieldsV1.
    """
    metadata = obj.get("metadata", {})
    result: dict[str, Any] = {}
    for entry in metadata.get("managedFields", ()):
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("subresource", "") == subresource
        ):
            extracted = _extract(obj, entry.get("fieldsV1", {}))
            result = extracted if isinstance(extracted, dict) else {}
    kept = result.get("metadata", {})
    result["metadata"] = {
        **{key: value for key, value in kept.items() if key in _APPLIED_METADATA},
        **{key: metadata[key] for key in ("name", "namespace") if key in metadata},
    }
    return {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), **result}


def _extract(value: Any, fields: Mapping[str, Any]) -> Any:
    """The part of ``value`` that a FieldsV1 tree names; a leaf names the whole value."""
    children = {key: child for key, child in fields.items() if key != "."}
    if not children:
        # {".": {}} is the container without what is in it; {} is a leaf with all of it.
        return type(value)() if "." in fields and isinstance(value, dict | list) else value
    if isinstance(value, Mapping):
        return {
            key[2:]: _extract(value[key[2:]], child)
            for key, child in children.items()
            if key.startswith("f:") and key[2:] in value
        }
    if isinstance(value, list):
        return _extract_items(value, children)
    return value


def _extract_items(items: list[Any], children: Mapping[str, Any]) -> list[Any]:
    """The named items, in the list's own order. ``k:`` names by keys, ``v:`` by value, ``i:`` by index."""
    chosen: dict[int, Any] = {}
    for key, child in children.items():
        kind, _, name = key.partition(":")
        if kind == "i":
            index = int(name)
            if index < len(items):
                chosen[index] = _extract(items[index], child)
            continue
        wanted = orjson.loads(name)
        for index, item in enumerate(items):
            if kind == "v" and item == wanted:
                chosen[index] = item
                break
            if kind == "k" and _matches(item, wanted):
                part = _extract(item, child)
                chosen[index] = {**wanted, **part} if isinstance(part, dict) else part
                break
    return [chosen[index] for index in sorted(chosen)]


def _matches(item: Any, keys: Mapping[str, Any]) -> bool:
    return isinstance(item, Mapping) and all(item.get(key, _MISSING) == value for key, value in keys.items())
