"""One attempt of an event, while it lasts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from tieline.configuration.snapshot import Activation
from tieline.events.queue import Delivery
from tieline.events.retry import Retry
from tieline.events.run_cancellation import RunCancellation
from tieline.events.run_events import RunEvents
from tieline.events.run_waits import RunWaits
from tieline.events.steps import RunSteps
from tieline.events.wait_store import OpenWait, pending_wait
from tieline.execution.progress import RunProgress
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import StepRecord


@dataclass
class Attempt:
    """What is known of it, by the code that runs it and by what settles it."""

    metadata: EventMetadata
    delivery: Delivery
    number: int
    retry: Retry
    started_at: float | None
    interruptions: int = 0
    """Pods that died with it and count as attempts."""
    was_handed_out: bool = False
    """Whether a pod had it before that died with it, or may have."""
    activation: Activation | None = None
    steps: RunSteps | None = None
    waits: RunWaits | None = None
    events: RunEvents | None = None
    died_of: str = ""
    """Why the pod of the attempt before ended in its middle, where that is known."""
    trace_id: str = ""
    result: str | None = None
    """What the code of a child has returned, as JSON."""
    woken: Sequence[StepRecord] = ()
    """The runs whose waits the event ended, as steps of its record."""
    tags: dict[str, str] = field(default_factory=dict)
    """What its code calls the run."""
    progress: RunProgress = field(default_factory=RunProgress)
    """What its code says of how far it is."""
    cancellation: RunCancellation | None = None
    """The events that cancel the run; None where none can."""
    cancelled: bool = False
    """Whether somebody has cancelled it before it was decided."""
    decided: bool = False
    """Whether it is certain what becomes of it, so that nobody can cancel it any more."""

    @property
    def may_have_begun(self) -> bool:
        """Whether an earlier attempt may have left something of the run, such as how it ended."""
        return self.metadata.has_steps or self.number > 1 or self.was_handed_out

    @property
    def any_steps(self) -> bool:
        """Whether results of steps may be kept for the run."""
        return self.metadata.has_steps or (self.steps is not None and self.steps.any_recorded)

    @property
    def open_waits(self) -> Sequence[OpenWait]:
        """The waits of this attempt that have not ended."""
        pending = pending_wait(self.metadata)
        return [*(self.waits.open if self.waits is not None else ()), *([pending] if pending else ())]

    def waits_until(self, until: float) -> Sequence[OpenWait]:
        """What ends before a time for which the run waits: its open waits, and that for an event that cancels it."""
        return [*self.open_waits, *([self.cancellation.wait(until)] if self.cancellation else ())]

    @property
    def is_cancelled_by_event(self) -> bool:
        """Whether an event was found that cancels the run."""
        return self.cancellation is not None and self.cancellation.event is not None

    @property
    def what(self) -> str:
        """The attempt in a line of the log."""
        return f"{self.metadata.kind.capitalize()} {self.metadata.task}"
