"""The requests of a pod through one connection with limits: each waits for a slot, a permit, and the end of pauses.

Slots and permits come from a LimitSource. While none answers, the pod keeps to its own share of the limits.
"""

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass, field

from tieline.http_client.limit_sources import LimitSource, LimitsUnavailableError
from tieline_common.backoff import exponential, jitter
from tieline_protocol.request_limits import (
    FRESH_SECONDS,
    LEASE_SECONDS,
    LONGEST_RETRY_SECONDS,
    MAX_ASKED,
    MAX_PAUSE_SECONDS,
    RequestLimits,
    SlotAnswer,
    SlotQuestion,
)
from tieline_protocol.usable_slots import permits_are_scarce

_TICK, _IDLE_TICK = 0.02, 0.25
_RENEW_SECONDS = LEASE_SECONDS * 0.3
_REFRESH_SECONDS = FRESH_SECONDS * 0.5
_GIVE_BACK_SECONDS = 0.2
_STEP_SECONDS = 0.02
_FIRST_RETRY = 0.1
_FAILURES = 2
"""In a row, after which a pod does not wait for an answer any more."""
_OFFSET_SECONDS = 60.0
_LATEST_WEIGHT = 0.1
# Slots of shorter periods are worth nothing to others once they have passed.
_WORTH_RETURNING = 5


@dataclass(eq=False, slots=True)
class _Waiter:
    future: "asyncio.Future[None]"
    is_hop: bool


@dataclass(slots=True)
class _Slot:
    at: float
    """By the loop's clock."""
    time: float
    """By the source's clock."""
    count: int


@dataclass(slots=True)
class _ClockOffset:
    """How far a source's clock is from ours: the least of what answers say, so slow ones change nothing."""

    lowest: float = math.inf
    before: float = math.inf
    since: float = -math.inf

    def observe(self, offset: float, now: float) -> float:
        if now - self.since > _OFFSET_SECONDS:
            self.before, self.lowest, self.since = self.lowest, math.inf, now
        self.lowest = min(self.lowest, offset)
        return min(self.lowest, self.before)


