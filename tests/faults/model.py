"""What the platform was told, and so what it may be like: pure.

A write that was answered holds until a later one. A write without an answer (a time-out, a broken connection) may
have happened or not, and may still happen for a while.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

LATE = 90.0
"""Seconds after which a write without an answer has happened or never will: twice the longest pause and time-out."""

V = TypeVar("V")


class Outcome(StrEnum):
    """What a client knows of its write."""

    DONE = "done"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Write(Generic[V]):
    """A value that was written, when that began, and how it ended."""

    value: V
    began: float
    outcome: Outcome


class Register(Generic[V]):
    """One fact, written by one client at a time.

    >>> suspended = Register(False)
    >>> suspended.write(True, 10.0, Outcome.UNKNOWN)
    >>> suspended.may_be()
    [False, True]
    >>> suspended.write(False, 20.0, Outcome.DONE)
    >>> suspended.may_be()
    [False, True]
    >>> suspended.write(False, 200.0, Outcome.DONE)
    >>> suspended.may_be()
    [False]
    """

    def __init__(self, value: V) -> None:
        self.writes = [Write(value, float("-inf"), Outcome.DONE)]

    def write(self, value: V, began: float, outcome: Outcome) -> None:
        """Takes note of a write that has ended."""
        if outcome is not Outcome.REFUSED:
            self.writes.append(Write(value, began, outcome))

    def may_be(self) -> list[V]:
        """The last acknowledged value, and those that may have overwritten it."""
        last = max(index for index, write in enumerate(self.writes) if write.outcome is Outcome.DONE)
        acknowledged = self.writes[last]
        possible = [acknowledged.value]
        for index, write in enumerate(self.writes):
            late = write.began > acknowledged.began - LATE
            if write.outcome is Outcome.UNKNOWN and (index > last or late) and write.value not in possible:
                possible.append(write.value)
        return possible

    def settle(self, value: V) -> None:
        """What was seen once everything had come to rest; nothing written before can come after it."""
        self.writes = [Write(value, float("-inf"), Outcome.DONE)]

    @property
    def value(self) -> V:
        """What a client would think that it is: its newest write, answered or not."""
        return self.writes[-1].value


@dataclass
class Project:
    """A project with one environment, and two connections that its code uses."""

    name: str
    door: str
    """``rest`` or ``kubectl``: through which it is written."""
    exists: Register[bool] = field(default_factory=lambda: Register(False))
    text: Register[str] = field(default_factory=lambda: Register(""))
    """What the version answers that is deployed."""
    suspended: Register[bool] = field(default_factory=lambda: Register(False))
    region: Register[str] = field(default_factory=lambda: Register("none"))
    """A variable of the static activation."""
    key: Register[int] = field(default_factory=lambda: Register(0))
    """The number of its API key."""
    family: Register[int] = field(default_factory=lambda: Register(0))
    """The number of the log-in that its tokens descend from."""
    complete: bool = False
    """Whether all that belongs to it was acknowledged."""


@dataclass
class Model:
    """Everything that was written."""

    projects: dict[str, Project] = field(default_factory=dict)
    users: dict[str, Register[bool]] = field(default_factory=dict)
    activations: dict[tuple[str, str], Register[str]] = field(default_factory=dict)
    """The variable of each project's and user's activation; empty where there is none."""

    def registers(self) -> Iterator[tuple[str, Register[bool] | Register[str] | Register[int]]]:
        """Every fact and what it is called."""
        for project in list(self.projects.values()):
            for name in ("exists", "text", "suspended", "region", "key", "family"):
                yield f"{project.name}.{name}", getattr(project, name)
        for user, register in list(self.users.items()):
            yield f"user {user}", register
        for (project_name, user), activation in list(self.activations.items()):
            yield f"activation of {user} in {project_name}", activation
