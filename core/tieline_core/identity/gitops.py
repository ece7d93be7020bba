"""GitOps tools, by the labels and annotations of the objects that they apply."""

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from tieline_core.identity.display_names import cleaned
from tieline_core.objects import ObjectView

_FLUX = (
    ("kustomize-controller", "Kustomization", "kustomize.toolkit.fluxcd.io"),
    ("helm-controller", "HelmRelease", "helm.toolkit.fluxcd.io"),
)
_ARGO = "argocd"
_MAX_NAME = 253
MAX_REPOSITORY = 2048
REPOSITORY = "tieline.dev/source-repository"
"""The annotation of a Project with the URL of the repository that it is in."""
_SCP = re.compile(r"[\w.-]+@[\w.-]+:[\w./~-]+", re.ASCII)


def is_gitops(manager: str) -> bool:
    """Whether a manager writes what is in a Git repository."""
    return manager.startswith(_ARGO) or any(manager == name for name, _, _ in _FLUX)


def source_of(obj: ObjectView, manager: str) -> str:
    """What leads to the source of what a manager writes; empty where the object does not say.

    >>> source_of({"metadata": {"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}}, "kustomize-controller")
    'Flux (Kustomization "apps")'
    """
    metadata = obj["metadata"]
    labels, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    for name, kind, prefix in _FLUX:
        if manager == name and (source := labels.get(f"{prefix}/name")):
            place = labels.get(f"{prefix}/namespace")
            return f'Flux ({kind} "{f"{place}/" if place else ""}{source}")'
    if manager.startswith(_ARGO):
        return _argo_application(labels, annotations)
    return ""


def applied_by(obj: ObjectView) -> str:
    """The tool of GitOps that applies an object, by its labels and annotations; empty where there is none.

    >>> applied_by({"metadata": {"annotations": {"argocd.argoproj.io/tracking-id": "shop:tieline.dev/Project:a/b"}}})
    'Argo CD (Application "shop")'
    """
    managers = (*(name for name, _, _ in _FLUX), _ARGO)
    return next((found for one in managers if (found := source_of(obj, one))), "")


def repository_of(text: object) -> str:
    """The URL of a repository without credentials; empty for what is none.

    >>> repository_of("https://bot:secret@git.example/acme/shop.git?token=1")
    'https://git.example/acme/shop.git'
    >>> repository_of("git@git.example:acme/shop.git")
    'git@git.example:acme/shop.git'
    >>> repository_of("javascript:alert(1)")
    ''
    """
    if not isinstance(text, str) or len(text) > MAX_REPOSITORY or cleaned(text) != text:
        return ""
    if _SCP.fullmatch(text):
        return text
    try:
        parts = urlsplit(text)
        if parts.scheme not in _SCHEMES or not parts.hostname:
            return ""
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


_SCHEMES = frozenset(("https", "http", "ssh", "oci"))


def _argo_application(labels: Mapping[str, Any], annotations: Mapping[str, Any]) -> str:
    application = str(annotations.get("argocd.argoproj.io/tracking-id", "")).split(":")[0]
    # Labels are short and plain. Anyone who may write the object can put any text into an annotation.
    application = cleaned(application[:_MAX_NAME]) or labels.get("argocd.argoproj.io/instance") or ""
    return f'Argo CD (Application "{application}")' if application else ""
