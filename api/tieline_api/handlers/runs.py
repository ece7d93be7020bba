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
from tieline_api.http.operation import ORGANISATION, Call, Operations, Reply
from tieline_api.http.request_body import member_text
from tieline_api.runs.ended_steps import FIELD, StepName
from tieline_api.runs.history import RunInput
from tieline_api.runs.model import Attempt, AttemptPage, Run
from tieline_api.schemas import runs as rest
from tieline_api.use_cases import bulk_run_actions, run_actions, run_forks, run_recordings, run_signals
from tieline_api.use_cases.run_actions import why_not_again
from tieline_api.views.activation_lookup import find_environment
from tieline_api.views.project_lookup import environment_object, require_project
from tieline_api.views.run_lookup import (
    ShownRuns,
    environments_of,
    page_of_runs,
    require_run,
    selected_runs,
)
from tieline_core.identity.ids import object_id
from tieline_protocol.recordings import FORMAT
from tieline_protocol.run_records import RunRecord

RUNS = f"{PROJECT}/runs"
RUN = f"{RUNS}/{{run_id}}"

OPERATIONS = Operations("Runs and events")


@OPERATIONS.add(
    "GET",
    f"{ORGANISATION}/runs",
    id="listRuns",
    summary="List runs",
    permissions=permission("list", "projects"),
)
async def list_runs(call: Call[rest.RunsQuery, None]) -> Reply[rest.RunPage]:
    """Returns the runs of all the organisation's projects, newest first."""
    cluster = call.platform.cluster
    environments = None
    if call.query.project_env:
        projects = cluster.ordered.projects.objects(call.namespace)
        environments = environments_of(projects, name=call.query.project_env)
    return await page_of_runs(call, environments, cluster.ordered.projects.objects(call.namespace))


@OPERATIONS.add(
    "GET",
    RUNS,
    id="listProjectRuns",
    summary="List the runs of a project",
    permissions=permission("get", "projects"),
)
async def list_project_runs(call: Call[rest.RunsQuery, None]) -> Reply[rest.RunPage]:
    """Returns the runs of a project, newest first."""
    project = require_project(call)
    return await page_of_runs(call, environments_of([project], name=call.query.project_env), [project])


@OPERATIONS.add(
    "GET", RUN, id="getRun", summary="Get a run", permissions=permission("get", "projects"), conditional=True
)
async def get_run(call: Call[rest.RunQuery, None]) -> Reply[rest.RunDetail]:
    """Returns a run with its attempts and steps, and with its input where that is kept."""
    organisation = call.organisation.id
    run, warnings = await require_run(call)
    history = call.platform.runs
    attempts = await history.attempts(organisation, run)
    ahead = await history.ahead_of(organisation, [run])
    warnings += history.warnings(organisation)
    try:
        given = await history.input(organisation, run)
    except EngineUnavailableError:
        given = None
        warnings.append("The run's input cannot be read while the event engine is away")
    shown = ShownRuns(call)
    versions = {one.version: shown.version(one.version) for one in attempts.attempts}
    can_replay = not why_not_again(run) and (given is not None or run.kind == "event")
    content = await asyncio.to_thread(
        run_detail,
        shown.run(run, ahead),
        attempts,
        versions,
        given,
        can_replay=can_replay,
    )
    etag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Reply(content=content, etag=etag, warnings=tuple(dict.fromkeys(warnings)))


