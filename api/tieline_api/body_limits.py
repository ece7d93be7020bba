"""How large the body of a request may be, by what it brings, and how long it may take."""

from dataclasses import dataclass
from enum import Enum

MIB = 1024 * 1024


class BodyKind(Enum):
    """What a body brings; the settings say how large that may be."""

    BODY = "body"
    """Nothing that is large."""
    CREDENTIALS = "credentials"
    """Values such as certificates and binary secrets."""
    FILES = "files"
    """A project's files as JSON, which may need three times their bytes; they are counted after reading."""
    EVENT = "event"
    """The payload of an event, which is counted after reading."""
    UPLOAD = "upload"
    """A file for itself."""


@dataclass(frozen=True, kw_only=True)
class BodyLimits:
    """The limits in bytes."""

    body: int
    credentials: int
    files: int
    upload: int
    event: int
    seconds: float
    """How long a body may take to arrive; a file twice as long."""

    def of(self, size: BodyKind) -> int:
        """The most bytes of such a body."""
        found: int = getattr(self, size.value)
        return found
