"""Runs: what became of webhooks, events, schedules and background tasks, and doing it again."""

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import permission
from tieline_api.body_limits import BodyKind
from tieline_api.conversion import runs as convert
from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.handlers.projects import PROJECT
from tieline_api.handlers.run_lookup import (
    ShownRuns,
    environments_of,
    need_run,
    page_of_runs,
    selected_runs,
)
from tieline_api.http.operation import ORGANISATION, Call, Operation, Reply
from tieline_api.http.request_body import member_text
from tieline_api.runs.history import RunInput
from tieline_api.runs.model import Attempt, AttemptPage, Run
from tieline_api.schemas import runs as rest
from tieline_api.use_cases import run_actions
from tieline_api.use_cases.project_lookup import need_project
from tieline_protocol.run_records import RunRecord

RUNS = f"{PROJECT}/runs"
RUN = f"{RUNS}/{{run_id}}"


async def list_runs(call: Call[rest.RunsQuery, None]) -> Reply:
    """Returns the runs of all the organisation's projects, newest first."""
    world = call.platform.world
    environments = None
    if call.query.project_env:
        projects = world.ordered.projects.objects(call.namespace)
        environments = environments_of(projects, name=call.query.project_env)
    return await page_of_runs(call, environments, world.ordered.projects.objects(call.namespace))


async def list_project_runs(call: Call[rest.RunsQuery, None]) -> Reply:
    """Returns the runs of a project, newest first."""
    project = need_project(call)
    return await page_of_runs(call, environments_of([project], name=call.query.project_env), [project])


async def get_run(call: Call[rest.RunQuery, None]) -> Reply:
    """Returns a run with its attempts and steps, and with its input where that is kept."""
    organisation = call.organisation.id
    run, warnings = await need_run(call)
    history = call.platform.runs
    attempts = await history.attempts(organisation, run)
    warnings += history.warnings
    try:
        given = await history.input(organisation, run)
    except EngineUnavailableError:
        given = None
        warnings.append("The run's input cannot be read while the event engine is away")
    shown = ShownRuns(call)
    versions = {one.version: shown.version(one.version) for one in attempts.attempts}
    content = await asyncio.to_thread(run_detail, shown.run(run), attempts, versions, given)
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Reply(content=content, etag=etag, warnings=tuple(dict.fromkeys(warnings)))


def run_detail(
    run: rest.Run,
    page: AttemptPage,
    versions: Mapping[str, rest.VersionOfRun | None],
    given: RunInput | None,
) -> bytes:
    """A RunDetail as JSON. It takes a while where there are many steps, or the input is large."""
    fields: dict[str, Any] = {}
    text = None
    if given is not None:
        headers = given.request.headers if given.request else []
        content_type = next((value for name, value in headers if name.lower() == "content-type"), None)
        text, fields = convert.input_to_rest(given.payload, content_type)
        if given.request:
            fields["request"] = rest.RunRequest(
                method=given.request.method, path=given.request.path, headers=[list(pair) for pair in headers]
            )
    attempts = [_attempt(one, versions[one.version]) for one in page.attempts]
    body = rest.RunDetail(
        **run.model_dump(),
        attempt_history=attempts,
        attempts_left_out=page.left_out or None,
        steps=next((one.steps for one in reversed(attempts) if one.steps), []),
        **fields,
    )
    content = body.model_dump_json(by_alias=True, exclude_none=True).encode()
    # Not through values of Python, which would change its numbers.
    return content if text is None else b'%b,"input":%b}' % (content[:-1], text)


def _attempt(attempt: Attempt, version: rest.VersionOfRun | None) -> rest.RunAttempt:
    return rest.RunAttempt(
        attempt=attempt.number,
        status=attempt.status,
        started_at=convert.maybe_time(attempt.started_at),
        ended_at=convert.maybe_time(attempt.ended_at),
        error=convert.error_to_rest(attempt.error),
        trace_id=attempt.trace_id or None,
        version=version,
        steps=[convert.step_to_rest(step) for step in attempt.steps],
        steps_left_out=attempt.steps_left_out or None,
    )


