"""Who owns which fields of an object, as ``metadata.managedFields`` records it (FieldsV1 of KEP-555).

A server-side apply must repeat everything that its manager wants to keep: what it leaves out, and nobody
else owns, is removed. So a partial change is: what we own, plus the change.

Read objects for these functions from the API server: caches drop their managedFields.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

Fields = Mapping[str, Any]
Path = tuple[str | tuple[str, Any], ...]
"""The way to a field: names, and for an item of a list the key that tells it apart, with its value."""

_MISSING = object()
_APPLIED_METADATA = frozenset({"labels", "annotations", "ownerReferences", "finalizers"})


@dataclass(frozen=True)
class FieldOwner:
    """A field manager, and the subresource that it wrote through."""

    manager: str
    subresource: str = ""


def other_owners(obj: Mapping[str, Any], paths: Sequence[Path], *, manager: str) -> tuple[FieldOwner, ...]:
    """All but ``manager`` that own one of these fields. What was removed belongs to nobody any more."""
    found = {
        FieldOwner(entry.get("manager", ""), entry.get("subresource", "")): None
        for entry in obj["metadata"].get("managedFields", ())
        if entry.get("manager") != manager and any(_owns(entry.get("fieldsV1") or {}, path) for path in paths)
    }
    return tuple(found)


def owned(obj: Mapping[str, Any], manager: str, *, subresource: str = "") -> dict[str, Any]:
    """The part of ``obj`` that ``manager`` owns through server-side apply, ready to be applied again.

    Holds apiVersion, kind, name and namespace in any case. The result is a copy.
    """
    metadata = obj.get("metadata", {})
    mine: Fields = {}
    others: list[Fields] = []
    for entry in metadata.get("managedFields", ()):
        fields = entry.get("fieldsV1") or {}
        if (
            entry.get("manager") == manager
            and entry.get("operation") == "Apply"
            and entry.get("subresource", "") == subresource
        ):
            mine = fields
        else:
            others.append(fields)
    result: dict[str, Any] = _extract(obj, mine, others) if mine else {}
    kept = result.get("metadata", {})
    result["metadata"] = {
        **{key: value for key, value in kept.items() if key in _APPLIED_METADATA},
        **{key: metadata[key] for key in ("name", "namespace") if key in metadata},
    }
    return {**result, "apiVersion": obj.get("apiVersion"), "kind": obj.get("kind")}


def _owns(fields: Fields, path: Path) -> bool:
    """Whether the tree has the field, something below it, or a value that it is a part of."""
    for step in path:
        below = fields.get(f"f:{step}") if isinstance(step, str) else _item(fields, dict([step]))
        if not below:
            return below is not None
        fields = below
    return True


def _item(fields: Fields, keys: Fields) -> Fields | None:
    """The item of a list whose keys (``k:{"name":"http"}``) include ``keys``."""
    items = (
        below for name, below in fields.items() if name[:2] == "k:" and _matches(orjson.loads(name[2:]), keys)
    )
    return next(items, None)


def _extract(value: Any, fields: Fields, others: Sequence[Fields]) -> Any:
    """The part of ``value`` that a FieldsV1 tree names; a leaf names the whole value.

    ``others`` are the other managers' trees at this place. They tell the two kinds of leaves apart: what was
    applied as an empty container, and filled by others since, from a container that is one value (atomic).
    """
    children = _children(fields)
    if not children:
        container = "." in fields or any(_children(other) for other in others)
        return type(value)() if container and isinstance(value, dict | list) else copy.deepcopy(value)
    if isinstance(value, Mapping):
        return {
            key[2:]: _extract(value[key[2:]], child, _below(others, key))
            for key, child in children.items()
            if key.startswith("f:") and key[2:] in value
        }
    if isinstance(value, list):
        return _extract_items(value, children, others)
    return value


def _extract_items(items: list[Any], children: Fields, others: Sequence[Fields]) -> list[Any]:
    """The named items, in the list's own order. ``k:`` names by keys, ``v:`` by value, ``i:`` by index."""
    chosen: dict[int, Any] = {}
    for key, child in children.items():
        kind, _, name = key.partition(":")
        below = _below(others, key)
        if kind == "i":
            index = int(name)
            if index < len(items):
                chosen[index] = _extract(items[index], child, below)
            continue
        wanted = orjson.loads(name)
        for index, item in enumerate(items):
            if kind == "v" and _same(item, wanted):
                chosen[index] = copy.deepcopy(item)
                break
            if kind == "k" and _matches(item, wanted):
                part = _extract(item, child, below)
                chosen[index] = {**wanted, **part} if isinstance(part, dict) else part
                break
    return [chosen[index] for index in sorted(chosen)]


def _children(fields: Fields) -> Fields:
    return {key: child for key, child in fields.items() if key != "."}


def _below(others: Sequence[Fields], key: str) -> list[Fields]:
    return [other[key] for other in others if key in other]


def _matches(item: Any, keys: Fields) -> bool:
    return isinstance(item, Mapping) and all(
        _same(item.get(key, _MISSING), value) for key, value in keys.items()
    )


def _same(one: Any, other: Any) -> bool:
    """As JSON has it: true is not 1."""
    return bool(one == other) and isinstance(one, bool) == isinstance(other, bool)
