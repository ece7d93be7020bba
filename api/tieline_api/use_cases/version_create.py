"""Versions that REST makes of a project's files."""

from collections.abc import Mapping

from tieline_api.dependencies import Dependencies
from tieline_core.identity.ids import new_id
from tieline_core.identity.owner_references import owner_reference
from tieline_core.objects import Object
from tieline_core.project_files.config_maps import files_digest
from tieline_core.resources.objects import ProjectObject, ProjectVersionObject

Pairs = list[tuple[str, bytes]]
_LONGEST_AUTHOR = 256


async def create_version(
    platform: Dependencies,
    project: ProjectObject,
    files: Pairs,
    labels: Mapping[str, str],
    *,
    identifier: str | None = None,
    author: str,
    name: str | None = None,
    description: str | None = None,
) -> ProjectVersionObject:
    """A new version of these files, named after its id. Its ``spec.configMaps`` refer to the stored files.

    ``identifier`` is a new id, made up when left out. ``author`` is the caller's name in RBAC; one that is too long
    to be kept is left out.
    """
    references = await platform.files.store(project, dict(files))
    spec: Object = {
        "projectRef": {"name": project["metadata"]["name"]},
        "digest": files_digest(dict(files)),
        "labels": dict(labels),
        "configMaps": references,
    }
    if len(author) <= _LONGEST_AUTHOR:
        spec["createdBy"] = author
    if name:
        spec["versionName"] = name
    if description:
        spec["versionDescription"] = description
    return await platform.writer.create(
        platform.cluster.versions,
        project["metadata"]["namespace"],
        identifier or new_id(),
        spec,
        owner=owner_reference(project, controller=True),
    )
