"""Releases: who deployed what to an environment, and the outcome."""

from dataclasses import replace
from datetime import UTC, datetime

from tieline_api import cursors, errors
from tieline_api.auth.permissions import Permission, permission
from tieline_api.conversion import projects as projects_to_rest
from tieline_api.conversion.releases import EnvironmentReleases
from tieline_api.conversion.versions import version_diff
from tieline_api.handlers.environments import ENVIRONMENT
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.schemas import releases as rest
from tieline_api.schemas.versions import VersionDiff
from tieline_api.views.project_lookup import require_environment, require_project, versions_of
from tieline_core.identity.ids import environment_id, object_id, parse_time
from tieline_core.resources.objects import ProjectObject

RELEASES = f"{ENVIRONMENT}/releases"
_MOST_DIGITS = 10

OPERATIONS = Operations("Releases")


@OPERATIONS.add(
    "GET",
    RELEASES,
    id="listReleases",
    summary="List the releases of an environment",
    permissions=permission("get", "projects"),
)
async def list_releases(call: Call[rest.ReleasesQuery, None]) -> Reply[rest.ReleasePage]:
    """Returns the last 20 deploys to an environment, newest first: who deployed which version, and the outcome. It
    includes deploys by kubectl and GitOps tools, and those that were refused or crashed."""
    project, name = _environment(call)
    found, warnings = await _releases(call, project, name)
    page = cursors.cut(
        range(len(found.items)),
        kind=f"releases/{environment_id(object_id(project), name)}",
        position=lambda at: ("", f"{found.items[at]['number']:026}"),
        newest_first=True,
        **call.query.window,
    )
    items = [rest.Release(**found.values(at)) for at in page.items]
    body = rest.ReleasePage(total_count=page.total, items=items, next=page.next, prev=page.prev)
    return Reply(body=body, warnings=warnings)


@OPERATIONS.add(
    "GET",
    f"{RELEASES}/{{release}}",
    id="getRelease",
    summary="Get a release",
    # What it changed is what the files of its versions say.
    permissions=(Permission("get", "projects"), Permission("get", "projectversions")),
    errors=(409,),
)
async def get_release(call: Call[None, None]) -> Reply[rest.ReleaseDetail]:
    """Returns a release by its number, or the newest one as ``latest``, with what it changed."""
    project, name = _environment(call)
    found, warnings = await _releases(call, project, name)
    at = _place(found, call.path["release"])
    if at is None:
        raise errors.not_found("release", call.path["release"][:_MOST_DIGITS])
    back = projects_to_rest.rollback_version(project, name, found.versions)
    shown = rest.ReleasedVersion(id=back.id, name=back.name, created_by=back.created_by) if back else None
    body = rest.ReleaseDetail(
        **found.values(at),
        previous=found.items[at + 1]["number"] if at + 1 < len(found.items) else None,
        changes=await _changes(call, found, at),
        rollback_version=shown,
    )
    return Reply(body=body, warnings=warnings)


def _environment(call: AnyCall) -> tuple[ProjectObject, str]:
    project = require_project(call)
    return project, require_environment(project, identifier=call.path["environment_id"])


def _place(found: EnvironmentReleases, text: str) -> int | None:
    if text == "latest":
        return 0 if found.items else None
    return found.place(int(text)) if text.isdecimal() and len(text) <= _MOST_DIGITS else None


async def _releases(
    call: AnyCall, project: ProjectObject, name: str
) -> tuple[EnvironmentReleases, tuple[str, ...]]:
    """The releases with the numbers of their runs, and warnings."""
    status = projects_to_rest.environment_status(project, name)
    found = EnvironmentReleases(
        items=tuple(status.get("releases") or ()),
        versions=versions_of(call.platform.cluster, project),
        is_suspended=bool(projects_to_rest.environment_item(project, name).get("suspended")),
        now=datetime.now(UTC),
    )
    oldest_first = found.items[::-1]
    starts = [round(parse_time(one["deployedAt"]).timestamp()) * 10**9 for one in oldest_first]
    history, identifier = call.platform.runs, environment_id(object_id(project), name)
    try:
        tally = await history.release_tally(call.organisation.id, identifier, starts)
    except errors.ApiError as error:
        # Who deployed what does not need the run history.
        return found, (f"The counts of runs are missing: {error.message}",)
    versions = [one["version"] for one in oldest_first]
    counted = [tally.of(at, versions) for at in range(len(versions))]
    runs = [(one.all, one.failed) for one in reversed(counted)]
    return replace(found, runs=runs), history.warnings(call.organisation.id)


async def _changes(call: AnyCall, found: EnvironmentReleases, at: int) -> VersionDiff | None:
    """What differs from the release before; None where that is not known."""
    if at + 1 >= len(found.items):
        return None
    before, after = found.kept_version(at + 1), found.kept_version(at)
    if before is None or after is None:
        return None
    return version_diff(before, after, await call.platform.files.differences(before, after))
