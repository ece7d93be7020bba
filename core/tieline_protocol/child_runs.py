"""Child runs: a run starts another one and waits for what becomes of it. Pure.

The wait of the parent is named after the child, so whoever ends the child writes the outcome of that wait and needs no
index. Code of the environment can write such messages, so their readers check them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.run_records import RunRecord
from tieline_protocol.waits import MAX_AWAITED_BYTES

ENDED_TASK = "~child"
"""Takes the place of a task in the event that says how a child ended. No code can have a task of this name."""
WAIT_PREFIX = "child-"
"""Of the names of waits for a child. What follows is the child's run."""
MAX_DEPTH = 16
"""How many runs may stand above a run."""
MAX_RESULT_BYTES = MAX_AWAITED_BYTES - 8 * 1024
"""Of what a child returns, as JSON. The rest of the message has its error."""
_MAX_ERROR = 1000
_MAX_TYPE = 200
_MAX_RUN = 26

ChildStatus = Literal["succeeded", "failed", "dead", "cancelled"]
_STATUSES: tuple[ChildStatus, ...] = get_args(ChildStatus)


class InvalidChildEndError(ValueError):
    """A message that does not say how a child ended."""


@dataclass(frozen=True, kw_only=True)
class ChildEnd:
    """How a child ended."""

    child: str
    """Its run."""
    status: ChildStatus
    result: str | None = None
    """What its code returned, as JSON; None where it did not succeed, or where that is not known any more."""
    error_type: str = ""
    error: str = ""
    """Why it failed, with secrets masked."""

    @classmethod
    def of(cls, record: RunRecord) -> Self:
        """From the record of its end."""
        ended: dict[str, ChildStatus] = {one: one for one in _STATUSES}
        error = record.error
        return cls(
            child=record.id,
            status=ended.get(record.status, "failed"),
            result=record.result,
            error_type=error.type[:_MAX_TYPE] if error else "",
            error=error.message[:_MAX_ERROR] if error else "",
        )

    def encode(self) -> bytes:
        """The payload of its event."""
        return json.dumps(
            {name: value for name, value in vars(self).items() if value not in (None, "")}
        ).encode()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """From ``encode``. Raises InvalidChildEndError."""
        try:
            found: Any = json.loads(content)
            if not isinstance(found, Mapping) or found["status"] not in _STATUSES:
                raise TypeError("no end")
            result = found.get("result")
            return cls(
                child=_text(found["child"], _MAX_RUN),
                status=found["status"],
                result=None if result is None else _text(result, MAX_AWAITED_BYTES),
                error_type=_text(found.get("error_type", ""), _MAX_TYPE),
                error=_text(found.get("error", ""), _MAX_ERROR),
            )
        except (KeyError, RecursionError, TypeError, ValueError) as error:
            raise InvalidChildEndError(
                f"The message does not say how a child ended: {type(error).__name__}"
            ) from None


def ended_event(child: EventMetadata, run: str, at: float) -> EventMetadata:
    """The metadata of the event by which the platform says that a child, or a batch, ended. ``run`` tells such events
    apart."""
    return EventMetadata(
        run=run, kind="event", task=ENDED_TASK, queued_at=at, parent=child.parent, members=child.members
    )


def child_index(child: str) -> str:
    """The index of the wait for a child."""
    return hashed(f"child {child}")


def wait_name(child: str) -> str:
    """The name of the wait for a child."""
    return f"{WAIT_PREFIX}{child}"


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError("no such text")
    return value
