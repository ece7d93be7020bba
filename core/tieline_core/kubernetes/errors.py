"""What the API server, or the way to it, can answer instead of what was asked for.

Texts come from the API server's Status objects. For Secrets they are replaced by the reason and the field
names, because a validation message may quote what was sent.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_CONFLICT = re.compile(r'conflict with "(?P<manager>[^"]*)"')
# A server-side apply of what does not fit the schema is answered with 500, in words alone (Kubernetes 1.34):
#   failed to create typed patch object (acme/shop; tieline.dev/v1alpha1, Kind=System): .spec.nme: field not …
_MISFIT = re.compile(
    r"failed to (create typed patch object|convert new object) \([^)]*\)[^:]*: (?P<findings>.*)", re.S
)
_FINDING = re.compile(r"^\s*\.(?P<field>\S+?): (?P<message>.*?)(?:, got &.*)?$", re.M)
_MAX_MESSAGE = 2048


@dataclass(frozen=True)
class FieldConflict:
    """A field of a server-side apply that another manager owns."""

    manager: str
    field: str
    message: str


class KubeError(Exception):
    """The API server refused a call; subclasses say why."""

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", causes: tuple[Mapping[str, str], ...] = ()
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.reason = reason
        self.causes = causes


class NotFound(KubeError):
    """404: no such object, or no such resource (its definition is not installed)."""


class AlreadyExists(KubeError):
    """409 on create: the name is taken."""


class Conflict(KubeError):
    """409: the object changed in between, or fields of an apply belong to other managers."""

    @property
    def conflicts(self) -> list[FieldConflict]:
        """The fields in conflict; empty when the object changed in between."""
        return [
            FieldConflict(
                manager=found["manager"] if (found := _CONFLICT.search(cause.get("message", ""))) else "",
                field=cause.get("field", ""),
                message=cause.get("message", ""),
            )
            for cause in self.causes
            if cause.get("reason") == "FieldManagerConflict"
        ]

    @property
    def other_uid(self) -> bool:
        """Whether the object with the uid of an apply is gone; another one may have taken its name."""
        return "uid mismatch" in self.message


class Gone(KubeError):
    """410: the resourceVersion is too old; list again."""


class Invalid(KubeError):
    """400, 413 or 422: the object breaks the schema or a rule; ``causes`` name the fields."""


class Forbidden(KubeError):
    """403: RBAC or admission refuses it."""


class Unauthorized(KubeError):
    """401: the API server does not know our credentials."""


class TooManyRequests(KubeError):
    """429: asked to come back later, in ``retry_after`` seconds."""

    retry_after: float = 1.0


class Unavailable(KubeError):
    """The API server cannot be reached, does not answer in time, or fails with 5xx."""

    retry_after: float | None = None
    sent: bool = True
    """Whether the request may have reached the API server."""


_BY_STATUS: dict[int, type[KubeError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: Invalid,
    422: Invalid,
    429: TooManyRequests,
}


def from_status(
    http_status: int, body: Any, *, doing: str, sensitive: bool = False, retry_after: str | None = None
) -> KubeError:
    """The error for an answer of the API server.

    ``doing`` says what was tried ("apply secrets acme/shop"); ``sensitive`` drops the server's words.
    """
    status = body if isinstance(body, dict) else {}
    reason = str(status.get("reason", ""))
    details = status.get("details") or {}
    causes: tuple[Mapping[str, str], ...] = tuple(
        cause for cause in details.get("causes") or () if isinstance(cause, dict)
    )
    text = str(status.get("message") or f"HTTP {http_status}")[:_MAX_MESSAGE]
    if http_status == 500 and (misfit := _MISFIT.match(text)):
        http_status, reason, causes = 422, "Invalid", _findings(misfit["findings"])
    if sensitive:
        causes = tuple(_without_words(cause) for cause in causes)
        fields = ", ".join(cause["field"] for cause in causes if cause.get("field"))
        text = f"{reason or f'HTTP {http_status}'}{f' ({fields})' if fields else ''}"
    kind = _BY_STATUS.get(http_status, Unavailable if http_status >= 500 else KubeError)
    if reason == "AlreadyExists":
        kind = AlreadyExists
    elif reason in ("Expired", "Gone"):
        kind = Gone
    error = kind(f"{doing}: {text}", status=http_status, reason=reason, causes=causes)
    seconds = _seconds(retry_after)
    if seconds is None:
        seconds = _seconds(details.get("retryAfterSeconds"))
    if seconds is not None and isinstance(error, TooManyRequests | Unavailable):
        error.retry_after = seconds
    return error


def _findings(text: str) -> tuple[Mapping[str, str], ...]:
    return tuple(
        {"reason": "FieldValueInvalid", "field": found["field"], "message": found["message"]}
        for found in _FINDING.finditer(text)
    )


def _without_words(cause: Mapping[str, str]) -> dict[str, str]:
    """A cause without the message, unless that only names a field manager."""
    kept = (
        ("field", "reason", "message")
        if cause.get("reason") == "FieldManagerConflict"
        else ("field", "reason")
    )
    return {key: cause[key] for key in kept if key in cause}


def _seconds(value: Any) -> float | None:
    """Seconds of a Retry-After; its other form, a date, is not used by the API server."""
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
