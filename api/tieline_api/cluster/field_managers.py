"""Who owns a field, by the API server's books (``metadata.managedFields``, format FieldsV1 of KEP-555)."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from tieline_core.identity.gitops import source_of

MANAGER = "tieline-api"

Step = str | Mapping[str, str]
"""A field's name, or the keys that tell a list item apart (``{"id": "k1"}``)."""


def other_managers(obj: Mapping[str, Any], path: Sequence[Step]) -> list[str]:
    """The managers besides the API that own what is at ``path`` or below it.

    What others own the API cannot remove: leaving it out of an apply changes nothing.
    """
    found = {
        entry.get("manager", "")
        for entry in obj["metadata"].get("managedFields") or ()
        if not _ours(entry) and not entry.get("subresource") and _holds(entry.get("fieldsV1") or {}, path)
    }
    return sorted(found - {""})


def described(obj: Mapping[str, Any], manager: str) -> str:
    """A manager in words that lead to its source: the tools of GitOps name it in labels and annotations.

    >>> described({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}}, "kustomize-controller")
    'Flux (Kustomization "apps")'
    >>> described({"metadata": {}}, "kubectl-client-side-apply")
    'kubectl ("kubectl-client-side-apply")'
    """
    if found := source_of(obj, manager):
        return found
    if manager.startswith("argocd"):
        return "Argo CD"
    return f'kubectl ("{manager}")' if manager.startswith("kubectl") else f'"{manager}"'


def _ours(entry: Mapping[str, Any]) -> bool:
    return bool(entry.get("manager") == MANAGER and entry.get("operation") == "Apply")


def _holds(fields: Mapping[str, Any], path: Sequence[Step]) -> bool:
    if not path:
        return True
    return any(_holds(child, path[1:]) for child in _children(fields, path[0]))


def _children(fields: Mapping[str, Any], step: Step) -> Iterator[Mapping[str, Any]]:
    if isinstance(step, str):
        child = fields.get(f"f:{step}")
        if child is not None:
            yield child
        return
    for name, child in fields.items():
        if name.startswith("k:") and orjson.loads(name[2:]) == dict(step):
            yield child
