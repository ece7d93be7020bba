"""Runs in REST."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from tieline_api.conversion.projects import version_name
from tieline_api.schemas import runs as rest
from tieline_core.identity.ids import object_id, parse_id
from tieline_core.resources.objects import EndUserObject, ProjectVersionObject
from tieline_protocol.kept_results import KeptResult
from tieline_protocol.run_progress import Progress
from tieline_protocol.run_records import RunError, StepApproval, StepRecord

MAX_INLINE = 1024 * 1024
"""Bytes of an input in an answer."""
_MAX_DEPTH = 64
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = 1000
_MAX_INT = 2**63 - 1
_BINARY = "application/octet-stream"

Find = Callable[[str], EndUserObject | None]
"""Finds an object by what runs call it."""


def time_to_rest(nanoseconds: int) -> str:
    """RFC 3339 in UTC, to the microsecond."""
    moment = _EPOCH + timedelta(microseconds=nanoseconds // _MICROSECOND)
    return f"{moment.replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def nanoseconds(text: str) -> int:
    """The nanoseconds since 1970 of a time with nine digits after the point."""
    moment = datetime.fromisoformat(text[:26]).replace(tzinfo=UTC) - _EPOCH
    return max(-_MAX_INT, min(_MAX_INT, moment // timedelta(microseconds=1) * _MICROSECOND))


def maybe_time(nanoseconds: int | None) -> str | None:
    """The same for a time that may be unknown."""
    return None if nanoseconds is None else time_to_rest(nanoseconds)


def user_to_rest(external_id: str | None, users: Find) -> rest.UserOfRun | None:
    """The user of a run."""
    return None if external_id is None else known_user(external_id, users)


def known_user(external_id: str, users: Find) -> rest.UserOfRun:
    """A user by the id in the customer's application."""
    found = users(external_id)
    return rest.UserOfRun(id=object_id(found) if found else None, external_id=external_id)


def version_to_rest(
    name: str, versions: Callable[[str], ProjectVersionObject | None]
) -> rest.VersionOfRun | None:
    """The version of a run, by the name of its object."""
    if not name:
        return None
    found = versions(name)
    if found is None:
        # Objects that REST makes are named after their ids.
        return rest.VersionOfRun(id=parse_id(name), name=name)
    return rest.VersionOfRun(id=object_id(found), name=version_name(found))


def error_to_rest(error: RunError | None) -> rest.RunFailure | None:
    """Why an attempt failed."""
    if error is None:
        return None
    upstream = error.upstream
    return rest.RunFailure(
        type=error.type,
        message=error.message,
        upstream=rest.UpstreamResponse(
            status=upstream.status, body=upstream.body, system=upstream.system or None
        )
        if upstream
        else None,
    )


def progress_to_rest(progress: Progress | None) -> rest.RunProgress | None:
    """How far a run is."""
    if progress is None:
        return None
    return rest.RunProgress(
        text=progress.text, fraction=progress.fraction, attempt=progress.attempt, at=_seconds(progress.at)
    )


def step_to_rest(step: StepRecord) -> rest.RunStep:
    """A step."""
    return rest.RunStep(
        name=step.name,
        occurrence=step.occurrence,
        started_at=_seconds(step.started_at),
        ended_at=_seconds(step.ended_at),
        recorded=step.recorded,
        error=step.error,
        approval=_approval(step.approval) if step.approval else None,
        child=step.child,
    )


def recorded_step(step: KeptResult) -> rest.RecordedStep:
    """A step with its result."""
    outcome = step.outcome
    return rest.RecordedStep(
        name=step.name,
        name_hash=step.name_hash,
        occurrence=step.occurrence,
        place=step.place,
        work=step.work,
        version=step.version,
        run=step.run,
        idempotency_key=step.idempotency_key,
        result=step.result,
        missing=step.missing or None,
        outcome=outcome
        and rest.RecordedOutcome(wait=outcome.wait, event=outcome.event, payload=outcome.payload),
    )


def _approval(approval: StepApproval) -> rest.StepApproval:
    return rest.StepApproval(
        id=approval.id,
        state=approval.state,
        answered_by=approval.by or None,
        answered_at=_seconds(approval.at) if approval.at is not None else None,
        comment=approval.comment or None,
    )


def input_to_rest(payload: bytes, content_type: str | None) -> tuple[bytes | None, dict[str, Any]]:
    """An input as JSON, as it was sent, where it is JSON; and otherwise the fields of an answer that show it."""
    if len(payload) > MAX_INLINE:
        shown = base64.b64encode(payload[:MAX_INLINE]).decode()
        return None, {
            "input_base64": shown,
            "input_content_type": content_type or _BINARY,
            "input_truncated": True,
        }
    try:
        value = orjson.loads(payload)
    except ValueError:
        value = None
    if value is not None and _is_shallow(value):
        return payload, {}
    if value is None and payload.strip() == b"null":
        content_type = "application/json"
    shown = base64.b64encode(payload).decode()
    return None, {"input_base64": shown, "input_content_type": content_type or _BINARY}


def _is_shallow(value: Any) -> bool:
    level = [value]
    for _ in range(_MAX_DEPTH):
        level = [
            child
            for one in level
            if isinstance(one, dict | list)
            for child in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return True
    return False


def _seconds(seconds: float) -> str:
    return time_to_rest(round(seconds * 1_000_000) * _MICROSECOND)
