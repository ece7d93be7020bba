"""Which approvals a request means, and how answers show them to a caller."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from tieline_api import cursors, errors
from tieline_api.auth.memberships import PROBES, Role
from tieline_api.cluster import indexes
from tieline_api.http.operation import AnyCall, Call, Reply
from tieline_api.runs.approvals import MOST, ApprovalRef, FoundApprovals, StoredApproval
from tieline_api.schemas import approvals as rest
from tieline_api.views.activation_lookup import EnvironmentRef, environment_in_path
from tieline_core.identity.ids import environment_id, format_time, object_id, parse_id
from tieline_core.resources.objects import ProjectObject
from tieline_protocol.approvals import ApprovalState, refusal
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import ENDED

_KIND = "approvals"
_SHOWN = 3
"""Environments that a warning names."""
_ROLES: Mapping[str, Role] = {
    "tieline-viewer": "viewer",
    "tieline-editor": "editor",
    "tieline-admin": "admin",
}


class ShownApprovals:
    """Approvals as answers show them to the caller."""

    def __init__(self, call: AnyCall, projects: Mapping[str, str]) -> None:
        """``projects`` has the ids of projects by those of their environments."""
        self._call = call
        self._projects = projects
        self._now = time.time()

    async def approval(self, stored: StoredApproval) -> rest.Approval:
        """One of them."""
        asked, given = stored.approval, stored.answer
        state = await self.state(stored)
        return rest.Approval(
            id=asked.id,
            project_id=self._projects[stored.environment],
            environment_id=stored.environment,
            run_id=asked.run,
            task=asked.task,
            user=asked.user,
            title=asked.title,
            details=asked.details,
            by=list(asked.by),
            other_than=asked.other_than,
            form=None if asked.form is None else dict(asked.form),
            asked_at=_time(asked.asked_at),
            until=_time(asked.until),
            state=state,
            answer=rest.ApprovalAnswer(
                approved=given.approved,
                by=given.by,
                name=given.name or None,
                at=_time(given.at),
                comment=given.comment or None,
                values=None if given.values is None else dict(given.values),
            )
            if given is not None
            else None,
            may_answer=state == "open" and await self.refusal(stored) is None,
        )

    async def state(self, stored: StoredApproval) -> ApprovalState:
        """What became of an approval, as far as is known."""
        state = stored.state(self._now, run_ended=False)
        if state != "open":
            return state
        organisation, run = self._call.organisation.id, stored.approval.run
        found = await self._call.platform.runs.find(organisation, [stored.environment], run)
        return stored.state(self._now, run_ended=bool(found) and found[0].status in ENDED)

    async def refusal(self, stored: StoredApproval) -> str | None:
        """Why the caller may not answer an approval."""
        caller = self._call.caller
        roles = [role for role, rights in _ROLES.items() if await self._has(rights)]
        return refusal(stored.approval, user=caller.username, groups=caller.groups, roles=roles)

    async def _has(self, role: Role) -> bool:
        """Whether the caller has all rights of a role, whatever gives them."""
        access, caller, namespace = self._call.platform.access, self._call.caller, self._call.namespace
        for one, permissions in PROBES.items():
            for permission in permissions:
                if not await access.allowed(caller, namespace, permission):
                    return False
            if one == role:
                return True
        return False


async def page_of_approvals(call: Call[rest.ApprovalsQuery, None]) -> Reply[rest.ApprovalPage]:
    """A page of the approvals that the query asks for."""
    query, platform, organisation = call.query, call.platform, call.organisation.id
    projects = _environments(call.platform.cluster.ordered.projects.objects(call.namespace), query)
    environments = await platform.runs.environments_with_events(organisation, list(projects))
    found = await platform.approvals.refs(organisation, environments, lambda ref: _is_possible(ref, query))
    refs = found.refs
    shown = ShownApprovals(call, projects)
    if query.state or query.answerable:
        refs = await _chosen(call, refs, shown)
    page = cursors.cut(refs, kind=_KIND, position=_position, newest_first=True, **query.window)
    stored = await platform.approvals.read(organisation, page.items)
    items = [
        await shown.approval(one)
        for ref in page.items
        if (one := stored.get((ref.environment, ref.id))) is not None
    ]
    return Reply(
        body=rest.ApprovalPage(total_count=page.total, items=items, next=page.next, prev=page.prev),
        warnings=(*_incomplete(found), *platform.runs.warnings(organisation)),
    )


async def require_approval(call: AnyCall) -> tuple[EnvironmentRef, StoredApproval, ShownApprovals]:
    """The approval in the path, with its environment. Raises ApiError."""
    environment = environment_in_path(call)
    text = call.path["approval_id"]
    identifier = parse_id(text)
    streams = EventStreams(call.organisation.id, environment.id)
    found = await call.platform.approvals.get(streams, identifier) if identifier else None
    if found is None:
        raise errors.not_found("approval", text)
    shown = ShownApprovals(call, {environment.id: object_id(environment.project)})
    return environment, found, shown


def _environments(projects: Iterable[ProjectObject], query: rest.ApprovalsQuery) -> dict[str, str]:
    """The ids of the environments that the query asks for, with those of their projects."""
    return {
        identifier: object_id(project)
        for project in projects
        if query.project is None or query.project == object_id(project)
        for name in indexes.environment_names(project)
        if query.project_env is None or query.project_env == name
        if (identifier := environment_id(object_id(project), name))
        and query.environment in (None, identifier)
    }


def _is_possible(ref: ApprovalRef, query: rest.ApprovalsQuery) -> bool:
    """Whether it may be in one of the states that the query asks for."""
    states = {"open"} if query.answerable else set(query.state or ())
    possible = (
        {"approved", "rejected", "timed_out"} if ref.is_answered else {"open", "withdrawn", "timed_out"}
    )
    return not states or not states.isdisjoint(possible)


def _incomplete(found: FoundApprovals) -> Iterator[str]:
    """Warnings about what a list does not have."""
    if found.unread:
        shown, more = ", ".join(found.unread[:_SHOWN]), len(found.unread) - _SHOWN
        yield (
            f"The event engine does not answer: approvals of the environments {shown}"
            f"{f' and {more} more' if more > 0 else ''} are missing"
        )
    if found.left_out:
        yield (
            f"{found.left_out} older approvals are left out: a list has at most {MOST}, shared among environments. "
            "Filter by environment or state to see them"
        )


async def _chosen(
    call: Call[rest.ApprovalsQuery, None], refs: Sequence[ApprovalRef], shown: ShownApprovals
) -> list[ApprovalRef]:
    """Those that are in the states that the query asks for, and that the caller may answer where it asks that."""
    stored = await call.platform.approvals.read(call.organisation.id, refs)
    chosen: list[ApprovalRef] = []
    for ref in refs:
        one = stored.get((ref.environment, ref.id))
        if one is None:
            continue
        state = await shown.state(one)
        if call.query.state and state not in call.query.state:
            continue
        if call.query.answerable and (state != "open" or await shown.refusal(one) is not None):
            continue
        chosen.append(ref)
    return chosen


def _position(ref: ApprovalRef) -> cursors.Position:
    return f"{ref.id}{ref.environment}", ref.id


def _time(seconds: float) -> str:
    return format_time(datetime.fromtimestamp(seconds, UTC))
