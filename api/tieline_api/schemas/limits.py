"""Limits of systems and connections in REST."""

from typing import Annotated, Self

from pydantic import Field, StringConstraints, model_validator

from tieline_api.schemas.base import Rest
from tieline_core.resources.limits import Concurrent, Requests
from tieline_protocol.request_limits import PER, RequestLimits


class Limits(Rest):
    """What the system allows, over all pods of all environments. In a change, an empty object takes it away."""

    concurrent: Concurrent | None = None
    """How many requests may be under way at once."""
    requests: Requests | None = None
    """How many requests may be sent in each period; needs per."""
    per: (
        Annotated[str, StringConstraints(max_length=6, pattern=PER), Field(examples=["1s", "10m"])] | None
    ) = None
    """The period: a whole number with s, m or h; at most 24h."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if content := self.to_spec():
            RequestLimits.parse(content)
        return self

    def to_spec(self) -> dict[str, int | str]:
        """As custom resources have it; empty for none."""
        given = {"concurrent": self.concurrent, "requests": self.requests, "per": self.per}
        return {name: value for name, value in given.items() if value is not None}
