"""Limits: what a system allows of requests."""

from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.objects import ObjectView
from tieline_core.resources.fields import Shape, rules
from tieline_protocol.request_limits import MAX_CONCURRENT, MAX_REQUESTS, PER

Concurrent = Annotated[int, Field(ge=1, le=MAX_CONCURRENT)]
Requests = Annotated[int, Field(ge=1, le=MAX_REQUESTS)]
Per = Annotated[str, StringConstraints(max_length=6, pattern=PER)]


class Limits(Shape):
    """What a connection may be used for, by all pods of all environments together."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.concurrent) || has(self.requests)", "give concurrent, or requests and per"),
            (
                "has(self.requests) == has(self.per)",
                "requests and per need each other, such as requests: 100 and per: 1m",
            ),
            ("!has(self.per) || duration(self.per) <= duration('24h')", "per is at most 24h"),
        )
    )

    concurrent: Concurrent | None = None
    """How many requests may be under way at once."""
    requests: Requests | None = None
    """How many requests may be sent in each period."""
    per: Per | None = None
    """The period: a whole number with s, m or h, such as 1s or 10m; at most 24h."""


def limits_in_effect(connection: ObjectView, system: ObjectView) -> ObjectView | None:
    """The limits of a connection, from both specs: its own in the place of the system's."""
    limits: ObjectView | None = connection.get("limits") or system.get("limits")
    return limits
