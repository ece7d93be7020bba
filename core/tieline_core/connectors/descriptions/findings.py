"""What an import found: messages with severity and place, never a refusal unless nothing can be read."""

from collections.abc import Iterable
from dataclasses import dataclass

from tieline_core.objects import Json
from tieline_core.severity import Severity

MAX_MESSAGES = 500
_MAX_TEXT = 512


class UnreadableDescription(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """A description that cannot be read at all; the message says why, and what to do."""


class DescriptionTooLarge(UnreadableDescription):
    """A description that needs more than an import may use."""


@dataclass(frozen=True)
class ImportFinding:
    """One thing that was found at a place of the description (a JSON Pointer with ``#`` before it)."""

    text: str
    severity: Severity
    location: str = ""

    def message(self) -> Json:
        """The finding as a ValidationMessage; the place is its first detail."""
        result: Json = {"text": cut(self.text), "severity": self.severity.value}
        if self.location:
            result["detail"] = [f"at {cut(self.location)}"]
        return result


class ImportFindings:
    """Collects findings, the first MAX_MESSAGES of them; the rest is counted."""

    def __init__(self) -> None:
        self._found: dict[ImportFinding, None] = {}
        self._more = 0

    def info(self, text: str, location: str = "") -> None:
        """Something worth knowing."""
        self.add(ImportFinding(text, Severity.INFO, location))

    def warning(self, text: str, location: str = "") -> None:
        """Something is wrong; what was imported can be used."""
        self.add(ImportFinding(text, Severity.WARNING, location))

    def error(self, text: str, location: str = "") -> None:
        """Something is wrong, and a part was left out or cannot be used."""
        self.add(ImportFinding(text, Severity.ERROR, location))

    def add(self, finding: ImportFinding) -> None:
        """Adds a finding; the same one twice counts once."""
        if finding in self._found:
            return
        if len(self._found) >= MAX_MESSAGES:
            self._more += 1
            return
        self._found[finding] = None

    def messages(self) -> list[Json]:
        """All findings, the gravest first."""
        order = (Severity.ERROR, Severity.WARNING, Severity.INFO)
        ordered = sorted(self._found, key=lambda finding: order.index(finding.severity))
        result = [finding.message() for finding in ordered]
        if self._more:
            more = ImportFinding(f"{self._more} more findings are not shown", Severity.INFO)
            result.append(more.message())
        return result


def cut(text: str, limit: int = _MAX_TEXT) -> str:
    """``text`` without control characters, at most ``limit`` long."""
    if len(text) <= limit and text.isprintable():
        return text
    clean = "".join(letter if letter.isprintable() else " " for letter in text[: limit + 1])
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def pointer(steps: Iterable[str | int]) -> str:
    """A JSON Pointer (RFC 6901) with ``#`` before it.

    >>> pointer(["paths", "/pets/{id}", "get"])
    '#/paths/~1pets~1{id}/get'
    """
    return "#" + "".join(f"/{escaped(str(step))}" for step in steps)


def escaped(step: str) -> str:
    """One step of a JSON Pointer."""
    return step.replace("~", "~0").replace("/", "~1")
