"""Organisations: namespaces with the label ``tieline.dev/organisation``."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.organisations import labelled_id


@dataclass(frozen=True, kw_only=True)
class Organisation:
    """An organisation's id and its namespace."""

    id: str
    namespace: str


NO_ORGANISATION = Organisation(id="", namespace="")
"""Where an operation is about no organisation."""


def organisation_keys(namespace: Mapping[str, Any]) -> Iterable[str]:
    """The index of namespaces by the organisation's id."""
    label = labelled_id(namespace)
    return (label,) if label else ()


def nowhere(identifier: str) -> Organisation:
    """Stands for the organisation with this id where there is none: a namespace that nobody has rights in.

    What is asked of Kubernetes for one that there is, is asked for this one too, so that nobody learns by time
    which there are.
    """
    return Organisation(id=identifier, namespace=f"tieline-no-organisation-{identifier.lower()}")
