"""Who owns fields of an object, by the API server's books (``metadata.managedFields``, KEP-555)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tieline_operator.apply.diff import Path
from tieline_operator.apply.plan import MANAGER


@dataclass(frozen=True)
class Owner:
    """A field manager, and the subresource that it wrote through."""

    manager: str
    subresource: str = ""


def owners(obj: Mapping[str, Any], paths: Sequence[Path]) -> tuple[Owner, ...]:
    """All but the operator that own one of these fields. What was removed belongs to nobody any more."""
    found = {
        Owner(entry.get("manager", ""), entry.get("subresource", "")): None
        for entry in obj["metadata"].get("managedFields", ())
        if entry.get("manager") != MANAGER and any(_owns(entry.get("fieldsV1") or {}, path) for path in paths)
    }
    return tuple(found)


def _owns(fields: Mapping[str, Any], path: Path) -> bool:
    """Whether the tree has the field, something below it, or a value that it is a part of."""
    for step in path:
        below = fields.get(f"f:{step}") if isinstance(step, str) else _item(fields, *step)
        if below is None:
            return False
        if not below:
            return True
        fields = below
    return True


def _item(fields: Mapping[str, Any], key: str, value: Any) -> Mapping[str, Any] | None:
    """The item of a list whose keys (``k:{"name":"http"}``) say this among others."""
    for name, below in fields.items():
        if name.startswith("k:") and orjson.loads(name[2:]).get(key) == value:
            found: Mapping[str, Any] = below
            return found
    return None
