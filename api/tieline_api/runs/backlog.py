"""What waits in an organisation's environments: how much of each task and key, and since when."""

from dataclasses import dataclass

WAITING = ("queued", "running", "waiting", "dead")
"""The statuses of runs that somebody waits for."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Runs of one environment, task and key, with one status."""

    environment: str
    task: str
    key: str | None
    status: str
    count: int
    oldest: int
    """When the first of them was queued (nanoseconds)."""
