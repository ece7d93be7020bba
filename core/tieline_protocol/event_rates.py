"""How pods share an organisation's quota of events a second: they ask the API for some, and count them down."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

PATH = "/internal/v1/environment/event-rate"
_MOST, _LONGEST = 1_000_000, 60.0


@dataclass(frozen=True)
class RateLease:
    """What one who counts may take."""

    count: int
    """Events, or requests; 0 where there are no more of this second."""
    seconds: float
    """How long it is valid; what is left then is lost."""

    def to_json(self) -> dict[str, Any]:
        """As the API answers."""
        return {"count": self.count, "seconds": self.seconds}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises ValueError."""
        try:
            count, seconds = int(content["count"]), float(content["seconds"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"no lease of events: {error}") from None
        if not (0 <= count <= _MOST and 0 <= seconds <= _LONGEST):
            raise ValueError("no lease of events: out of range")
        return cls(count, seconds)
