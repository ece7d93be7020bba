"""How many requests an organisation sends, and events it publishes, in a second, over all replicas of the API.

The replicas share one state for each organisation: the number of a window, and what was taken in it. A replica takes
some requests at once and counts them down, so most requests ask nobody. Whoever has seen a window for a second by its
own clock opens the next one, so the clocks of replicas need not agree.
"""

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tieline_api.engine.limit_store import LimitStore, SharedState
from tieline_api.errors import ApiError, too_many_requests
from tieline_common.bounded_dict import BoundedDict
from tieline_core.engine.streams import LIMITS_STREAM
from tieline_core.resources.quotas import WHO_MAY_RAISE
from tieline_protocol.event_rates import RateLease

logger = logging.getLogger("tieline.engine")

_WINDOW = 1.0
_PARTS = 20
"""Of the quota, which a replica takes at once."""
_TRIES = 8
_AWAY_SECONDS = 5.0
_ORGANISATIONS = 10_000
_NUMBER, _TAKEN, _AT = "window", "taken", "at"
_OLD_SECONDS = 5.0
"""A stored window of this age, by the clocks of two replicas, is over. Their clocks differ by less."""


@dataclass
class _Window:
    """What a replica knows of an organisation's window."""

    number: int = 0
    seen: float = -math.inf
    """When this replica first saw it."""
    taken: int = 0
    """By all replicas, as far as this one knows."""
    left: int = 0
    """What this replica has taken and not used."""
    stored: SharedState | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What is counted."""

    quota: str
    """The quota's field."""
    sentence: str
    """The refusal, with the number of the quota."""


REQUESTS = Counted(
    quota="requestsPerSecond", sentence="The organisation may send {quota} requests a second over all callers"
)
EVENTS = Counted(
    quota="eventsPerSecond",
    sentence="The organisation may publish {quota} events a second in all environments",
)


class RateQuotas:
    """Counts for organisations that have a quota. ``store`` is shared by all replicas."""

    def __init__(
        self,
        store: LimitStore,
        counted: Counted,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._what = counted
        self._clock = clock
        self._wall_clock = wall_clock
        self._windows: BoundedDict[str, _Window] = BoundedDict(_ORGANISATIONS)
        self._away_until = -math.inf

    async def hit(self, organisation: str, quota: int | None) -> None:
        """Counts a request; ApiError 429 for one too many. While the engine is away, this replica counts alone."""
        if quota is None:
            return
        window = self._window(organisation)
        if self._counted(window):
            return
        async with window.lock:
            if self._counted(window) or await self._take(organisation, window, quota):
                return
        sentence = self._what.sentence.format(quota=quota)
        raise too_many_requests(
            f"{sentence} (quota {self._what.quota}): try again in a second, and more slowly, or {WHO_MAY_RAISE}",
            retry_after=_WINDOW,
        )

    async def lease(self, organisation: str, quota: int) -> RateLease:
        """What somebody else may take, who counts it; none where this second has no more."""
        window = self._window(organisation)
        async with window.lock:
            took = self._counted(window) or await self._take(organisation, window, quota)
            left, window.left = window.left, 0
            seconds = max(0.0, window.seen + _WINDOW - self._clock())
        return RateLease(1 + left if took else 0, seconds)

    def _window(self, organisation: str) -> _Window:
        window = self._windows.get(organisation)
        if window is None:
            window = self._windows[organisation] = _Window()
        return window

    async def used(self, organisation: str) -> int:
        """How many the replicas have taken in the current second. Raises EngineUnavailableError."""
        window = self._windows.get(organisation)
        if window is None or self._is_over(window):
            return 0
        return _parsed(await self._store.read(self._subject(organisation)))[1]

    def _counted(self, window: _Window) -> bool:
        """Whether this replica has a request left for now, which is used by this."""
        if window.left <= 0 or self._is_over(window):
            return False
        window.left -= 1
        return True

    def _is_over(self, window: _Window) -> bool:
        return self._clock() - window.seen >= _WINDOW

    async def _take(self, organisation: str, window: _Window, quota: int) -> bool:
        """Whether a request may be sent. Takes more than one, where there are more."""
        if window.taken >= quota and not self._is_over(window):
            return False
        if self._clock() < self._away_until:
            return self._take_alone(window, quota)
        try:
            return await self._take_shared(self._subject(organisation), window, quota)
        except ApiError as error:
            # Away, or without memory for the state.
            logger.warning("Each replica counts %s alone: %s", self._what.quota, error.message)
            self._away_until = self._clock() + _AWAY_SECONDS
            window.stored = None
            return self._take_alone(window, quota)

    def _take_alone(self, window: _Window, quota: int) -> bool:
        if self._is_over(window):
            window.seen, window.taken = self._clock(), 0
        if window.taken >= quota:
            return False
        window.taken += 1
        window.left = 0
        return True

    async def _take_shared(self, subject: str, window: _Window, quota: int) -> bool:
        for _ in range(_TRIES):
            if window.stored is None:
                self._saw(window, await self._store.read(subject))
            opens = self._is_over(window)
            number, taken = (window.number + 1, 0) if opens else (window.number, window.taken)
            part = min(max(1, quota // _PARTS), quota - taken)
            if part <= 0:
                return False
            content = json.dumps(
                {_NUMBER: number, _TAKEN: taken + part, _AT: round(self._wall_clock(), 3)}
            ).encode()
            sequence = await self._store.store(
                subject, content, window.stored.sequence if window.stored else 0
            )
            if sequence:
                self._saw(window, SharedState(content, sequence))
                window.left = part - 1
                return True
            window.stored = None
        # Others take all the time: nobody knows how much is left.
        return False

    def _subject(self, organisation: str) -> str:
        return f"{LIMITS_STREAM}.{organisation}.~{self._what.quota}"

    def _saw(self, window: _Window, found: SharedState) -> None:
        number, taken, at = _parsed(found)
        if number != window.number or window.seen == -math.inf:
            is_old = self._wall_clock() - at > _OLD_SECONDS
            window.number, window.seen, window.left = number, -math.inf if is_old else self._clock(), 0
        window.taken, window.stored = taken, found


def _parsed(found: SharedState) -> tuple[int, int, float]:
    """The number of the window, what is taken of it, and when it was last counted (seconds since 1970)."""
    if not found.content:
        return 0, 0, 0.0
    content = json.loads(found.content)
    return int(content[_NUMBER]), int(content[_TAKEN]), float(content.get(_AT, 0.0))
