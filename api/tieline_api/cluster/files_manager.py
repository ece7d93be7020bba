"""Who else manages a project's files, so that requests that change them are refused."""

from typing import cast

from tieline_api.cluster.field_managers import described, other_managers
from tieline_api.schemas.projects import FilesManager
from tieline_core.identity.gitops import REPOSITORY, is_gitops, repository_of
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.objects import ProjectObject

SOURCES = (("files", "filename"), ("configMaps", "name"))
"""The lists of ``spec.source`` with the keys of their items."""
_REMEMBERED = "tieline.dev/files-manager"
"""Where the cache keeps the manager (never written to the cluster)."""


def files_manager(project: ProjectObject) -> FilesManager | None:
    """Who manages the files; None where REST may change them."""
    metadata = project["metadata"]
    remembered: str | None = (metadata.get("annotations") or {}).get(_REMEMBERED)
    if remembered and "managedFields" not in metadata:
        return FilesManager.model_validate_json(remembered)
    source: ObjectView = project["spec"].get("source") or {}
    if reference := source.get("sourceRef"):
        status = project.get("status", {}).get("source", {})
        return FilesManager(
            manager=f'Flux ({reference["kind"]} "{reference["name"]}")',
            path=reference.get("path") or "/",
            revision=status.get("revision"),
            repository=repository_of(status.get("repository")) or None,
            advice="commit the files there",
        )
    for field, key in SOURCES:
        for item in source.get(field) or ():
            managers = other_managers(project, ("spec", "source", field, {key: item[key]}))
            if managers:
                return FilesManager(
                    manager=described(project, managers[0]),
                    path=f"spec.source.{field}[{key}={item[key]}]",
                    repository=repository_of((metadata.get("annotations") or {}).get(REPOSITORY)) or None,
                    advice=advice(managers[0]),
                )
    return None


def remember_files_manager(project: Object) -> Object:
    """``project`` with the manager of its files where it stays when the managed fields are dropped."""
    annotations = {
        name: value
        for name, value in (project["metadata"].get("annotations") or {}).items()
        if name != _REMEMBERED
    }
    if found := files_manager(cast("ProjectObject", project)):
        annotations[_REMEMBERED] = found.model_dump_json(by_alias=True)
    return {**project, "metadata": {**project["metadata"], "annotations": annotations}}


def advice(manager: str) -> str:
    """What to do to change files that a manager manages."""
    if is_gitops(manager):
        return "commit the files there"
    return "change them there, or remove them from spec.source of the manifest and apply it"