async def replay_run(call: Call[rest.RunQuery, rest.ReplayBody]) -> Reply:
    """Runs a run again that has ended, with its own input or with another one. The answer is the new run."""
    run, warnings = await need_run(call)
    payload = None
    if "payload" in call.body.model_fields_set:
        payload = member_text(call.raw, "payload")
    record = await run_actions.replay(call.platform, call.organisation.id, run, payload)
    if record is None:
        raise errors.conflict("The run is being run again already")
    shown = ShownRuns(call).run(run_of_record(record, run.environment))
    return Reply(body=shown, warnings=tuple(warnings))


async def cancel_run(call: Call[rest.RunQuery, None]) -> Reply:
    """Cancels a run that has not ended. One that a pod is running ends at its next pause."""
    run, warnings = await need_run(call)
    await run_actions.cancel(call.platform, call.organisation.id, run)
    return Reply(warnings=tuple(warnings))


async def discard_run(call: Call[rest.RunQuery, None]) -> Reply:
    """Deletes the dead letter of a dead run. The run stays in the history, with the time as ``discardedAt``."""
    run, warnings = await need_run(call)
    await run_actions.discard(call.platform, call.organisation.id, run)
    return Reply(warnings=tuple(warnings))


async def replay_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> Reply:
    """Runs all runs of a filter again that have ended and whose input is kept, at most 10,000.

    A run that was run again already, or discarded, is left out, however often the request is repeated.
    """
    wanted, dry_run = selected_runs(call)
    found = await run_actions.replay_all(call.platform, wanted, dry_run=dry_run)
    return Reply(body=rest.RunsAffected(count=found.count, skipped=found.skipped, more=found.more))


async def cancel_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> Reply:
    """Cancels all runs of a filter that have not ended, at most 10,000."""
    wanted, dry_run = selected_runs(call)
    found = await run_actions.cancel_all(call.platform, wanted, dry_run=dry_run)
    return Reply(body=rest.RunsAffected(count=found.count, skipped=found.skipped, more=found.more))


async def discard_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> Reply:
    """Deletes the dead letters of all dead runs of a filter, at most 10,000."""
    wanted, dry_run = selected_runs(call)
    found = await run_actions.discard_all(call.platform, wanted, dry_run=dry_run)
    return Reply(body=rest.RunsAffected(count=found.count, skipped=found.skipped, more=found.more))


def run_of_record(record: RunRecord, environment: str) -> Run:
    """A run that was just accepted."""
    return Run(
        id=record.id,
        environment=environment,
        kind=record.kind,
        task=record.task,
        status=record.status,
        attempt=record.attempt,
        queued_at=round(record.queued_at * 1_000_000) * 1000,
        user=record.user,
        key=record.key,
        event_id=record.event_id,
        replay_of=record.replay_of,
    )


_RUN: dict[str, Any] = {
    "id": "01JD3YEKHBZX9KQW8T2V4N6P0J",
    "kind": "event",
    "task": "order.created",
    "status": "waiting",
    "environmentId": "01JD3Y9D3E5TQ0M3H7RS8XA1BG",
    "activationId": "01JD3YDBJAZX9KQW8T2V4N6P0H",
    "user": {"id": "01JD3YC9H9ZX9KQW8T2V4N6P0G", "externalId": "customer-17"},
    "version": {"id": "01JD3YB7G8ZX9KQW8T2V4N6P0F", "name": "First"},
    "attempt": 1,
    "attempts": 10,
    "queuedAt": "2026-11-21T10:00:00.000000Z",
    "startedAt": "2026-11-21T10:00:00.012000Z",
    "endedAt": "2026-11-21T10:00:00.340000Z",
    "nextAttemptAt": "2026-11-21T10:00:05.340000Z",
    "error": {
        "type": "tieline.errors.UpstreamError",
        "message": "shop answered 503",
        "upstream": {"status": 503, "body": "maintenance"},
    },
    "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
}
_STEP = {
    "name": "fetch",
    "occurrence": 1,
    "startedAt": "2026-11-21T10:00:00.020000Z",
    "endedAt": "2026-11-21T10:00:00.330000Z",
    "recorded": False,
    "error": "UpstreamError: shop answered 503",
}
_PAGE = {"totalCount": 1, "items": [_RUN]}
_NEW = {
    "id": "01JD3YFM5CZX9KQW8T2V4N6P0K",
    "kind": "event",
    "task": "order.created",
    "status": "queued",
    "environmentId": _RUN["environmentId"],
    "attempt": 0,
    "queuedAt": "2026-11-21T11:00:00.000000Z",
    "replayOf": _RUN["id"],
}
_AFFECTED = {"count": 70, "skipped": 2, "more": False}
_SELECTED = {"status": "dead", "task": "order.created", "dryRun": True}

