"""Which runs a request means, and how answers show them."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from tieline_api import errors
from tieline_api.cluster import indexes
from tieline_api.conversion import runs as convert
from tieline_api.http.operation import AnyCall, Call, Reply
from tieline_api.page_tokens import refused_cursor, seal, unseal
from tieline_api.runs.model import PageRequest, Position, Run, RunFilter
from tieline_api.schemas import runs as rest
from tieline_api.views.project_lookup import require_project
from tieline_core.identity.ids import environment_id, object_id, parse_id
from tieline_core.resources.objects import EndUserObject, ProjectObject, ProjectVersionObject
from tieline_protocol.run_tags import parse_tag

_COPIED = (
    "Another environment of the project has a run with this id: name the one that is meant (project_env)"
)
_MAX_INT = 2**63 - 1


class ShownRuns:
    """Runs as answers show them."""

    def __init__(self, call: AnyCall) -> None:
        self._cluster = call.platform.cluster
        self._namespace = call.namespace

    def run(self, run: Run, ahead: Mapping[tuple[str, str], str] = MappingProxyType({})) -> rest.Run:
        """A run with the user and the version that it names; ``ahead`` has the run that it waits behind."""
        return rest.Run(
            id=run.id,
            kind=run.kind,
            task=run.task,
            status=run.status,
            environment_id=run.environment,
            activation_id=run.activation_id or None,
            user=convert.user_to_rest(run.user, self._user),
            version=self.version(run.version),
            key=run.key,
            event_id=run.event_id,
            attempt=run.attempt,
            attempts=run.attempts,
            queued_at=convert.time_to_rest(run.queued_at),
            started_at=convert.maybe_time(run.started_at),
            ended_at=convert.maybe_time(run.ended_at),
            next_attempt_at=convert.maybe_time(run.next_attempt_at),
            discarded_at=convert.maybe_time(run.discarded_at),
            error=convert.error_to_rest(run.error),
            trace_id=run.trace_id or None,
            replay_of=run.replay_of,
            replayed_by=run.replayed_by,
            parent=run.parent,
            issue_id=run.issue,
            tags=[rest.RunTag(name=name, value=value) for name, value in sorted(run.tags.items())],
            progress=convert.progress_to_rest(run.progress),
            waits_for=waits_for(run, is_behind=(run.environment, run.id) in ahead, now=time.time_ns()),
            waits_behind=ahead.get((run.environment, run.id)),
        )

    def user(self, external_id: str) -> rest.UserOfRun:
        """A user by the id in the customer's application."""
        return convert.known_user(external_id, self._user)

    def version(self, name: str) -> rest.VersionOfRun | None:
        """A version by the name of its object."""
        return convert.version_to_rest(name, self._version)

    def _user(self, external_id: str) -> EndUserObject | None:
        return self._cluster.user(self._namespace, external_id)

    def _version(self, name: str) -> ProjectVersionObject | None:
        return self._cluster.versions.get(self._namespace, name)


def waits_for(run: Run, *, is_behind: bool, now: int) -> rest.WaitsFor | None:
    """What a run waits for, at a time (nanoseconds since 1970); None where it runs or has ended.

    What has waited for its time waits for a pod from then on.
    """
    if run.status not in ("queued", "waiting"):
        return None
    if is_behind:
        return "key"
    waits = run.next_attempt_at is not None and run.next_attempt_at > now
    return run.waits_for if waits and run.waits_for is not None else "slot"


async def page_of_runs(
    call: Call[rest.RunsQuery, None], environments: tuple[str, ...] | None, projects: Iterable[ProjectObject]
) -> Reply[rest.RunPage]:
    """A page of the runs that the query asks for, of these environments (None: all of the organisation)."""
    query = call.query
    scope = f"{call.organisation.id}/{call.path.get('project_id', '').upper()}"
    wanted = _filter(call, query, environments, projects)
    request = PageRequest(
        first=query.first,
        after=_decode(scope, query.after) if query.after else None,
        before=_decode(scope, query.before) if query.before else None,
    )
    page = await call.platform.runs.page(wanted, request)
    ahead = await call.platform.runs.ahead_of(call.organisation.id, page.runs)
    shown = ShownRuns(call)
    body = rest.RunPage(
        total_count=page.total,
        items=[shown.run(run, ahead) for run in page.runs],
        next=_encode(scope, page.runs[-1].position) if page.older else None,
        prev=_encode(scope, page.runs[0].position) if page.newer else None,
    )
    return Reply(body=body, warnings=call.platform.runs.warnings(call.organisation.id))


