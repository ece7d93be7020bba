"""Whether environments keep pods while they have no work."""

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import Shape, rules
from tieline_protocol.request_limits import PER, seconds_of

MIN_IDLE_SECONDS = 10

MinPods = Annotated[int, Field(ge=0, le=1)]
IdleAfter = Annotated[str, StringConstraints(max_length=64, pattern=PER)]


class Scaling(Shape):
    """Whether an environment without work keeps pods."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                f"!has(self.idleAfter) || !self.idleAfter.matches('{PER}') || "
                f"(duration(self.idleAfter) >= duration('{MIN_IDLE_SECONDS}s') && "
                "duration(self.idleAfter) <= duration('24h'))",
                f"idleAfter is {MIN_IDLE_SECONDS}s to 24h",
            )
        )
    )

    min: MinPods | None = None
    """Minimum number of pods. 0: the environment sleeps, without pods, while it has no work. Default: 1."""
    idle_after: IdleAfter | None = None
    """Time without work after which it sleeps: an integer with s, m or h. At least 10s. Default: 10m."""

    @property
    def may_sleep(self) -> bool:
        """Whether it has no pods while it has no work."""
        return self.effective_min == 0

    @property
    def effective_min(self) -> int:
        """The minimum number of pods, with the default."""
        return 1 if self.min is None else self.min

    @property
    def effective_idle_after(self) -> str:
        """The time without work after which it sleeps, with the default."""
        return self.idle_after or "10m"

    @property
    def idle_seconds(self) -> int:
        """Seconds without work after which it sleeps."""
        return seconds_of(self.effective_idle_after)
