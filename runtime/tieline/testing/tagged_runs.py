"""The runs that code has tagged, as the platform finds them by their tags."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tieline_protocol.events import RunKind
from tieline_protocol.run_records import RunRecord


@dataclass(frozen=True, kw_only=True)
class TaggedRun:
    """A run with what its code has called it."""

    run_id: str
    kind: RunKind
    """``webhook``, ``event``, ``schedule`` or ``background``."""
    task: str
    tags: Mapping[str, str]
    """Values by their names: of all attempts, the latest value of a name. Secrets are masked."""


class DirectRecords:
    """Keeps the records of direct webhooks, schedules and background work."""

    def __init__(self) -> None:
        self.records: list[RunRecord] = []

    def add(self, record: RunRecord) -> None:
        """See RecordsTaker."""
        self.records.append(record)


def tagged_runs(records: Iterable[RunRecord]) -> list[TaggedRun]:
    """Of records of runs, those with tags, in the order in which they began."""
    tags: dict[str, dict[str, str]] = {}
    runs: dict[str, RunRecord] = {}
    for record in sorted(records, key=lambda one: (one.queued_at, one.at)):
        if record.tags:
            runs.setdefault(record.id, record)
            tags[record.id] = {**tags.get(record.id, {}), **record.tags}
    return [
        TaggedRun(run_id=run, kind=record.kind, task=record.task, tags=tags[run])
        for run, record in runs.items()
    ]