OPERATIONS = (
    Operation(
        id="listRuns",
        path=f"{ORGANISATION}/runs",
        summary="List runs",
        handler=list_runs,
        permissions=permission("list", "projects"),
        response=rest.RunPage,
        response_example=_PAGE,
    ),
    Operation(
        id="listProjectRuns",
        path=RUNS,
        summary="List the runs of a project",
        handler=list_project_runs,
        permissions=permission("get", "projects"),
        response=rest.RunPage,
        response_example=_PAGE,
    ),
    Operation(
        id="getRun",
        path=RUN,
        summary="Get a run",
        handler=get_run,
        permissions=permission("get", "projects"),
        response=rest.RunDetail,
        response_example={
            **_RUN,
            "attemptHistory": [
                {
                    "attempt": 1,
                    "status": "waiting",
                    "startedAt": _RUN["startedAt"],
                    "endedAt": _RUN["endedAt"],
                    "error": _RUN["error"],
                    "traceId": _RUN["traceId"],
                    "version": _RUN["version"],
                    "steps": [_STEP],
                }
            ],
            "steps": [_STEP],
            "input": {"id": "A-1001"},
        },
        conditional=True,
    ),
    Operation(
        id="replayRun",
        method="POST",
        path=f"{RUN}/replay",
        summary="Run a run again",
        handler=replay_run,
        permissions=permission("patch", "projects"),
        body_optional=True,
        size=BodyKind.EVENT,
        keeps_body=True,
        success=202,
        response=rest.Run,
        example={"payload": {"id": "A-1001"}},
        response_example=_NEW,
    ),
    Operation(
        id="cancelRun",
        method="POST",
        path=f"{RUN}/cancel",
        summary="Cancel a run",
        handler=cancel_run,
        permissions=permission("patch", "projects"),
        success=202,
    ),
    Operation(
        id="discardRun",
        method="POST",
        path=f"{RUN}/discard",
        summary="Discard the dead letter of a run",
        handler=discard_run,
        permissions=permission("patch", "projects"),
        success=202,
    ),
    Operation(
        id="replayRuns",
        method="POST",
        path=f"{RUNS}/replay",
        summary="Run many runs again",
        handler=replay_runs,
        permissions=permission("patch", "projects"),
        body_optional=True,
        strict=True,
        success=202,
        response=rest.RunsAffected,
        example=_SELECTED,
        response_example=_AFFECTED,
    ),
    Operation(
        id="cancelRuns",
        method="POST",
        path=f"{RUNS}/cancel",
        summary="Cancel many runs",
        handler=cancel_runs,
        permissions=permission("patch", "projects"),
        body_optional=True,
        strict=True,
        success=202,
        response=rest.RunsAffected,
        example={**_SELECTED, "status": "queued"},
        response_example=_AFFECTED,
    ),
    Operation(
        id="discardRuns",
        method="POST",
        path=f"{RUNS}/discard",
        summary="Discard the dead letters of many runs",
        handler=discard_runs,
        permissions=permission("patch", "projects"),
        body_optional=True,
        strict=True,
        success=202,
        response=rest.RunsAffected,
        example=_SELECTED,
        response_example=_AFFECTED,
    ),
)
