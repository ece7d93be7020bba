"""Runs as rows of the index."""

from collections.abc import Sequence
from typing import Any

import orjson

from tieline_api.runs.model import Run
from tieline_api.runs.records import error_from_json
from tieline_protocol.run_progress import Progress

REPLAYS = (
    "select max(again.id) from runs again where again.organisation = runs.organisation "
    "and again.environment = runs.environment and again.replay_of = runs.id"
)
FAILED = "'failed', 'dead'"
NOT_ENDED = "status in ('queued', 'running', 'waiting')"
_TAGS = (
    "select json_group_object(name, value) from tags where tags.organisation = runs.organisation "
    "and tags.environment = runs.environment and tags.run = runs.id"
)
_PROGRESS = (
    "select json_array(attempt, at, text, fraction) from progress where progress.organisation = runs.organisation "
    "and progress.environment = runs.environment and progress.run = runs.id"
)
COLUMNS = (
    "runs.id, runs.environment, kind, task, status, runs.attempt, runs.queued, attempts, user, activation_id, version, "
    "key, shared_key, event_id, batch, started, ended, next_attempt, waits_for, discarded, error, trace_id, replay_of, "
    f"({REPLAYS}), nullif(input_at, 0), direct, issue, parent, ({_TAGS}), ({_PROGRESS})"
)


def run_of_row(row: Sequence[Any]) -> Run:
    """The run of a row of COLUMNS."""
    (
        identifier, environment, kind, task, status, attempt, queued, most, user, activation_id, version, key,
        shared_key, event_id, batch, started, ended, next_attempt, waits_for, discarded, error, trace_id, replay_of,
        replayed_by, input_at, direct, issue, parent, tags, progress,
    ) = row  # fmt: skip
    return Run(
        id=identifier,
        environment=environment,
        kind=kind,
        task=task,
        status=status,
        attempt=attempt,
        queued_at=queued,
        attempts=most,
        user=user,
        activation_id=activation_id,
        version=version,
        key=key,
        shared_key=bool(shared_key),
        event_id=event_id,
        batch=bool(batch),
        started_at=started,
        ended_at=ended,
        next_attempt_at=next_attempt,
        waits_for=waits_for,
        discarded_at=discarded,
        error=error_from_json(error),
        trace_id=trace_id,
        replay_of=replay_of,
        replayed_by=replayed_by,
        input_at=input_at,
        direct=bool(direct),
        issue=issue,
        parent=parent,
        tags=dict(sorted(orjson.loads(tags).items())),
        progress=None if progress is None else _progress(progress),
    )


def _progress(text: str) -> Progress:
    attempt, at, shown, fraction = orjson.loads(text)
    return Progress(text=shown, fraction=None if fraction < 0 else fraction, at=at, attempt=attempt)
