"""Events that are published by REST."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, StringConstraints, WithJsonSchema

from tieline_api.schemas.base import Rest, UlidOut
from tieline_core.engine.publisher import TASK_PATTERN, is_task

MAX_DELAY_DAYS = 366
MAX_EVENTS = 1000
"""Of a batch."""
_MAX_DELAY = MAX_DELAY_DAYS * 86400


def _task_name(text: str) -> str:
    if not is_task(text):
        raise ValueError(
            "must be the name of an event: letters, digits, '-', '_' and '.', at most 100 and a letter or digit first"
        )
    return text


def _delay(seconds: float) -> float:
    if seconds < 0:
        raise ValueError("must be seconds from now: 0 or more")
    if not seconds <= _MAX_DELAY:
        raise ValueError(f"must be at most a year: {MAX_DELAY_DAYS} days, which are {_MAX_DELAY} seconds")
    return seconds


class EventCreate(Rest):
    """An event for an environment."""

    task: Annotated[
        str, AfterValidator(_task_name), WithJsonSchema({"type": "string", "pattern": f"^{TASK_PATTERN}$"})
    ]
    """The name of the event, as the code declares it."""
    payload: Any
    """What the event says: any JSON, at most 4 MiB."""
    key: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """Events with the same key run one at a time, and in order."""
    id: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """What the sender knows the event by. Events of a task with the same id within two minutes are stored once."""
    user: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    """The user that it is for, by id or external id; without one it is for the environment itself."""
    delay: (
        Annotated[
            float,
            Field(strict=True),
            AfterValidator(_delay),
            WithJsonSchema({"type": "number", "minimum": 0, "maximum": _MAX_DELAY}),
        ]
        | None
    ) = None
    """Seconds until it runs, at most 366 days."""


class EventAccepted(Rest):
    """An event that is stored, and will run."""

    event_id: str
    """The id that was given, or else the run's."""
    run_id: UlidOut | None = None
    """The run. For an event that was stored before it is the first one's; absent when that is not known any more."""


class EventBatch(Rest):
    """Events for an environment."""

    events: Annotated[list[EventCreate], Field(min_length=1, max_length=MAX_EVENTS)]
    """The events, at most 1,000. Payloads have at most 4 MiB each, and the body 16 MiB."""


class EventResult(Rest):
    """What became of an event of a batch."""

    status: Literal["stored", "duplicate", "refused"]
    """``stored``: it runs. ``duplicate``: an event with its id is stored already. ``refused``: it is not stored."""
    event_id: str
    """The id that was given, or else the run's."""
    run_id: UlidOut | None = None
    """The run. For a duplicate it is the first one's; absent when that is not known any more, and when refused."""
    error: str | None = None
    """Why it was refused. Send it again later."""


class EventBatchAccepted(Rest):
    """What became of the events of a batch."""

    stored: int
    """How many are stored."""
    duplicates: int
    """How many were stored before."""
    refused: int
    """How many are not stored."""
    results: list[EventResult]
    """One for each event, in the order of the request."""
