"""Limits of systems and connections in REST."""

from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, model_validator

from tieline_api.schemas.base import Rest
from tieline_core.resources import limits as resource
from tieline_core.resources.limits import Concurrent, Requests
from tieline_protocol.limit_answers import MAX_RULES, LimitAnswers
from tieline_protocol.request_limits import PER, RequestLimits, seconds_of


def _checked(per: str) -> str:
    seconds_of(per)
    return per


_PER = Field(examples=["1s", "10m"], json_schema_extra={"maxLength": 6, "pattern": PER})


class Limits(Rest):
    """What the system allows, over all pods of all environments. In a change, an empty object takes it away."""

    concurrent: Concurrent | None = None
    """Maximum number of concurrent requests."""
    requests: Requests | None = None
    """How many requests may be sent in each period; needs per."""
    per: Annotated[str, AfterValidator(_checked), _PER] | None = None
    """The period: a whole number with s, m or h; at most 24h."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if content := self.to_spec():
            RequestLimits.parse(content)
            LimitAnswers.parse(content)
        return self

    def to_spec(self) -> dict[str, Any]:
        """As custom resources have it; empty for none."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)


class LimitAnswer(Rest, resource.LimitAnswer):
    """A kind of answer that means "too many requests"."""


class LimitCost(Rest, resource.LimitCost):
    """Where answers of GraphQL have the cost of a request."""


class SystemLimits(Limits):
    """What the system allows of each connection, and the answers by which it reports limits. In a change, an empty
    object takes it away."""

    answers: Annotated[list[LimitAnswer], Field(max_length=MAX_RULES)] | None = None
    """Answers that mean "too many requests"; the first that applies counts. Statuses without one are read as usual:
    429 and 503 with Retry-After, 403 with Retry-After or with no requests left, and errors in a 200."""
    cost: LimitCost | None = None
    """Cost of GraphQL requests. Default: extensions.cost.throttleStatus, as Shopify has it."""
