"""Versions that are made without a deploy, and what differs between versions."""

from tieline_api.auth.permissions import permission
from tieline_api.body_limits import BodyKind
from tieline_api.conversion.projects import version_to_rest
from tieline_api.conversion.versions import version_diff
from tieline_api.handlers.deployments import VERSIONS
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import versions as rest
from tieline_api.use_cases.project_files_input import given_files, refuse_names
from tieline_api.use_cases.version_create import create_version
from tieline_api.views.project_lookup import require_project, require_version
from tieline_core.resources.objects import ProjectObject, ProjectVersionObject

OPERATIONS = Operations("Versions")


@OPERATIONS.add(
    "POST",
    VERSIONS,
    id="createVersion",
    summary="Create a version, without deploying it",
    permissions=permission("create", "projectversions"),
    size=BodyKind.FILES,
    link_sources={"version_id": "/id"},
)
async def add_version(call: Call[None, rest.VersionCreate]) -> Reply[rest.Version]:
    """Creates a version of files and deploys nothing. The current files of the project stay as they are. Code that
    cannot run is not refused: the version's state says so, and a deploy of it is refused."""
    body = call.body
    obj = require_project(call)
    files = given_files(body.files)
    labels = (obj["spec"].get("labels") or {}) if body.labels is None else body.labels
    refuse_names(files, labels)
    version = await create_version(
        call.platform,
        obj,
        files,
        labels,
        author=call.caller.username,
        name=body.name,
        description=body.description,
    )
    return Reply(body=version_to_rest(version))


@OPERATIONS.add(
    "GET",
    f"{VERSIONS}/{{version_id}}/diff",
    id="diffVersions",
    summary="Compare a version with an earlier one",
    permissions=permission("get", "projectversions"),
    errors=(409,),
)
async def diff_versions(call: Call[rest.DiffQuery, None]) -> Reply[rest.VersionDiff]:
    """Compares a version with an earlier one: the files that were added, removed or changed, with unified diffs, and
    the labels. Diffs are cut at 128 KiB for a file and 2 MiB together."""
    platform = call.platform
    obj = require_project(call)
    after = require_version(call, obj, call.path["version_id"])
    given = call.query.since
    before = require_version(call, obj, given) if given else _version_before(call, obj, after)
    return Reply(body=version_diff(before, after, await platform.files.differences(before, after)))


def _version_before(
    call: AnyCall, project: ProjectObject, version: ProjectVersionObject
) -> ProjectVersionObject | None:
    """The version that was made before this one; None for the first that is kept."""
    cluster = call.platform.cluster
    found = cluster.referring(cluster.versions, "project", call.namespace, project["metadata"]["name"])
    names = [one["metadata"]["name"] for one in found]
    index = names.index(version["metadata"]["name"])
    return found[index - 1] if index else None
