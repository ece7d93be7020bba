"""Limits of an external system on requests, and what a pod and a coordinator tell each other about them.

A coordinator hands out slots (times at which a pod may send one request) and permits (requests that a pod may have
under way), so that the limits hold over all pods. ``limit_coordinator`` decides, pods keep to it.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

PER = r"^[1-9][0-9]{0,4}(s|m|h)$"
"""The form of ``per``."""
MAX_PER_SECONDS = 24 * 3600
MAX_REQUESTS = 1_000_000
MAX_CONCURRENT = 10_000
MAX_PAUSE_SECONDS = 3600.0
"""What a longer ``Retry-After`` is cut to."""
FRESH_SECONDS = 0.5
"""A pod that has not heard from the coordinator for this long asks before it sends: there may be a pause."""
LEASE_SECONDS = 10.0
"""How long permits are a pod's, counted from its question. The pod renews them."""
LONGEST_RETRY_SECONDS = 5.0
"""How long a pod that got no answer waits at most before it asks again."""
ANSWER_SECONDS = 1.5
"""How long a pod waits for an answer."""
MAX_ASKED = 1000
"""Slots, or times of unused slots, in one question."""

_UNITS = {"s": 1, "m": 60, "h": 3600}
_MARGIN = 0.05
_MAX_MARGIN_SECONDS = 1.0
_LONGEST_SPREAD_SECONDS = 5.0
_CATCHING_UP = 0.85


def seconds_of(per: str) -> int:
    """The seconds that a text like 10s, 1m or 24h means; raises ValueError.

    >>> seconds_of("10s"), seconds_of("1h")
    (10, 3600)
    """
    if re.fullmatch(PER, per) is None:
        raise ValueError(f"per must be a whole number with s, m or h, such as 1s or 10m, not {per[:40]!r}")
    seconds = int(per[:-1]) * _UNITS[per[-1]]
    if seconds > MAX_PER_SECONDS:
        raise ValueError(f"per must be at most 24h, not {per}")
    return seconds


@dataclass(frozen=True, kw_only=True)
class RequestLimits:
    """What a system allows: ``requests`` in each ``seconds``, and ``concurrent`` requests under way; None: any number.

    ``pods`` share it while no coordinator can be asked.
    """

    concurrent: int | None = None
    requests: int | None = None
    seconds: int = 0
    pods: int = 1

    @classmethod
    def parse(cls, content: Mapping[str, Any]) -> Self:
        """From ``{concurrent, requests, per, pods}``, as configurations have it. Raises ValueError.

        With ``answers`` or ``cost`` alone, requests only wait for the pauses that the system asks for.
        """
        concurrent = _number(content, "concurrent", MAX_CONCURRENT)
        requests = _number(content, "requests", MAX_REQUESTS)
        per = content.get("per")
        if (requests is None) != (per is None):
            raise ValueError("requests and per need each other, such as requests: 100 and per: 1m")
        if concurrent is None and requests is None and not (content.get("answers") or content.get("cost")):
            raise ValueError("concurrent is needed, or requests and per")
        return cls(
            concurrent=concurrent,
            requests=requests,
            seconds=seconds_of(str(per)) if per is not None else 0,
            pods=_number(content, "pods", 1_000_000) or 1,
        )

    @property
    def share_of_permits(self) -> int:
        """Requests that each pod may have under way where nobody coordinates them."""
        return (self.concurrent or 0) // self.pods

    @cached_property
    def tolerance(self) -> float:
        """Seconds by which a pod may use a slot late."""
        return min(self.seconds * _MARGIN, _MAX_MARGIN_SECONDS)

    @cached_property
    def window(self) -> float:
        """The seconds in which no more than ``requests`` slots are handed out: slots may be used late."""
        return self.seconds + self.tolerance

    @cached_property
    def spacing(self) -> float:
        """Seconds between slots. All of a period are never sent at once: how long requests travel varies."""
        spread = min(self.window, _LONGEST_SPREAD_SECONDS)
        if self.concurrent is not None:
            spread *= _CATCHING_UP
        return spread / (self.requests or 1)

    def __str__(self) -> str:
        parts = []
        if self.requests is not None:
            parts.append(f"{self.requests} requests in {_shown(self.seconds)}")
        if self.concurrent is not None:
            parts.append(f"{self.concurrent} at once")
        return ", ".join(parts) or "what the system's answers allow"


