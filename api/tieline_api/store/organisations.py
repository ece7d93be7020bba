"""Organisations: namespaces with the label ``tieline.dev/organisation``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.ids import ORGANISATION_LABEL, parse_id


@dataclass(frozen=True, kw_only=True)
class Organisation:
    """An organisation's id and its namespace."""

    id: str
    namespace: str


def organisation_keys(namespace: Mapping[str, Any]) -> Iterable[str]:
    """The index of namespaces by the organisation's id."""
    label = parse_id((namespace["metadata"].get("labels") or {}).get(ORGANISATION_LABEL, ""))
    return (label,) if label else ()
