"""The tasks of a version, as events ask for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from tieline.events.event import EventTask
from tieline.events.retry import Retry
from tieline.integration import Webhook
from tieline.scheduling.schedules import Schedule
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import WaitRule

_UNKNOWN = Retry(attempts=8, longest=120)
"""Of a task that the version lacks: about as long as a rollout takes."""
_ONCE = Retry(attempts=1)

Task = EventTask | Webhook | Schedule


@dataclass(frozen=True, kw_only=True)
class EventTasks:
    """What events can ask for."""

    events: Mapping[str, EventTask] = field(default_factory=dict)
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    waits: Mapping[str, Sequence[WaitRule]] = field(default_factory=dict)
    """The declared rules of waits, by the events' names."""
    schedule_timeout: float = 0
    """Seconds, for schedules that have none of their own; 0 is no limit."""
    application: web.Application | None = None
    """Routes the requests of webhooks."""

    def find(self, metadata: EventMetadata) -> Task | None:
        """The task of an event; None where this version has none."""
        if metadata.kind == "webhook":
            return self.webhooks.get(metadata.task)
        if metadata.kind == "schedule":
            return self.schedules.get(metadata.task)
        return self.events.get(metadata.task)


def retry_of(task: Task | None) -> Retry:
    """How its events are tried again."""
    if task is None:
        return _UNKNOWN
    return _ONCE if isinstance(task, Schedule) else task.retry
