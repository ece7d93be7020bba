"""Records of runs for tests."""

from __future__ import annotations

from typing import Any

from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunError, RunRecord, StepRecord, UpstreamAnswer

NOW = 1_764_000_000.0


def record(run: str = "", status: Any = "queued", attempt: int = 0, **fields: Any) -> RunRecord:
    """A record of a run that was queued at NOW."""
    content = {
        "kind": "event",
        "task": "order.created",
        "queued_at": NOW,
        "at": NOW + attempt + {"queued": 0.0, "running": 0.1, "waiting": 0.2}.get(status, 0.3),
        **fields,
    }
    return RunRecord(id=run or new_id(), status=status, attempt=attempt, **content)


def life(run: str, **fields: Any) -> list[RunRecord]:
    """A run that fails, waits, and succeeds."""
    failed = RunError(
        type="UpstreamError", message="shop answered 503", upstream=UpstreamAnswer(status=503, body="closed")
    )
    step = StepRecord(name="fetch", occurrence=1, started_at=NOW, ended_at=NOW + 1)
    common = {"attempts": 10, "version": "v1", "user": "ann", **fields}
    return [
        record(run, "queued", 0, user="ann", **fields),
        record(run, "running", 1, started_at=NOW + 1, trace_id="a" * 32, **common),
        record(
            run, "waiting", 1, started_at=NOW + 1, ended_at=NOW + 2, next_attempt_at=NOW + 9, error=failed,
            trace_id="a" * 32, steps=(step,), **common,
        ),
        record(run, "running", 2, started_at=NOW + 9, trace_id="b" * 32, **common),
        record(
            run, "succeeded", 2, started_at=NOW + 9, ended_at=NOW + 10, trace_id="b" * 32, input=b'{"id": 1}',
            **common,
        ),
    ]  # fmt: skip
