"""Limits: rate limits of a system."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.objects import Json, ObjectView
from tieline_core.resources.fields import Shape, list_set, rules
from tieline_protocol.answer_paths import MAX_PATH
from tieline_protocol.limit_answers import MAX_RULES, MAX_VALUE, MAX_VALUES
from tieline_protocol.list_dialects import NAME
from tieline_protocol.request_limits import MAX_CONCURRENT, MAX_REQUESTS, PER

Concurrent = Annotated[int, Field(ge=1, le=MAX_CONCURRENT)]
Requests = Annotated[int, Field(ge=1, le=MAX_REQUESTS)]
# Longer than any that fits: "1 minute" is to be answered by the form, not by a length.
Per = Annotated[str, StringConstraints(max_length=64, pattern=PER)]
AnswerPath = Annotated[str, StringConstraints(max_length=MAX_PATH)]
HeaderName = Annotated[str, StringConstraints(min_length=1, max_length=MAX_VALUE, pattern=NAME)]
TimeForm = Literal["seconds", "milliseconds", "epochSeconds", "epochMilliseconds", "iso8601", "httpDate"]
AnswerStatus = Annotated[int, Field(ge=100, le=599)]
AnswerValue = Annotated[str, StringConstraints(max_length=MAX_VALUE)]
AnswerValues = Annotated[list[AnswerValue], Field(max_length=MAX_VALUES)]

_NUMBERS = (
    "has(self.requests) == has(self.per)",
    "requests and per need each other, such as requests: 100 and per: 1m",
)
_LONGEST = (
    f"!has(self.per) || !self.per.matches('{PER}') || duration(self.per) <= duration('24h')",
    "per is at most 24h",
)


class Limits(Shape):
    """Rate limits of a connection, shared by all pods of all environments."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.concurrent) || has(self.requests)", "give concurrent, or requests and per"),
            _NUMBERS,
            _LONGEST,
        )
    )

    concurrent: Concurrent | None = None
    """Maximum number of concurrent requests."""
    requests: Requests | None = None
    """Maximum number of requests in each period."""
    per: Per | None = None
    """The period of requests: an integer with s, m or h, such as 1s or 10m. At most 24h."""


class LimitAnswer(Shape):
    """A kind of answer that means "too many requests"."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.status) || has(self.path) || has(self.remaining)", "give status, path or remaining"),
            (
                "has(self.path) == (has(self.equals) || has(self.__in__))",
                "path needs equals or in, and they need path",
            ),
            ("!(has(self.equals) && has(self.__in__))", "give one of equals and in"),
        )
    )

    status: AnswerStatus | None = None
    """Status of the answer. Default: any."""
    path: AnswerPath | None = None
    """Path of a value in the JSON body, such as errors.0.extensions.code."""
    equals: AnswerValue | None = None
    """The value at path."""
    in_: Annotated[AnswerValues | None, Field(alias="in", json_schema_extra=list_set())] = None
    """Values at path, any of which applies."""
    remaining: HeaderName | None = None
    """Header with the number of requests left, or with used/limit. Applies when none are left."""
    header: HeaderName | None = None
    """Header that says when requests are accepted again, such as Retry-After or X-RateLimit-Reset. With a status
    alone, the header is needed for the rule to apply."""
    reset_path: AnswerPath | None = None
    """Path of the value in the JSON body that says when requests are accepted again."""
    unit: TimeForm | None = None
    """Form of that time. Default: any form."""
    wait: Per | None = None
    """Time to wait when the answer names none, such as 30s or 1m."""


class LimitCost(Shape):
    """Where answers of GraphQL have the cost of a request."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.restoreRate) || has(self.reset)", "give restoreRate or reset"),
        )
    )

    requested: AnswerPath | None = None
    """Path of the cost of the request. Default: 1."""
    available: AnswerPath
    """Path of what is left of the budget."""
    restore_rate: AnswerPath | None = None
    """Path of what the budget gains in a second."""
    reset: AnswerPath | None = None
    """Path of the time at which the budget is full again."""


class SystemLimits(Limits):
    """Rate limits of each connection to a system, and the answers by which the system reports them."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "has(self.concurrent) || has(self.requests) || has(self.answers) || has(self.cost)",
                "give concurrent, requests and per, answers or cost",
            ),
            _NUMBERS,
            _LONGEST,
        )
    )

    answers: Annotated[list[LimitAnswer], Field(max_length=MAX_RULES)] = []
    """Answers that mean "too many requests"; the first that applies counts. Statuses without one are read as usual:
    429 and 503 with Retry-After, 403 with Retry-After or with no requests left, and errors in a 200."""
    cost: LimitCost | None = None
    """Cost of GraphQL requests. Default: extensions.cost.throttleStatus, as Shopify has it."""


_ANSWERS = ("answers", "cost")


def limits_in_effect(connection: ObjectView, system: ObjectView) -> Json | None:
    """The limits of a connection, from both specs.

    Numbers are the connection's own, or else the system's. How limits are reported is always the system's.
    """
    own, shared = connection.get("limits") or {}, system.get("limits") or {}
    reported = {name: shared[name] for name in _ANSWERS if shared.get(name)}
    numbers = own or {name: value for name, value in shared.items() if name not in _ANSWERS}
    return {**numbers, **reported} or None
