"""Runs that wait, with what is recorded of them."""

from typing import Annotated, Any

from pydantic import Field

from tieline_api.schemas.base import Query, Rest


class SleepersQuery(Query):
    """How many runs."""

    first: Annotated[int, Field(ge=1, le=200)] = 100
    """How many runs, 1 to 200. Of more, some are chosen that are spread over their age."""


class SleepingStep(Rest):
    """A recorded step."""

    name: str
    """The step's name."""
    occurrence: int
    """Which of the steps of this name, from 1."""
    place: int
    """Its position among the steps that run one after the other, from 1; 0 for steps without one."""
    work: str
    """A hash of the function's name and its arguments; empty where they are not compared."""
    version: str
    """The name of the version that did it."""
    result: str
    """The result, as JSON."""


class SleepingOutcome(Rest):
    """How a wait has ended."""

    wait: str
    """Which wait of the run it is."""
    metadata: dict[str, Any] | None = None
    """The event that ended it, as the event engine keeps it; absent for a timeout."""
    payload: str
    """The event's payload in base64; empty for a timeout."""


class SleepingRun(Rest):
    """A run that waits, with everything that is recorded of it."""

    metadata: dict[str, Any]
    """The run's event as the event engine keeps it: with ``run``, ``kind``, ``task`` and ``user``."""
    payload: str
    """The event's payload in base64."""
    steps: list[SleepingStep]
    """The recorded steps."""
    outcomes: list[SleepingOutcome]
    """How its waits have ended. Those that go on are not there."""


class SleepingRuns(Rest):
    """Runs that wait."""

    total_count: int
    """How many runs of the environment have recorded steps and have not ended."""
    items: list[SleepingRun]
    """The runs, oldest first; fewer than ``totalCount`` if there are more than asked for, or than fit into 8 MiB."""
