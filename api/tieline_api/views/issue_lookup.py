"""Which issues a request means, and how answers show them."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from tieline_api import errors
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.conversion import runs as convert
from tieline_api.conversion.projects import environment_status
from tieline_api.conversion.times import created_at, in_utc
from tieline_api.http.operation import AnyCall, Call, Reply
from tieline_api.page_tokens import refused_cursor, seal, unseal
from tieline_api.runs.fingerprints import is_issue_id
from tieline_api.runs.issues import Issue, IssueFilter, IssuePageRequest, IssuePosition, newer_version
from tieline_api.runs.model import RunFilter
from tieline_api.runs.queries.issues import HOURS
from tieline_api.runs.tables import HOUR
from tieline_api.schemas import issues as rest
from tieline_api.state.documents import version_of
from tieline_api.views.activation_lookup import find_environment
from tieline_api.views.project_lookup import require_project
from tieline_api.views.run_lookup import ShownRuns, environments_of
from tieline_core.identity.ids import object_id
from tieline_core.resources.objects import ProjectObject

_MAX_INT = 2**63 - 1
_SECOND = 1_000_000_000


def version_age(cluster: ClusterCache, namespace: str, version: str) -> int | None:
    """When a version was created (nanoseconds), by the name of its object; None for one that is gone."""
    found = cluster.versions.get(namespace, version)
    created = in_utc(created_at(found)) if found is not None else None
    return None if created is None else round(created.timestamp()) * _SECOND


class ShownIssues:
    """Issues as answers show them."""

    def __init__(self, call: AnyCall, now: int) -> None:
        self._call = call
        self._runs = ShownRuns(call)
        self._now = now

    def age(self, version: str) -> int | None:
        """When a version was created (nanoseconds), by the name of its object; None for one that is gone."""
        return version_age(self._call.platform.cluster, self._call.namespace, version)

    def issue(self, issue: Issue) -> rest.Issue:
        """An issue with the versions that it names."""
        said, version = issue.decision, self._runs.version
        environment = find_environment(self._call, issue.environment)
        is_resolved = issue.state in ("resolved", "regressed")
        shown = rest.Issue(
            id=issue.id,
            project_id=object_id(environment.project) if environment else None,
            environment_id=issue.environment,
            kind=issue.kind,
            task=issue.task,
            type=issue.type,
            message=issue.message,
            system=issue.system or None,
            upstream_status=issue.status,
            state=issue.state,
            count=issue.runs,
            first_seen=convert.time_to_rest(issue.first),
            last_seen=convert.time_to_rest(issue.last),
            first_version=version(issue.first_version),
            last_version=version(issue.last_version),
            users=issue.users,
            keys=issue.keys,
            hours=self._hours(issue),
        )
        if said is None:
            return shown
        shown.assignee = said.assignee or None
        if said.at:
            shown.changed_at, shown.changed_by = convert.time_to_rest(said.at), said.by or None
        if is_resolved and said.next_version:
            shown.next_version, shown.resolved_after = True, version(said.version)
            shown.regressed_in = version(newer_version(said, issue.versions, self.age) or "")
        if said.state == "muted":
            shown.muted_until, shown.reason = convert.maybe_time(said.until), said.reason or None
        return shown

    def _hours(self, issue: Issue) -> list[int]:
        last = self._now // HOUR
        return [issue.hours.get(hour, 0) for hour in range(last - HOURS + 1, last + 1)]


async def page_of_issues(
    call: Call[rest.IssuesQuery, None], projects: Iterable[ProjectObject], *, everywhere: bool, now: int
) -> Reply[rest.IssuePage]:
    """A page of the issues that the query asks for: of these projects, or ``everywhere`` in the organisation."""
    query = call.query
    scope = f"{call.organisation.id}/{call.path.get('project_id', '').upper()}"
    environments = None
    if not everywhere or query.project_env:
        environments = environments_of(projects, name=query.project_env)
    wanted = IssueFilter(
        organisation=call.organisation.id,
        environments=environments,
        states=tuple(query.state) if query.state else None,
        kind=query.kind,
        task=query.task,
        system=query.system,
        assignee=query.assignee,
        since=convert.nanoseconds(query.since) if query.since else None,
        until=convert.nanoseconds(query.until) if query.until else None,
    )
    shown = ShownIssues(call, now)
    request = IssuePageRequest(
        first=query.first,
        after=_decode(scope, query.after) if query.after else None,
        before=_decode(scope, query.before) if query.before else None,
        now=now,
        age=shown.age,
    )
    page = await call.platform.runs.issues(wanted, request)
    body = rest.IssuePage(
        total_count=page.total,
        items=[shown.issue(one) for one in page.issues],
        next=_encode(scope, page.issues[-1]) if page.older else None,
        prev=_encode(scope, page.issues[0]) if page.newer else None,
    )
    return Reply(body=body, warnings=call.platform.runs.issue_warnings(call.organisation.id))


async def require_issue(call: AnyCall, now: int) -> tuple[Issue, ShownIssues]:
    """The issue in the path, of one of the project's environments, and how it is shown. Raises ApiError."""
    project = require_project(call)
    shown = ShownIssues(call, now)
    text = call.path["issue_id"].lower()
    found = None
    if is_issue_id(text):
        found = await call.platform.runs.issue(
            call.organisation.id, environments_of([project]), text, age=shown.age, now=now
        )
    if found is None:
        raise errors.not_found("issue", text)
    return found, shown


def runs_of(organisation: str, issue: Issue) -> RunFilter:
    """The runs of an issue."""
    return RunFilter(organisation=organisation, environments=(issue.environment,), issue=issue.id)


def runs_to_replay(organisation: str, issue: Issue, start: int | None = None) -> RunFilter:
    """Those that were neither run again nor discarded, so that a repeated request continues with the following ones."""
    return replace(runs_of(organisation, issue), replayed=False, discarded=False, start=start)


def etag_of(issue: Issue, shown: rest.Issue) -> str:
    """The ETag of an answer about an issue. If-Match compares the decision, whose version comes before the dash."""
    digest = hashlib.sha256(shown.model_dump_json().encode()).hexdigest()[:32]
    return f'"{version_of(issue.decided)}-{digest}"'


def serving_version(call: AnyCall, environment: str) -> str:
    """The name of the version that serves in the environment with this id; empty where none does."""
    found = find_environment(call, environment)
    return str(environment_status(found.project, found.name).get("version") or "") if found else ""


def _encode(scope: str, issue: Issue) -> str:
    return seal("issues", scope, issue.last, issue.id)


def _decode(scope: str, cursor: str) -> IssuePosition:
    refused = refused_cursor()
    match unseal(cursor, refused=refused):
        case ["issues", str(where), int(last), str(issue)] if (
            where == scope and 0 <= last <= _MAX_INT and is_issue_id(issue)
        ):
            return last, issue
    raise refused