@dataclass(frozen=True, kw_only=True)
class SlotQuestion:
    """What a pod tells and wants. It says how things are, so that an answer that was lost does no harm."""

    pod: str
    slots: int = 0
    """Requests that wait for a slot."""
    in_use: int = 0
    """Requests under way."""
    waiting: int = 0
    """Requests that wait for a permit."""
    held: int = 0
    """Slots that the pod has and that are not used yet."""
    permits: int = 0
    """Requests that it may have under way until it gets the answer."""
    usual_seconds: float | None = None
    """How long its requests take; None where it does not know."""
    free_seconds: float = 0.0
    """When the first of its requests under way usually ends, in seconds from now."""
    pause_seconds: float = 0.0
    """What the system has just asked for, with 429 or 503."""
    returned: tuple[float, ...] = ()
    """Slots that were not used."""
    spent: int = 0
    """Requests that were sent without a slot, while the pod kept to its share."""
    was_alone: bool = False
    """Whether the pod kept to its share until now, because it got no answer."""

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {
            "pod": self.pod,
            "slots": self.slots,
            "inUse": self.in_use,
            "waiting": self.waiting,
            "held": self.held,
            "permits": self.permits,
            "usualSeconds": self.usual_seconds,
            "freeSeconds": self.free_seconds,
            "pauseSeconds": self.pause_seconds,
            "returned": list(self.returned),
            "spent": self.spent,
            "wasAlone": self.was_alone,
        }

    @classmethod
    def from_json(cls, content: Any) -> Self:
        """Raises ValueError that names the field."""
        if not isinstance(content, dict):
            raise ValueError("the body must be an object")
        pod = content.get("pod")
        if not isinstance(pod, str) or not 1 <= len(pod) <= 64:
            raise ValueError("pod must be a text of 1 to 64 characters")
        returned = content.get("returned") or []
        if not isinstance(returned, list) or len(returned) > MAX_ASKED:
            raise ValueError(f"returned must be a list of at most {MAX_ASKED} times")
        return cls(
            pod=pod,
            slots=int(_amount(content, "slots", MAX_ASKED)),
            in_use=int(_amount(content, "inUse", MAX_REQUESTS)),
            waiting=int(_amount(content, "waiting", MAX_REQUESTS)),
            held=int(_amount(content, "held", MAX_REQUESTS)),
            permits=int(_amount(content, "permits", MAX_REQUESTS)),
            usual_seconds=(
                None if content.get("usualSeconds") is None else _amount(content, "usualSeconds", math.inf)
            ),
            free_seconds=_amount(content, "freeSeconds", math.inf),
            pause_seconds=_amount(content, "pauseSeconds", math.inf),
            returned=tuple(_time(item) for item in returned),
            spent=int(_amount(content, "spent", MAX_REQUESTS)),
            was_alone=content.get("wasAlone") is True,
        )


@dataclass(frozen=True, kw_only=True)
class SlotAnswer:
    """What a coordinator decided. Its times are seconds of the coordinator's own clock, ``time`` is now."""

    clock: str = ""
    """Names the clock of ``now``; times of different ones have nothing to do with each other."""
    now: float = 0.0
    """Now, by a clock that always goes forward."""
    time: float = 0.0
    """Now, by the clock of the slots."""
    slots: tuple[tuple[float, int], ...] = ()
    """Times, and how many requests may be sent then or up to the limits' tolerance later."""
    permits: int | None = None
    """How many requests the pod may have under way, those that are included; None: any number."""
    paused_seconds: float = 0.0
    """How long nobody may send."""
    again_seconds: float | None = None
    """When to ask for what is still wanted; None where nothing is."""
    room: float = 1.0
    """The part of the period's requests that nobody has used."""
    share_seconds: float = 0.0
    """How long each pod keeps to its share of the limits, instead of slots and permits."""

    def to_json(self) -> dict[str, Any]:
        """As it is sent."""
        return {
            "clock": self.clock,
            "now": self.now,
            "time": self.time,
            "slots": [list(slot) for slot in self.slots],
            "permits": self.permits,
            "pausedSeconds": self.paused_seconds,
            "againSeconds": self.again_seconds,
            "room": self.room,
            "shareSeconds": self.share_seconds,
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Raises ValueError."""
        try:
            permits, again = content.get("permits"), content.get("againSeconds")
            return cls(
                clock=str(content["clock"]),
                now=float(content["now"]),
                time=float(content["time"]),
                slots=tuple((float(at), int(count)) for at, count in content["slots"]),
                permits=None if permits is None else int(permits),
                paused_seconds=float(content["pausedSeconds"]),
                again_seconds=None if again is None else float(again),
                room=float(content["room"]),
                share_seconds=float(content.get("shareSeconds") or 0.0),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"the answer is of another shape: {error}") from None


def _number(content: Mapping[str, Any], name: str, most: int) -> int | None:
    value = content.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
        raise ValueError(f"{name} must be a whole number from 1 to {most}, not {value!r}")
    return value


def _amount(content: Mapping[str, Any], name: str, most: float) -> float:
    value = content.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a number from 0 to {most:g}")
    return value


def _time(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("returned must be a list of times")
    return float(value)


def _shown(seconds: int) -> str:
    for unit in ("h", "m"):
        if seconds % _UNITS[unit] == 0:
            return f"{seconds // _UNITS[unit]}{unit}"
    return f"{seconds}s"
