"""Issues: failed runs grouped by what failed, and decisions about them."""

import logging
import time
from dataclasses import replace

from tieline_api.auth.permissions import permission
from tieline_api.conversion.runs import nanoseconds
from tieline_api.handlers.projects import PROJECT
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.runs.issues import Decision, state_of
from tieline_api.runs.model import PageRequest
from tieline_api.schemas import issues as rest
from tieline_api.schemas.runs import RunsAffected
from tieline_api.use_cases import bulk_run_actions
from tieline_api.use_cases.issue_decisions import decide, new_decision, newest_version
from tieline_api.views.issue_lookup import (
    etag_of,
    page_of_issues,
    require_issue,
    runs_of,
    runs_to_replay,
    serving_version,
)
from tieline_api.views.project_lookup import require_project
from tieline_api.views.run_lookup import ShownRuns

logger = logging.getLogger("tieline.issues")

ISSUES = f"{PROJECT}/issues"
ISSUE = f"{ISSUES}/{{issue_id}}"

OPERATIONS = Operations("Issues")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/issues",
    id="listIssues",
    summary="List issues",
    permissions=permission("list", "projects"),
)
async def list_issues(call: Call[rest.IssuesQuery, None]) -> Reply[rest.IssuePage]:
    """Returns the issues of all the organisation's projects, most recently seen first. An issue groups failed runs and
    dead letters by environment, task, type of the error, system, and the message without numbers and ids."""
    projects = call.platform.cluster.ordered.projects.objects(call.namespace)
    return await page_of_issues(call, projects, everywhere=True, now=time.time_ns())


@OPERATIONS.add(
    "GET",
    ISSUES,
    id="listProjectIssues",
    summary="List the issues of a project",
    permissions=permission("get", "projects"),
)
async def list_project_issues(call: Call[rest.IssuesQuery, None]) -> Reply[rest.IssuePage]:
    """Returns the issues of a project, most recently seen first."""
    return await page_of_issues(call, [require_project(call)], everywhere=False, now=time.time_ns())


@OPERATIONS.add(
    "GET",
    ISSUE,
    id="getIssue",
    summary="Get an issue",
    permissions=permission("get", "projects"),
    conditional=True,
)
async def get_issue(call: Call[None, None]) -> Reply[rest.IssueDetail]:
    """Returns an issue with the users that it affects most and its newest runs."""
    issue, shown = await require_issue(call, time.time_ns())
    page = await call.platform.runs.page(
        runs_of(call.organisation.id, issue), PageRequest(first=rest.LATEST_RUNS)
    )
    affected = await call.platform.runs.users_of_issue(call.organisation.id, issue.id, rest.MOST_USERS)
    of_runs = ShownRuns(call)
    body = rest.IssueDetail(
        **shown.issue(issue).model_dump(),
        most_affected_users=[
            rest.AffectedUser(user=of_runs.user(external_id), count=count) for external_id, count in affected
        ],
        latest_runs=[of_runs.run(run) for run in page.runs],
    )
    warnings = call.platform.runs.issue_warnings(call.organisation.id)
    return Reply(body=body, etag=etag_of(issue, body), warnings=warnings)


@OPERATIONS.add(
    "PATCH",
    ISSUE,
    id="updateIssue",
    summary="Resolve, mute, reopen or assign an issue",
    permissions=permission("patch", "projects"),
    conditional=True,
)
async def update_issue(call: Call[None, rest.IssueUpdate]) -> Reply[rest.Issue]:
    """Sets the state or the assignee of an issue. A resolved issue that fails again is ``regressed``: at once, or with
    ``nextVersion`` when a version fails that is newer than all present ones."""
    now = time.time_ns()
    issue, shown = await require_issue(call, now)
    serving = serving_version(call, issue.environment)
    newest, newest_at = newest_version(issue, serving, shown.age)

    def change(before: Decision) -> Decision:
        return new_decision(
            before, call.body, newest=newest, newest_at=newest_at, by=call.caller.username, now=now
        )

    decision, sequence = await decide(
        call.platform, call.organisation.id, issue, change, if_match=call.if_match
    )
    logger.info(
        "Issue %s",
        call.body.state or "assigned",
        extra={
            "issue": issue.id,
            "environment": issue.environment,
            "organisation": call.organisation.id,
            "user": call.caller.username,
        },
    )
    state = state_of(decision, last=issue.last, versions=issue.versions, age=shown.age, now=now)
    issue = replace(issue, decision=decision, decided=sequence, state=state)
    body = shown.issue(issue)
    return Reply(body=body, etag=etag_of(issue, body))


@OPERATIONS.add(
    "POST",
    f"{ISSUE}/replay",
    id="replayIssue",
    summary="Run the runs of an issue again",
    permissions=permission("patch", "projects"),
    body_optional=True,
    strict=True,
    success=202,
)
async def replay_issue(call: Call[None, rest.IssueReplay]) -> Reply[RunsAffected]:
    """Runs the 10,000 oldest runs of an issue again whose input is kept. Repeat the request while there are ``more``:
    it skips runs that were run again or discarded. The issue keeps its state."""
    issue, _ = await require_issue(call, time.time_ns())
    start = nanoseconds(call.body.start) if call.body.start else None
    found = await bulk_run_actions.replay_all(
        call.platform, runs_to_replay(call.organisation.id, issue, start), dry_run=bool(call.body.dry_run)
    )
    return Reply(body=RunsAffected(count=found.count, skipped=found.skipped, more=found.more))
