"""Who may send when, so that the limits of a system hold over all pods. Pure: it is told the time.

Slots have a distance from each other, and no more than the limit of them are in a period. They are handed out for the
next quarter of a second alone, so that a pod that is killed loses few, and by turns to the pods that want some. Permits
are leases: those of a killed pod come back by themselves. A pod that has had its permits for a second gives way to one
that has none.
"""

import json
import math
import secrets
from bisect import bisect_left, insort
from dataclasses import asdict, dataclass, field
from typing import Self

from tieline_protocol.request_limits import (
    ANSWER_SECONDS,
    LEASE_SECONDS,
    LONGEST_RETRY_SECONDS,
    MAX_PAUSE_SECONDS,
    RequestLimits,
    SlotAnswer,
    SlotQuestion,
)
from tieline_protocol.usable_slots import usable_slots

AHEAD_SECONDS = 0.25
"""How far ahead slots are handed out."""
FAR_SECONDS = 5.0
"""How far ahead a pod without any gets one: where slots are rarer than questions, pods get them in turn."""
MAX_PODS = 1000
MAX_PODS_OF_ENVIRONMENT = 200
"""Pods of one environment have names with the same text before the last ``/``."""
_GROUP_SECONDS = 0.005
_ASKING_SECONDS = 1.5
_TURN_SECONDS = 1.0
_ENTRIES = 100
_SOONEST, _LATEST = 0.02, 0.4
_PERMIT_AGAIN = 0.1
_PAUSED_AGAIN = 2.0
_SHARED_SECONDS = LONGEST_RETRY_SECONDS + ANSWER_SECONDS + 0.5
_MAX_CLOCK_DIFFERENCE = 5.0
_SAME = 1e-5


@dataclass
class SlotGroup:
    """Slots that were handed out, from ``first`` to ``last``."""

    first: float
    last: float
    count: int


@dataclass
class PodShare:
    """What a pod wants and has."""

    asked: float = 0.0
    """When it asked last."""
    wants_slots: bool = False
    slot_until: float = 0.0
    """The time of its last slot."""
    wanted: int = 0
    """Permits."""
    permits: int = 0
    lease_until: float = 0.0
    turn: float = 0.0
    """Since when it has permits, or waits for one."""


