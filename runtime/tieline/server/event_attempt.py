"""One attempt of an event, while it lasts."""

from dataclasses import dataclass

from tieline.configuration.snapshot import Activation
from tieline.events.queue import Delivery
from tieline.events.retry import Retry
from tieline.events.run_events import RunEvents
from tieline.events.steps import RunSteps
from tieline_protocol.events import EventMetadata


@dataclass
class Attempt:
    """What is known of it, by the code that runs it and by what settles it."""

    metadata: EventMetadata
    delivery: Delivery
    number: int
    retry: Retry
    started_at: float
    interruptions: int = 0
    activation: Activation | None = None
    steps: RunSteps | None = None
    events: RunEvents | None = None
    trace_id: str = ""
    cancelled: bool = False
    """Whether somebody has cancelled it before it was decided."""
    decided: bool = False
    """Whether it is certain what becomes of it, so that nobody can cancel it any more."""

    @property
    def any_steps(self) -> bool:
        """Whether results of steps may be kept for the run."""
        return self.metadata.has_steps or (self.steps is not None and self.steps.any_recorded)

    @property
    def what(self) -> str:
        """The attempt in a line of the log."""
        return f"{self.metadata.kind.capitalize()} {self.metadata.task}"
