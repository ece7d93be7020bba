"""Organisations are namespaces with the label ``tieline.dev/organisation``: which one has an id.

Two namespaces may carry one id, after a copy or a restore beside the original. The older one has it, for API and
operator alike, and the other is no organisation until it gets an id of its own.
"""

from collections.abc import Iterable

from tieline_core.identity.ids import ORGANISATION_LABEL, parse_id
from tieline_core.objects import ObjectView


def labelled_id(namespace: ObjectView) -> str | None:
    """The organisation's id that a Namespace carries, if it carries one."""
    return parse_id((namespace["metadata"].get("labels") or {}).get(ORGANISATION_LABEL, ""))


def holder(namespaces: Iterable[ObjectView]) -> str | None:
    """The name of the one of these Namespaces that has the id that all of them carry: the oldest."""
    found = [(item["metadata"]["creationTimestamp"], item["metadata"]["name"]) for item in namespaces]
    return str(min(found)[1]) if found else None
