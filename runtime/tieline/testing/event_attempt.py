"""What tests see of events: how attempts ended, and what became a dead letter."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tieline.events import memory
from tieline_protocol.run_records import RunRecord, RunStatus


@dataclass(frozen=True, kw_only=True)
class EventAttempt:
    """One attempt to run an event or a queued webhook."""

    run_id: str
    task: str
    status: RunStatus
    """``succeeded``, ``waiting`` (for a retry, or because it sleeps), ``dead`` or ``cancelled``."""
    attempt: int
    error: str | None
    """Why it failed; None where it did not."""
    steps: tuple[str, ...]
    """The names of the steps that it did, without those that an earlier attempt had done."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """What its code has called the run, by ``ctx.tag``; secrets are masked."""

    progress: str | None = None
    """What its code has said last by ``ctx.progress``; secrets are masked."""

    @classmethod
    def of(cls, record: RunRecord) -> "EventAttempt":
        """From the run history."""
        return cls(
            run_id=record.id,
            task=record.task,
            status=record.status,
            attempt=record.attempt,
            error=record.error.message if record.error else None,
            steps=tuple(step.name for step in record.steps if not step.recorded),
            tags=dict(record.tags),
            progress=record.progress.text if record.progress else None,
        )


@dataclass(frozen=True, kw_only=True)
class DeadLetter:
    """An event that is not tried again, and why."""

    run_id: str
    task: str
    payload: Any
    """JSON data; bytes where the body of a queued webhook is something else."""
    error: str

    @classmethod
    def of(cls, letter: memory.DeadLetter) -> "DeadLetter":
        """From what the queue keeps."""
        try:
            payload = json.loads(letter.payload)
        except ValueError:
            payload = letter.payload
        return cls(run_id=letter.metadata.run, task=letter.metadata.task, payload=payload, error=letter.error)


def is_outcome(record: RunRecord) -> bool:
    """Whether a record of the history says how an attempt ended."""
    return record.status not in ("queued", "running")
