"""What messages about reports of the API have in common: several things of one environment, each with a link. Pure."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.display_names import cleaned, cleaned_lines
from tieline_core.identity.ids import format_time
from tieline_operator.reconcilers.notification.messages import Message


@dataclass(frozen=True)
class Listed:
    """One of the things that a message names."""

    text: str
    link: str
    """A URL or a command that shows it."""


class ReportMessage(Message, ABC):
    """A message that is sent once."""

    @property
    @abstractmethod
    def headline(self) -> str:
        """What happened, or how often."""

    @property
    @abstractmethod
    def listed(self) -> Sequence[Listed]:
        """The first of what happened."""

    @property
    @abstractmethod
    def omitted(self) -> Listed | None:
        """How many more there are, and where."""

    @abstractmethod
    def details(self) -> dict[str, Any]:
        """What a webhook has beside what all have."""

    @property
    def title(self) -> str:
        """One line, without line breaks."""
        return one_line(f"{self.headline}: {self.place.project_title} / {self.place.environment}")

    @property
    def text(self) -> str:
        """The message for people."""
        lines = [
            self.title,
            "",
            *self.place.lines,
        ]
        for one in (*self.listed, *([self.omitted] if self.omitted else ())):
            lines += ["", one_line(one.text), f"  {one.link}"]
        lines += ["", f"Next: {self.next_step}"]
        return "\n".join(cleaned_lines("\n".join(lines)))

    def payload(self) -> dict[str, Any]:
        """The body of a webhook: ``type``, ``timestamp`` and ``data``, as Standard Webhooks recommends."""
        data: dict[str, Any] = {
            "event": str(self.event),
            "title": self.title,
            "message": self.sentence,
            **self.place.to_dict(),
            **self.details(),
            "nextStep": self.next_step,
            "command": self.command,
            "path": self.path,
        }
        return {"type": str(self.event), "timestamp": format_time(self.since), "data": data}


def one_line(text: str) -> str:
    """A text without line breaks, control characters and marks of text direction."""
    return " ".join(cleaned(text).split())
