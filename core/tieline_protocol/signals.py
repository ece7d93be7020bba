"""Signals: what people and programs send to a run by its id and a name. Pure.

A signal is an event for one run alone: its index is made of the run and the name. So it is kept, and ends waits, as
events do. Code of the environment can write such messages, so their readers check them.
"""

import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Self

import orjson

from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.waits import MAX_WAIT_SECONDS

SIGNAL_TASK = "~signal"
"""Takes the place of a task in the event that carries a signal. No code can have a task of this name."""
NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
MAX_PAYLOAD_BYTES = 16 * 1024
"""Of the JSON: each wait keeps the signal that ended it."""
MAX_KEPT = 1000
"""Signals of a name that are kept for a run, which can take no more."""
KEPT_SECONDS = MAX_WAIT_SECONDS
"""How long a signal is found by a wait that begins after it."""
MAX_BY = 256
_MAX_BYTES = 64 * 1024
_NAME = re.compile(NAME_PATTERN)
_RUN = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_LATEST = 253_402_300_799.0


class InvalidSignalError(ValueError):
    """A message that is not a valid signal."""


@dataclass(frozen=True, kw_only=True)
class SentSignal:
    """A signal as it is stored."""

    run: str
    """Whom it is for."""
    name: str
    payload: str
    """JSON, as it was sent."""
    by: str
    """The name by which the platform knows the sender."""
    at: float
    """Seconds since 1970."""

    @property
    def index(self) -> str:
        """The index of the wait for it."""
        return signal_index(self.run, self.name)

    def encode(self) -> bytes:
        """The payload of its event."""
        return orjson.dumps(asdict(self))

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """From ``encode``. Raises InvalidSignalError."""
        if len(content) > _MAX_BYTES:
            raise InvalidSignalError("The message is too long for a signal")
        try:
            found = orjson.loads(content)
            run, name, at = found["run"], found["name"], found["at"]
            if not isinstance(run, str) or not _RUN.fullmatch(run) or not is_name(name):
                raise ValueError("no signal")
            if isinstance(at, bool) or not isinstance(at, int | float) or not math.isfinite(at):
                raise TypeError("no time")
            if not 0 <= at <= _LATEST:
                raise ValueError("no time")
            payload = _text(found["payload"], _MAX_BYTES)
            orjson.loads(payload)
            return cls(run=run, name=name, payload=payload, by=_text(found["by"], MAX_BY), at=float(at))
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidSignalError(f"The message is not a valid signal: {type(error).__name__}") from None


def is_name(name: object) -> bool:
    """Whether a signal may have this name.

    >>> [is_name(name) for name in ("approved", "order.paid-2", "", "a b", ".x", "x" * 101, None)]
    [True, True, False, False, False, False, False]
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def signal_index(run: str, name: str) -> str:
    """The index of a run's wait for a signal."""
    return hashed(f"signal {run} {name}")


def signal_event(run: str, at: float, *, event_id: str | None = None) -> EventMetadata:
    """The metadata of the event that carries a signal. ``run`` distinguishes signals."""
    return EventMetadata(run=run, kind="event", task=SIGNAL_TASK, queued_at=at, event_id=event_id)


def _text(value: Any, longest: int) -> str:
    if not isinstance(value, str) or len(value) > longest:
        raise ValueError("no such text")
    return value