def selected_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> tuple[RunFilter, bool]:
    """The runs that query and body select together, and whether they are only counted."""
    project = require_project(call)
    given = agreed_selection(call.query, call.body)
    dry_run = given.pop("dryRun", False)
    if not given:
        raise errors.invalid(
            "",
            "Say which runs: at least one of ids, project_env, status, kind, task, user, version, start, end, tag, "
            "find, search, key, event_id, trace_id, discarded, replayed, failed, issue",
        )
    selected = rest.SelectionQuery.model_validate(given)
    environments = environments_of([project], name=selected.project_env)
    wanted = _filter(call, selected, environments, [project])
    return replace(wanted, ids=tuple(selected.ids) if selected.ids else None), dry_run


def agreed_selection(query: rest.SelectionQuery, body: rest.SelectionBody) -> dict[str, Any]:
    """The values of query and body by the query's names. ApiError 422 where they have different ones."""
    given = {name: value for name, value in query.model_dump().items() if value is not None}
    for field, value in body.model_dump().items():
        name = "dryRun" if field == "dry_run" else field
        if value is not None and given.setdefault(name, value) != value:
            raise errors.invalid(name, "is in the query and in the body with different values; send it once")
    return given


def _filter(
    call: AnyCall,
    query: rest.RunsQuery | rest.SelectionQuery,
    environments: tuple[str, ...] | None,
    projects: Iterable[ProjectObject],
) -> RunFilter:
    return RunFilter(
        organisation=call.organisation.id,
        environments=environments,
        statuses=tuple(query.status) if query.status else None,
        kind=query.kind,
        task=query.task,
        user=query.user,
        versions=_versions(call, query.version, projects) if query.version else None,
        start=convert.nanoseconds(query.start) if query.start else None,
        end=convert.nanoseconds(query.end) if query.end else None,
        search=query.search or None,
        find=query.find or None,
        tags=tuple(tag for text in query.tag or () if (tag := parse_tag(text)) is not None),
        key=query.key,
        event_id=query.event_id,
        trace_id=query.trace_id,
        discarded=query.discarded,
        replayed=query.replayed,
        failed=query.failed,
        issue=query.issue,
    )


def environments_of(projects: Iterable[ProjectObject], *, name: str | None = None) -> tuple[str, ...]:
    """The ids of the projects' environments, all of them or those of one name."""
    return tuple(
        environment_id(object_id(project), one)
        for project in projects
        for one in indexes.environment_names(project)
        if name is None or name == one
    )


def _versions(call: AnyCall, text: str, projects: Iterable[ProjectObject]) -> tuple[str, ...]:
    """The names of the versions that ``text`` means: an id, a name, or the name of the object."""
    cluster, identifier = call.platform.cluster, parse_id(text)
    names = [
        version["metadata"]["name"]
        for project in projects
        for version in cluster.referring(
            cluster.versions, "project", call.namespace, project["metadata"]["name"]
        )
        if object_id(version) == identifier or version["spec"].get("versionName") == text
    ]
    return tuple(dict.fromkeys([text, *names]))[:100]


async def require_run(call: Call[rest.RunQuery, object]) -> tuple[Run, list[str]]:
    """The run in the path, of one of the project's environments, and warnings."""
    project = require_project(call)
    text = call.path["run_id"]
    identifier = parse_id(text)
    found: list[Run] = []
    if identifier is not None:
        environments = environments_of([project], name=call.query.project_env)
        found = await call.platform.runs.find(call.organisation.id, environments, identifier)
    if not found:
        raise errors.not_found("run", text)
    return found[0], [_COPIED] if len(found) > 1 else []


def _encode(scope: str, position: Position) -> str:
    return seal("runs", scope, *position)


def _decode(scope: str, cursor: str) -> Position:
    refused = refused_cursor()
    match unseal(cursor, refused=refused):
        case ["runs", str(where), int(queued), str(run), str(environment)] if (
            where == scope
            and 0 <= queued <= _MAX_INT
            and parse_id(run) == run
            and parse_id(environment) == environment
        ):
            return queued, run, environment
    raise refused
