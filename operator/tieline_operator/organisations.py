"""Which organisation a namespace is, and namespaces that carry the id of another one."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.kube import Change
from tieline_core.organisations import holder, labelled_id
from tieline_operator.world import View

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The id that a namespace carries."""

    id: str
    older: str | None = None
    """The namespace that has the id, where this one only carries it as well."""


def organisation(namespaces: View, name: str) -> Claim | None:
    """What the namespace ``name`` claims to be; None where it carries no organisation's id."""
    found = namespaces.get(None, name)
    identifier = labelled_id(found) if found else None
    if identifier is None:
        return None
    first = holder(namespaces.by_index("organisation", identifier))
    return Claim(id=identifier, older=first if first != name else None)


def duplicates(namespaces: View) -> Mapping[str, Claim]:
    """The namespaces that carry the id of an older one."""
    found = {}
    for namespace in list(namespaces.list()):
        name = namespace["metadata"]["name"]
        claim = organisation(namespaces, name)
        if claim and claim.older:
            found[name] = claim
    return found


class Duplicates:
    """Writes a line for each namespace that comes to carry the id of an older one."""

    def __init__(self, namespaces: View) -> None:
        self._namespaces = namespaces
        self._told: dict[str, Claim] = {}

    def changed(self, change: Change) -> None:
        """Looks at the namespaces that a change of one is about: all that carry an id that it carries or carried."""
        for state in (change.old, change.new):
            identifier = labelled_id(state) if state else None
            if identifier:
                for one in self._namespaces.by_index("organisation", identifier):
                    self._look(one)
        if change.new is None or labelled_id(change.new) is None:
            self._told.pop(_name(change.object), None)

    def _look(self, namespace: Mapping[str, Any]) -> None:
        name = _name(namespace)
        claim = organisation(self._namespaces, name)
        if claim is None or not claim.older:
            self._told.pop(name, None)
        elif self._told.get(name) != claim:
            self._told[name] = claim
            logger.warning(
                "Namespace carries the organisation of an older one, and is no organisation until it has another",
                extra={"namespace": name, "organisation": claim.id, "older": claim.older},
            )


def _name(namespace: Mapping[str, Any]) -> str:
    return str(namespace["metadata"]["name"])
