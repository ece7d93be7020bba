"""The logs of a project: what its pods wrote, or what the checks of its versions found."""

import orjson

from tieline_api.auth.permissions import permission
from tieline_api.conversion.projects import environment_status
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import AnyCall, Call, Operations, Reply
from tieline_api.logs import paging
from tieline_api.logs.lines import Entry, Line, fixed_time
from tieline_api.logs.pods import read
from tieline_api.schemas import project_logs as rest
from tieline_api.views.project_lookup import require_environment, require_project
from tieline_core.identity.ids import environment_id, object_id, parse_time
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import ProjectObject, ProjectVersionObject

_MISSING = "-"
"""No version has this name: an environment that was never deployed has no latest one."""

OPERATIONS = Operations("Projects")


@OPERATIONS.add(
    "GET",
    f"{PROJECT}/logs",
    id="getProjectLogs",
    summary="Get project logs",
    permissions=permission("get", "projects"),
)
async def get_logs(call: Call[rest.LogsQuery, None]) -> Reply[rest.LogPage]:
    """Lines of all pods of an environment in the order of time, newest first unless ``order`` is ``asc``.

    A container that crashed shows what it wrote before, too. Lines live as long as their pods.
    """
    query = call.query
    project = require_project(call)
    if query.build:
        name = query.project_env and require_environment(project, name=query.project_env)
        scope = f"build/{object_id(project)}/{name or ''}"
        wanted = _wanted(query, scope)
        readings = [paging.Reading(_findings(call, project, latest=query.latest))]
        return _reply(readings, wanted, scope, warnings=[])
    environment = require_environment(project, name=query.project_env)
    scope = environment_id(object_id(project), environment)
    wanted = _wanted(query, scope)
    status = environment_status(project, environment)
    version = (status.get("desiredVersion") or status.get("version") or _MISSING) if query.latest else None
    readings, warnings = await read(call.platform.kube, call.namespace, scope, wanted, version=version)
    return _reply(readings, wanted, scope, warnings=warnings)


def _wanted(query: rest.LogsQuery, scope: str) -> paging.LogFilter:
    return paging.LogFilter(
        order=query.order,
        first=query.first,
        start=query.start or "",
        end=query.end or "",
        search=query.search or "",
        severity=query.severity or "",
        beyond=paging.decode(scope, query.order, query.next_token) if query.next_token else None,
    )


def _reply(
    readings: list[paging.Reading], wanted: paging.LogFilter, scope: str, *, warnings: list[str]
) -> Reply[rest.LogPage]:
    found = paging.page(readings, wanted)
    return Reply(
        body=rest.LogPage(
            logs=[_entry(entry) for entry in found.entries],
            next_token=paging.encode(scope, wanted.order, found.last) if found.last else None,
        ),
        warnings=tuple(warnings),
    )


def _entry(entry: Entry) -> rest.LogEntry:
    return rest.LogEntry(
        timestamp=entry.timestamp,
        severity=entry.severity,
        message=entry.message,
        error=entry.error,
        http_request=dict(entry.http_request) if entry.http_request else None,
        fields=dict(entry.fields) if entry.fields else None,
    )


def _findings(call: AnyCall, project: ProjectObject, *, latest: bool) -> list[Line]:
    """The findings of the project's versions as lines of their times."""
    cluster = call.platform.cluster
    versions = cluster.referring(cluster.versions, "project", call.namespace, project["metadata"]["name"])
    return [
        Line(
            key=(
                fixed_time(parse_time(version["metadata"]["creationTimestamp"])),
                object_id(version),
                number,
            ),
            text=_finding(version, finding),
        )
        for version in (versions[-1:] if latest else versions)
        for number, finding in enumerate((version.get("status") or {}).get("findings") or ())
    ]


def _finding(version: ProjectVersionObject, finding: ObjectView) -> str:
    location = ":".join(str(finding[part]) for part in ("filename", "line") if finding.get(part))
    fields = {
        "versionId": object_id(version),
        "version": version["spec"].get("versionName") or version["metadata"]["name"],
        **{part: finding[part] for part in ("filename", "line") if finding.get(part)},
    }
    message = f"{location}: {finding['message']}" if location else finding["message"]
    return orjson.dumps({"severity": finding["severity"], "message": message, "fields": fields}).decode()
