"""``Throttle``: the runs of a task start at most so often, over all pods. Those whose turn has not come wait."""

import json
from bisect import insort
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Self

from tieline.events.retry import Reject

_SLACK_MILLISECONDS = 1000
"""A run that starts no later than this after its turn counts as one that started at its turn."""
_MAX_WAIT_MILLISECONDS = 366 * 86400 * 1000
"""As for a delayed event. The engine refuses times of 292 years."""


@dataclass(frozen=True)
class Throttle:
    """Starts at most ``limit`` runs of a task in ``per`` (seconds or a timedelta); the others wait for their turn.

    ``key`` names a field of the payload (dots lead into objects): each of its values has a limit of its own. ``limit``
    is from 1 to 1,000, and ``per`` from 1 second to 7 days.

    >>> Throttle(10, per=60, key="customer").limit
    10
    """

    limit: int
    per: float | timedelta
    key: str | None = None


@dataclass(frozen=True, kw_only=True)
class ThrottleRule:
    """A checked Throttle, in seconds."""

    limit: int
    per: float
    key: str | None

    @property
    def period(self) -> int:
        """In milliseconds."""
        return round(self.per * 1000)

    @property
    def slack(self) -> int:
        """In milliseconds."""
        return min(_SLACK_MILLISECONDS, self.period // 10)

    @property
    def patience(self) -> int:
        """How late a run may be and still hold up those behind it, in milliseconds."""
        return self.period // self.limit + _SLACK_MILLISECONDS


class LineTooLongError(Reject):
    """An event would wait for its turn for longer than a year."""


@dataclass(frozen=True, kw_only=True)
class Turn:
    """The answer to a run that asks for its turn. Times are in milliseconds since 1970."""

    place: int
    """The place in the line."""
    until: int | None
    """When to ask again; None for a run that starts now."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """The runs that start and wait at one limit. Each has a place: a time on a clock that stops while no run starts.

    So an outage of all pods does not change the order. Times are in milliseconds since 1970.
    """

    delay: int = 0
    """How many milliseconds the clock of places is behind."""
    places: tuple[int, ...] = ()
    """The last places that were given, at most as many as the limit, in order."""
    starts: tuple[int, ...] = ()
    """When the last runs started, at most as many as the limit, in order."""

    def ask(self, rule: ThrottleRule, now: int, place: int | None) -> tuple[Self, Turn]:
        """Whether a run may start now, by its place; None for one that has none yet. And the line after it.

        Raises LineTooLongError where its turn is too far away. Then the line does not change.
        """
        line = self._without_old(rule, now)
        if place is None:
            line, place = line._with_place(rule, now)
        free = line.starts[-rule.limit] + rule.period if len(line.starts) >= rule.limit else 0
        turn = place + line.delay
        if now - turn > rule.patience:
            if not line.starts or line.starts[-1] < turn:
                # Nobody has started since: the line stood still.
                line, turn = replace(line, delay=now - place), now
            elif free > now:
                # It has missed its turn alone, and must not stop those that have not.
                line, place = line._with_place(rule, now)
                turn = place + line.delay
        if now < turn:
            return line, _turn_at(turn, place, now)
        start = max(turn, free, now - rule.slack)
        if start > now:
            return replace(line, delay=start - place), _turn_at(start, place, now)
        starts = list(line.starts)
        insort(starts, start)
        return replace(line, starts=tuple(starts)), Turn(place=place, until=None)

    def _with_place(self, rule: ThrottleRule, now: int) -> tuple[Self, int]:
        place = max(now - self.delay, *self.places[-1:], 0)
        if len(self.places) >= rule.limit:
            place = max(place, self.places[-rule.limit] + rule.period)
        return replace(self, places=(*self.places, place)[-rule.limit :]), place

    def _without_old(self, rule: ThrottleRule, now: int) -> Self:
        since = now - rule.period - rule.slack
        return replace(
            self,
            places=_since(self.places[-rule.limit :], since - self.delay),
            starts=_since(self.starts[-rule.limit :], since),
        )

    def seconds(self, rule: ThrottleRule, now: int) -> float:
        """How long it must be kept from now on, unless it changes."""
        last = max((*self.places[-1:], 0)) + self.delay
        return (min(max(last - now, 0), _MAX_WAIT_MILLISECONDS) + 2 * rule.period) / 1000

    def encode(self) -> bytes:
        """As stored."""
        return json.dumps([self.delay, self.places, self.starts], separators=(",", ":")).encode()

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """From what is stored. Content that cannot be read gives a new line."""
        try:
            delay, places, starts = json.loads(content)
            return cls(
                delay=int(delay), places=tuple(map(int, places)), starts=tuple(sorted(map(int, starts)))
            )
        except (ValueError, TypeError, RecursionError, OverflowError):
            return cls()


def _turn_at(until: int, place: int, now: int) -> Turn:
    if until - now > _MAX_WAIT_MILLISECONDS:
        raise LineTooLongError(
            "Too many events wait for the throttle of the task: its turn would come more than a year from now"
        )
    return Turn(place=place, until=until)


def _since(times: tuple[int, ...], since: int) -> tuple[int, ...]:
    """The times after ``since``, and the last one in any case."""
    return tuple(one for one in times[:-1] if one > since) + times[-1:]