@dataclass(eq=False)
class LimitQueue:
    """Lets requests through, in order. To be used on one event loop."""

    key: str
    limits: RequestLimits
    source: LimitSource
    pod: str
    lost: Callable[[str], None]
    """Told when no source answers any more, and why."""
    in_use: int = 0
    """Requests under way, where their number is limited."""
    is_alone: bool = False
    """Whether no source answers."""
    _share_until: float = -math.inf
    _waiters: deque[_Waiter] = field(default_factory=deque)
    _slots: deque[_Slot] = field(default_factory=deque)
    _returned: list[float] = field(default_factory=list)
    _spent: int = 0
    _permits: int = 0
    _counted: int = 0
    """Requests that the coordinator counts as this pod's, by the latest question."""
    _began: deque[float] = field(default_factory=deque)
    """When the requests under way got their permits."""
    _usual: float | None = None
    """Seconds that a request takes, from its permit to its end."""
    _room: float = 1.0
    _pause_reported: float = 0.0
    _paused_until: float = -math.inf
    _contact: float = -math.inf
    _asked_at: float = -math.inf
    _next_question: float = -math.inf
    _next_share: float = -math.inf
    _idle_since: float = 0.0
    _failures: int = 0
    _asking: "asyncio.Task[None] | None" = None
    _timer: asyncio.TimerHandle | None = None
    _offsets: dict[str, _ClockOffset] = field(default_factory=dict)

    @property
    def waiting(self) -> int:
        """Requests that wait."""
        return len(self._waiters)

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits or is under way."""
        return not (self._waiters or self.in_use or self._asking or self._pause_reported or self._spent)

    @property
    def paused_seconds(self) -> float:
        """How long nothing is sent, as far as is known."""
        return max(0.0, self._paused_until - self._now())

    async def take(self, deadline: float | None, *, is_hop: bool = False) -> None:
        """Wait for one request's turn; TimeoutError at ``deadline``, by the loop's clock."""
        if self.is_alone and self.is_idle and self._now() > self._next_question + LONGEST_RETRY_SECONDS:
            self.is_alone = False  # nobody has tried for a while
        waiter = _Waiter(asyncio.get_running_loop().create_future(), is_hop)
        if is_hop:
            self._waiters.appendleft(waiter)
        else:
            self._waiters.append(waiter)
        try:
            self._pump()
            if not waiter.future.done():
                async with asyncio.timeout_at(deadline):
                    await waiter.future
        except BaseException:
            if waiter.future.done() and not waiter.future.cancelled():
                self.release(is_hop=is_hop)
            raise
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def release(self, *, is_hop: bool = False, after: float | None = None) -> None:
        """A request has ended, ``after`` so many seconds; None where it was not sent."""
        if self.limits.concurrent is not None and not is_hop:
            self.in_use = max(0, self.in_use - 1)
            if self._began:
                self._began.popleft()
            if after is not None:
                usual = after if self._usual is None else self._usual
                self._usual = usual + (after - usual) * _LATEST_WEIGHT
        self._idle_since = self._now()
        self._pump()

    def pause(self, seconds: float) -> None:
        """Send nothing for a while, and notify the others."""
        seconds = min(seconds, MAX_PAUSE_SECONDS)
        self._pause_reported = max(self._pause_reported, seconds)
        self._pause_until(self._now() + seconds)
        self._next_question = -math.inf
        self._pump()

    # --- letting through --------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Let through what may be sent, ask for what is missing, and have this done again when something is due."""
        now = self._now()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._drop_late_slots(now)
        while self._waiters and self._may_go(self._waiters[0], now):
            waiter = self._waiters.popleft()
            if not waiter.future.done():
                self._count(waiter, now)
                waiter.future.set_result(None)
        if self._asking is None and self._must_ask(now):
            self._asking = asyncio.get_running_loop().create_task(self._ask(), context=Context())
        holds_some = not self._failures and (self._permits > 0 or bool(self._slots))
        if not self.is_idle or holds_some:
            due = now + (_TICK if self._waiters else _IDLE_TICK)
            if self._waiters and self._slots and self._slots[0].at > now:
                due = min(due, self._slots[0].at)
            self._timer = asyncio.get_running_loop().call_at(due, self._pump, context=Context())

    def _may_go(self, waiter: _Waiter, now: float) -> bool:
        if waiter.future.done():
            return True  # it is only taken out
        if now < self._paused_until:
            return False
        if self.is_alone:
            return self._has_permit(waiter, self._own_permits(now)) and self._own_slot_due(now)
        if now - self._contact > FRESH_SECONDS:
            return False
        if not self._has_permit(waiter, self._permits):
            return False
        if now < self._share_until:
            return self._own_slot_due(now)
        return self.limits.requests is None or bool(self._slots and self._slots[0].at <= now)

    def _count(self, waiter: _Waiter, now: float) -> None:
        if self.limits.concurrent is not None and not waiter.is_hop:
            self.in_use += 1
            self._began.append(now)
        if self.limits.requests is None:
            return
        if self.is_alone or now < self._share_until:
            self._spent += 1
            self._next_share = now + self._own_spacing(now)
            return
        slot = self._slots[0]
        slot.count -= 1
        if slot.count == 0:
            self._slots.popleft()

    def _has_permit(self, waiter: _Waiter, permits: int) -> bool:
        return self.limits.concurrent is None or waiter.is_hop or self.in_use < permits

    def _drop_late_slots(self, now: float) -> None:
        while self._slots and self._slots[0].at + self.limits.tolerance < now:
            self._return(self._slots.popleft())

    def _return(self, slot: _Slot) -> None:
        if self.limits.seconds > _WORTH_RETURNING or self.limits.concurrent is not None:
            self._returned.extend([slot.time] * slot.count)
            del self._returned[:-MAX_ASKED]

    def _pause_until(self, until: float) -> None:
        self._paused_until = max(self._paused_until, until)
        while self._slots and self._slots[0].at < self._paused_until:
            self._return(self._slots.popleft())

    # --- asking -----------------------------------------------------------------------------------------

    def _must_ask(self, now: float) -> bool:
        if self._failures:
            return now >= self._next_question and not self.is_idle
        if self._pause_reported or self._counts_too_many():
            return True
        if self._is_out_of_step(now):
            while self._slots:
                self._return(self._slots.popleft())
            return True
        if self._waiters:
            return now >= self._next_question and (self._lacks_something() or self._is_stale_soon(now))
        if self.in_use and now - self._asked_at > _RENEW_SECONDS:
            return True
        idle = now - max(self._idle_since, self._asked_at) > _GIVE_BACK_SECONDS
        unused = bool(self._returned) and not self._slots
        return idle and (self._permits > self.in_use or unused or self._spent > 0)

    def _counts_too_many(self) -> bool:
        """Whether others wait for permits that this pod has given up, and the coordinator does not know it yet."""
        return max(self.in_use, self._permits) < self._counted

    def _is_out_of_step(self, now: float) -> bool:
        """Whether a permit is free sooner than the slots that were meant for it."""
        return (
            bool(self._waiters and self._slots)
            and self.in_use < self._permits
            and self._slots[0].at - now > self.limits.tolerance
            and self._room > 0
            and now - self._asked_at > _STEP_SECONDS
            and permits_are_scarce(self.limits, self._usual)
        )

    def _lacks_something(self) -> bool:
        if self._now() < self._share_until:
            return True
        lacks_permits = self.limits.concurrent is not None and self.in_use + self._starting > self._permits
        return lacks_permits or self._lacking_slots > 0

    def _is_stale_soon(self, now: float) -> bool:
        soon = not self._slots or self._slots[0].at - now < _REFRESH_SECONDS
        return soon and now - self._contact > _REFRESH_SECONDS

    @property
    def _starting(self) -> int:
        return sum(not waiter.is_hop for waiter in self._waiters)

    def _free_seconds(self, now: float) -> float:
        """When the first request under way usually ends."""
        if self._usual is None or not self._began:
            return 0.0
        return max(0.0, self._began[0] + self._usual - now)

    @property
    def _lacking_slots(self) -> int:
        if self.limits.requests is None:
            return 0
        return max(0, len(self._waiters) - sum(slot.count for slot in self._slots))

    async def _ask(self) -> None:
        now = self._now()
        returned, spent, pause = tuple(self._returned), self._spent, self._pause_reported
        if not self._waiters or now - self._contact > FRESH_SECONDS:
            self._permits = min(self._permits, self.in_use)  # it begins with nothing until it has the answer
        self._counted = max(self.in_use, self._permits)
        question = SlotQuestion(
            pod=self.pod,
            slots=min(self._lacking_slots, MAX_ASKED),
            in_use=self.in_use,
            waiting=self._starting,
            held=sum(slot.count for slot in self._slots),
            permits=self._permits,
            usual_seconds=self._usual,
            free_seconds=self._free_seconds(now),
            pause_seconds=pause,
            returned=returned,
            spent=spent,
            was_alone=self.is_alone,
        )
        self._asked_at = now
        try:
            answer = await self.source.ask(self.key, self.limits, question)
        except LimitsUnavailableError as error:
            self._fail(str(error))
        else:
            del self._returned[: len(returned)]
            self._spent -= spent
            if self._pause_reported <= pause:
                self._pause_reported = 0.0
            self._take_answer(answer)
        finally:
            self._asking = None
        self._pump()

    def _take_answer(self, answer: SlotAnswer) -> None:
        now = self._now()
        if answer.clock not in self._offsets and len(self._offsets) > 100:
            self._offsets.clear()
        offset = self._offsets.setdefault(answer.clock, _ClockOffset()).observe(now - answer.now, now)
        if answer.paused_seconds:
            self._pause_until(now + answer.paused_seconds)
        for time, count in answer.slots:
            self._slots.append(_Slot(time - answer.time + answer.now + offset, time, count))
        self._permits = answer.permits or 0
        self._counted = max(self._counted, self._permits)
        if answer.permits == 0:
            while self._slots:
                self._return(self._slots.popleft())
        self._room = answer.room
        self._share_until = now + answer.share_seconds
        self._contact = now
        self._failures, self.is_alone = 0, False
        again = answer.again_seconds
        self._next_question = -math.inf if again is None else now + jitter(again, 0.8, 1.0)

    # --- alone ------------------------------------------------------------------------------------------

    def _fail(self, why: str) -> None:
        now = self._now()
        self._failures += 1
        pause = jitter(exponential(self._failures, first=_FIRST_RETRY, cap=LONGEST_RETRY_SECONDS))
        self._next_question = now + min(pause, LONGEST_RETRY_SECONDS)
        if self.is_alone or self._failures < _FAILURES:
            return
        self.is_alone = True
        self._slots.clear()
        if self.limits.requests is not None:
            first = now + self._own_spacing(now) * random.random()  # noqa: S311 (not a secret)
            self._next_share = max(self._next_share, first)
        self.lost(why)

    def _own_permits(self, now: float) -> int:
        """This pod's share; until others' leases have ended, no more than it has."""
        share = self.limits.share_of_permits
        has_ended = now - self._contact > LEASE_SECONDS
        return share if has_ended else min(share, self._permits)

    def _own_slot_due(self, now: float) -> bool:
        return self.limits.requests is None or now >= self._next_share

    def _own_spacing(self, now: float) -> float:
        """Seconds between this pod's requests, so that all pods together keep the limit."""
        requests, pods = self.limits.requests or 1, self.limits.pods
        window = self.limits.window
        usual = window / (requests // pods) if requests >= pods else window * pods / requests
        left = self._contact + window - now
        if left <= 0:
            return usual
        # In the period that was coordinated, some of the limit is used up.
        return min(usual / self._room, left + usual) if self._room > 0 else left + usual

    def _now(self) -> float:
        return asyncio.get_running_loop().time()