@dataclass
class LimitState:
    """What was handed out for one connection."""

    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    """Another one where the state was lost, and begun again."""
    time: float = 0.0
    """When it was last asked. Its clock never goes back."""
    next_slot: float = 0.0
    paused_until: float = 0.0
    shared_until: float = 0.0
    """Until then pods keep to their shares: some may not have heard yet that they can ask again."""
    groups: list[SlotGroup] = field(default_factory=list)
    pods: dict[str, PodShare] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """As it is stored."""
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Raises ValueError."""
        try:
            found = json.loads(content)
            groups = [SlotGroup(**group) for group in found.pop("groups")]
            pods = {name: PodShare(**pod) for name, pod in found.pop("pods").items()}
            return cls(groups=groups, pods=pods, **found)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the state of a limit: {error}") from None

    def absorb(self, other: Self) -> None:
        """Count what ``other``, another memory of the same connection, knows to be handed out."""
        known = {group.first: group for group in self.groups}
        for group in other.groups:
            if (same := known.get(group.first)) is not None:
                same.last, same.count = max(same.last, group.last), max(same.count, group.count)
            else:
                insort(self.groups, SlotGroup(**asdict(group)), key=_last)
        for name, pod in other.pods.items():
            self.pods.setdefault(name, PodShare(**asdict(pod)))
        self.time = max(self.time, other.time)
        self.next_slot = max(self.next_slot, other.next_slot)
        self.paused_until = max(self.paused_until, other.paused_until)
        self.shared_until = max(self.shared_until, other.shared_until)

    def decide(self, limits: RequestLimits, question: SlotQuestion, now: float) -> SlotAnswer:
        """Answer a pod, ``now`` in seconds since 1970. The answer's ``clock`` and ``now`` are for the caller to say."""
        self._advance(now)
        pod = self._pod(question)
        self._take_back(limits, question)
        if question.pause_seconds:
            self._pause(question.pause_seconds)
        if question.was_alone:
            self.shared_until = max(self.shared_until, self.time + _SHARED_SECONDS)
        if self.shared_until > self.time:
            return self._shared(limits, question, pod)
        permits = self._permits(limits, question, pod) if limits.concurrent is not None else None
        wanted = question.slots
        if permits is not None:
            # Slots that wait for a permit would pass unused. Requests that follow from others need none.
            needing_none = max(0, question.slots - question.waiting)
            wanted = min(wanted, usable_slots(limits, question, permits) + needing_none)
        pod.wants_slots = wanted > 0
        slots = self._slots(limits, pod, wanted) if limits.requests is not None else []
        return SlotAnswer(
            time=self.time,
            slots=tuple(slots),
            permits=permits,
            paused_seconds=max(0.0, self.paused_until - self.time),
            again_seconds=self._again(limits, question, pod, permits, sum(count for _, count in slots)),
            room=self._room(limits),
        )

    def _shared(self, limits: RequestLimits, question: SlotQuestion, pod: PodShare) -> SlotAnswer:
        """Nobody gets more than a pod that does not ask takes for itself: so all of them keep the limits together."""
        permits: int | None = None
        if limits.concurrent is not None and limits.share_of_permits:
            permits = limits.share_of_permits
            pod.wanted, pod.permits = question.in_use + question.waiting, max(permits, question.in_use)
            pod.lease_until = self.time + LEASE_SECONDS
        elif limits.concurrent is not None:
            # Such pods take none.
            permits = self._permits(limits, question, pod)
        return SlotAnswer(
            time=self.time,
            permits=permits,
            paused_seconds=max(0.0, self.paused_until - self.time),
            again_seconds=_PERMIT_AGAIN if question.waiting or question.slots else None,
            room=self._room(limits),
            share_seconds=self.shared_until - self.time,
        )

    # --- time and pods ----------------------------------------------------------------------------------

    def _advance(self, now: float) -> None:
        if self.time - now > _MAX_CLOCK_DIFFERENCE:
            # A clock was far ahead, and was set right. Waiting until the others get there could take for ever.
            self._shift(now - self.time)
        self.time = max(self.time, now)

    def _shift(self, seconds: float) -> None:
        self.time += seconds
        self.next_slot += seconds
        self.paused_until += seconds
        self.shared_until += seconds
        for group in self.groups:
            group.first += seconds
            group.last += seconds
        for pod in self.pods.values():
            pod.asked += seconds
            pod.slot_until += seconds
            pod.lease_until += seconds
            pod.turn += seconds

    def _pod(self, question: SlotQuestion) -> PodShare:
        for name, pod in list(self.pods.items()):
            if pod.lease_until <= self.time and not self._is_asking(pod):
                del self.pods[name]
        if question.pod not in self.pods:
            self._make_room_for(question.pod)
        pod = self.pods.setdefault(question.pod, PodShare(turn=self.time))
        pod.asked = self.time
        return pod

    def _make_room_for(self, pod: str) -> None:
        """Code that makes up names of pods forgets those of its own environment first."""
        environment = pod.rpartition("/")[0]
        neighbours = [name for name in self.pods if name.rpartition("/")[0] == environment]
        if len(neighbours) >= MAX_PODS_OF_ENVIRONMENT:
            del self.pods[min(neighbours, key=lambda name: self.pods[name].asked)]
        elif len(self.pods) >= MAX_PODS:
            del self.pods[min(self.pods, key=lambda name: self.pods[name].asked)]

    def _is_asking(self, pod: PodShare) -> bool:
        return self.time - pod.asked <= _ASKING_SECONDS

    def _pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.time + min(seconds, MAX_PAUSE_SECONDS))
        for pod in self.pods.values():
            # Pods give up their slots when they hear of it.
            pod.slot_until = 0.0

    # --- slots ------------------------------------------------------------------------------------------

    def _take_back(self, limits: RequestLimits, question: SlotQuestion) -> None:
        for at in question.returned:
            for group in self.groups:
                if group.first - _SAME <= at <= group.last + _SAME:
                    group.count -= 1
                    break
        self.groups = [group for group in self.groups if group.count > 0]
        if question.spent:
            self._add_spent(limits, question.spent)

    def _slots(self, limits: RequestLimits, pod: PodShare, wanted: int) -> list[tuple[float, int]]:
        self.groups = [group for group in self.groups if group.last > self.time - limits.window]
        asking = sum(other.wants_slots and self._is_asking(other) for other in self.pods.values())
        share = math.ceil(AHEAD_SECONDS / limits.spacing / max(asking, 1))
        left = min(wanted, share)
        found: list[tuple[float, int]] = []
        at = max(self.next_slot, self.paused_until, self.time)
        while left > 0:
            at, room = self._next_room(limits, at)
            has_some = found or pod.slot_until > self.time
            if at > self.time + (AHEAD_SECONDS if has_some else FAR_SECONDS):
                break
            count = min(left, room, math.ceil(_GROUP_SECONDS / limits.spacing))
            found.append((at, count))
            self._add(limits, at, count)
            pod.slot_until = at
            left -= count
            at += count * limits.spacing
            self.next_slot = at
        return found

    def _next_room(self, limits: RequestLimits, at: float) -> tuple[float, int]:
        """The first time from ``at`` on when the period has room, and for how many."""
        most = limits.requests or 0
        counted = [group for group in self.groups if group.last > at - limits.window]
        used = sum(group.count for group in counted)
        for group in counted:
            if used < most:
                break
            used -= group.count
            at = group.last + limits.window
        return at, most - used

    def _add(self, limits: RequestLimits, at: float, count: int) -> None:
        last = self.groups[-1] if self.groups else None
        if last is not None and last.last <= at <= last.first + limits.window / _ENTRIES:
            last.last = at
            last.count += count
        else:
            insort(self.groups, SlotGroup(at, at, count), key=_last)

    def _add_spent(self, limits: RequestLimits, count: int) -> None:
        """Count what was sent by now. It joins the next group, which only counts for longer, if that is near: so the
        groups of a period are few, however often pods tell of some."""
        index = bisect_left(self.groups, self.time, key=_last)
        following = self.groups[index] if index < len(self.groups) else None
        if following is not None and following.last - self.time <= limits.window / _ENTRIES:
            following.first = min(following.first, self.time)
            following.count += count
        elif index and self.time - self.groups[index - 1].first <= limits.window / _ENTRIES:
            self.groups[index - 1].last = self.time
            self.groups[index - 1].count += count
        else:
            self.groups.insert(index, SlotGroup(self.time, self.time, count))

    def _room(self, limits: RequestLimits) -> float:
        if limits.requests is None:
            return 1.0
        used = sum(group.count for group in self.groups if group.last > self.time - limits.window)
        return max(0.0, 1 - used / limits.requests)

    # --- permits ----------------------------------------------------------------------------------------

    def _permits(self, limits: RequestLimits, question: SlotQuestion, pod: PodShare) -> int:
        most = limits.concurrent or 0
        had, waited = pod.permits, pod.wanted > 0
        pod.wanted = question.in_use + question.waiting
        others = sum(
            other.permits
            for other in self.pods.values()
            if other is not pod and other.lease_until > self.time
        )
        share = self._fair_share(most, pod)
        granted = max(0, min(pod.wanted, share, most - others))
        # What is under way counts until it has ended; a pod that has more than its share begins with nothing new.
        counted = max(question.in_use, granted)
        if bool(counted) != bool(had) or not (had or waited) or (granted and self._turn_is_over(pod)):
            pod.turn = self.time
        pod.permits = counted
        pod.lease_until = self.time + LEASE_SECONDS if counted else 0.0
        return granted

    def _turn_is_over(self, pod: PodShare) -> bool:
        return pod.permits > 0 and self.time - pod.turn > _TURN_SECONDS

    def _fair_share(self, most: int, pod: PodShare) -> int:
        """How many permits are the pod's, when all get as many as they want or else equally many."""
        asking = [other for other in self.pods.values() if other.wanted and self._counts(other)]
        order = sorted(asking, key=self._precedence)
        wanted = {id(other): other.wanted for other in order}
        shares = dict.fromkeys(wanted, 0)
        left = most
        while left > 0 and wanted:
            # All that still want some get equally many; what is left over goes to the first ones.
            each = max(1, left // len(wanted))
            for key in list(wanted)[:left]:
                more = min(wanted[key], each)
                shares[key] += more
                wanted[key] -= more
                left -= more
                if wanted[key] == 0:
                    del wanted[key]
        return shares.get(id(pod), 0)

    def _counts(self, pod: PodShare) -> bool:
        return self._is_asking(pod) or (pod.permits > 0 and pod.lease_until > self.time)

    def _precedence(self, pod: PodShare) -> tuple[int, float]:
        if pod.permits and not self._turn_is_over(pod):
            return 0, pod.turn
        return (2 if pod.permits else 1), pod.turn

    def _again(
        self, limits: RequestLimits, question: SlotQuestion, pod: PodShare, permits: int | None, slots: int
    ) -> float | None:
        waits: list[float] = []
        if permits is not None and permits < question.in_use + question.waiting:
            waits.append(_PERMIT_AGAIN)
        if limits.requests is not None and slots < question.slots:
            due = pod.slot_until if slots else max(self.next_slot, pod.slot_until) - AHEAD_SECONDS
            waits.append((due - self.time) / (2 if slots else 1))
        if waits and self.paused_until > self.time:
            return max(_SOONEST, min(self.paused_until - self.time, _PAUSED_AGAIN))
        return min(max(min(waits), _SOONEST), _LATEST) if waits else None


def _last(group: SlotGroup) -> float:
    return group.last