def run_detail(
    run: rest.Run,
    page: AttemptPage,
    versions: Mapping[str, rest.VersionOfRun | None],
    given: RunInput | None,
    *,
    can_replay: bool = False,
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
        can_replay=can_replay,
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


async def _environment_of_run(call: Call[rest.RunQuery, object]) -> tuple[str, ...]:
    run, _ = await require_run(call)
    found = find_environment(call, run.environment)
    return (environment_object(found.project, found.name),) if found else ()


@OPERATIONS.add(
    "GET",
    f"{RUN}/recording",
    id="downloadRun",
    summary="Download a run",
    permissions=permission("get", "projects"),
)
async def download_run(call: Call[rest.RunQuery, None]) -> Reply[rest.RunRecording]:
    """Returns a run that has ended, with results and answers of other systems, for ``tieline run --replay``."""
    run, warnings = await require_run(call)
    project = object_id(require_project(call))
    found = await run_recordings.contents_of(call.platform, call.organisation.id, project, run)
    body = rest.RunRecording(
        format=FORMAT,
        id=run.id,
        kind=run.kind,
        task=run.task,
        status=run.status,
        attempt=run.attempt,
        queued_at=convert.time_to_rest(run.queued_at),
        user=run.user,
        key=run.key,
        event_id=run.event_id,
        replay_of=run.replay_of,
        version=ShownRuns(call).version(run.version),
        payload=found.payload,
        steps=[convert.recorded_step(one) for one in found.steps],
        answers=[
            rest.RecordedAnswer(method=one.method, url=one.url, status=one.status, body=one.body)
            for one in found.answers
        ],
        notes=found.notes,
    )
    return Reply(body=body, warnings=tuple(warnings))


@OPERATIONS.add(
    "POST",
    f"{RUN}/replay",
    id="replayRun",
    summary="Run a run again",
    permissions=permission("patch", "projects"),
    by_environment=_environment_of_run,
    body_optional=True,
    size=BodyKind.EVENT,
    keeps_body=True,
    success=202,
)
async def replay_run(call: Call[rest.RunQuery, rest.ReplayBody]) -> Reply[rest.Run]:
    """Runs a run again that has ended, with its own input or with another one. The answer is the new run.

    With ``fromStep`` it gets the recorded results of the steps before that one, and does the others anew.
    """
    run, warnings = await require_run(call)
    payload = None
    if "payload" in call.body.model_fields_set:
        payload = await asyncio.to_thread(member_text, call.raw, "payload")
    step = call.body.from_step
    record: RunRecord | None
    if step is None:
        record = await run_actions.replay(call.platform, call.organisation.id, run, payload)
    elif payload is not None:
        raise errors.invalid(
            FIELD, "cannot be sent with payload: the results before the step belong to the run's own input"
        )
    else:
        first = StepName(step.name, step.occurrence)
        record = await run_forks.fork(call.platform, call.organisation.id, run, first)
    if record is None:
        raise errors.conflict("The run is being run again already")
    shown = ShownRuns(call).run(run_of_record(record, run.environment))
    return Reply(body=shown, warnings=tuple(warnings))


@OPERATIONS.add(
    "POST",
    f"{RUN}/cancel",
    id="cancelRun",
    summary="Cancel a run",
    permissions=permission("patch", "projects"),
    by_environment=_environment_of_run,
    success=202,
)
async def cancel_run(call: Call[rest.RunQuery, None]) -> Reply[None]:
    """Cancels a run that has not ended. One that a pod is running ends at its next pause."""
    run, warnings = await require_run(call)
    await run_actions.cancel(call.platform, call.organisation.id, run)
    return Reply(warnings=tuple(warnings))


@OPERATIONS.add(
    "POST",
    f"{RUN}/signals/{{name}}",
    id="signalRun",
    summary="Send a signal to a run",
    permissions=permission("patch", "projects"),
    by_environment=_environment_of_run,
    body_optional=True,
    keeps_body=True,
    errors=(409,),
    success=202,
)
async def signal_run(call: Call[rest.RunQuery, rest.SignalCreate]) -> Reply[rest.SignalAccepted]:
    """Stores a signal for a run that has not ended. The run gets it when its code waits for a signal of this name, also
    if that is later. The answer is 409 for a run that has ended, and for one that is not retried."""
    run, warnings = await require_run(call)
    has_payload = "payload" in call.body.model_fields_set
    is_new = await run_signals.send(
        call.platform,
        call.organisation.id,
        run,
        call.path["name"],
        member_text(call.raw, "payload") if has_payload else b"null",
        by=call.caller.username,
        identifier=call.body.id,
    )
    body = rest.SignalAccepted(status="stored" if is_new else "duplicate")
    return Reply(body=body, warnings=tuple(warnings))


@OPERATIONS.add(
    "POST",
    f"{RUN}/discard",
    id="discardRun",
    summary="Discard the dead letter of a run",
    permissions=permission("patch", "projects"),
    by_environment=_environment_of_run,
    success=202,
)
async def discard_run(call: Call[rest.RunQuery, None]) -> Reply[None]:
    """Deletes the dead letter of a dead run. The run stays in the history, with the time as ``discardedAt``."""
    run, warnings = await require_run(call)
    await run_actions.discard(call.platform, call.organisation.id, run)
    return Reply(warnings=tuple(warnings))


@OPERATIONS.add(
    "POST",
    f"{RUNS}/replay",
    id="replayRuns",
    summary="Run many runs again",
    permissions=permission("patch", "projects"),
    body_optional=True,
    strict=True,
    success=202,
)
async def replay_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> Reply[rest.RunsAffected]:
    """Runs all runs of a filter again that have ended and whose input is kept, at most 10,000.

    A run that was run again already, or discarded, is left out, however often the request is repeated.
    """
    wanted, dry_run = selected_runs(call)
    found = await bulk_run_actions.replay_all(call.platform, wanted, dry_run=dry_run)
    return Reply(body=rest.RunsAffected(count=found.count, skipped=found.skipped, more=found.more))


@OPERATIONS.add(
    "POST",
    f"{RUNS}/cancel",
    id="cancelRuns",
    summary="Cancel many runs",
    permissions=permission("patch", "projects"),
    body_optional=True,
    strict=True,
    success=202,
)
async def cancel_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> Reply[rest.RunsAffected]:
    """Cancels all runs of a filter that have not ended, at most 10,000."""
    wanted, dry_run = selected_runs(call)
    found = await bulk_run_actions.cancel_all(call.platform, wanted, dry_run=dry_run)
    return Reply(body=rest.RunsAffected(count=found.count, skipped=found.skipped, more=found.more))


@OPERATIONS.add(
    "POST",
    f"{RUNS}/discard",
    id="discardRuns",
    summary="Discard the dead letters of many runs",
    permissions=permission("patch", "projects"),
    body_optional=True,
    strict=True,
    success=202,
)
async def discard_runs(call: Call[rest.SelectionQuery, rest.SelectionBody]) -> Reply[rest.RunsAffected]:
    """Deletes the dead letters of all dead runs of a filter, at most 10,000."""
    wanted, dry_run = selected_runs(call)
    found = await bulk_run_actions.discard_all(call.platform, wanted, dry_run=dry_run)
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
