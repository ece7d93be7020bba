"""A finding about an auth scheme: a reason for programs, and the message that people see."""

from collections.abc import Sequence
from dataclasses import dataclass

from tieline_core.resources.fields import ValidationMessage
from tieline_core.severity import Severity


@dataclass(frozen=True)
class SchemeFinding:
    """One finding."""

    reason: str
    """One word in CamelCase; errors give it to the System's condition."""
    message: ValidationMessage


def error(reason: str, text: str, detail: Sequence[str] = ()) -> SchemeFinding:
    """What keeps the scheme from working."""
    return _finding(reason, text, Severity.ERROR, detail)


def warning(reason: str, text: str, detail: Sequence[str] = ()) -> SchemeFinding:
    """What is probably not meant."""
    return _finding(reason, text, Severity.WARNING, detail)


def info(reason: str, text: str, detail: Sequence[str] = ()) -> SchemeFinding:
    """What may be good to know."""
    return _finding(reason, text, Severity.INFO, detail)


def _finding(reason: str, text: str, severity: Severity, detail: Sequence[str]) -> SchemeFinding:
    more = {"detail": list(detail)[:32]} if detail else {}
    return SchemeFinding(reason, ValidationMessage(text=text[:2048], severity=severity, **more))
