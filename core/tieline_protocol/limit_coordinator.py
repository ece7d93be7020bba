"""Who may send when, so that the limits of a system hold over all pods. Pure: it is given the time.

Slots have a distance from each other, and no more than the limit of them are in a period (``limit_window``). They are
handed out for the next quarter of a second alone, so that a pod that is killed loses few, and by turns to the pods that
want some. ``limit_permits`` says who may have requests under way.
"""

import json
import math
import secrets
from dataclasses import asdict, dataclass, field
from typing import Self

from tieline_protocol import limit_window
from tieline_protocol.limit_permits import PodShare, grant, next_turn, turn_end
from tieline_protocol.limit_window import SlotGroup
from tieline_protocol.request_limits import (
    ANSWER_SECONDS,
    LEASE_SECONDS,
    LONGEST_RETRY_SECONDS,
    MAX_PAUSE_SECONDS,
    RequestLimits,
    SlotAnswer,
    SlotQuestion,
)
from tieline_protocol.usable_slots import UsableSlots, permits_are_scarce, usable_slots

AHEAD_SECONDS = 0.25
"""How far ahead slots are handed out."""
FAR_SECONDS = 5.0
"""How far ahead a pod without any gets one: where slots are rarer than questions, pods get them in turn."""
MAX_PODS = 1000
MAX_PODS_OF_ENVIRONMENT = 200
"""Pods of one environment have names with the same text before the last ``/``."""
_GROUP_SECONDS = 0.005
_SOONEST, _LATEST = 0.02, 0.4
_PERMIT_AGAIN = 0.1
_PAUSED_AGAIN = 2.0
_SHARED_SECONDS = LONGEST_RETRY_SECONDS + ANSWER_SECONDS + 0.5
_MAX_CLOCK_DIFFERENCE = 5.0

Slots = list[tuple[float, int]]
"""Times, and how many requests may be sent then."""


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
        limit_window.merge(self.groups, other.groups)
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
        limit_window.take_back(self.groups, question.returned)
        if question.spent:
            limit_window.add_spent(self.groups, limits, self.time, question.spent)
        if question.pause_seconds:
            self._pause(question.pause_seconds)
        if question.was_alone:
            self.shared_until = max(self.shared_until, self.time + _SHARED_SECONDS)
        if self.shared_until > self.time:
            return self._shared(limits, question, pod)
        permits = self._permits(limits, question, pod)
        slots = self._slots(limits, question, pod, permits) if limits.requests is not None else []
        return SlotAnswer(
            time=self.time,
            slots=tuple(slots),
            permits=permits,
            paused_seconds=max(0.0, self.paused_until - self.time),
            again_seconds=self._again(limits, question, pod, permits, sum(count for _, count in slots)),
            room=limit_window.room(self.groups, limits, self.time),
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
            room=limit_window.room(self.groups, limits, self.time),
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
            pod.shift(seconds)

    def _pod(self, question: SlotQuestion) -> PodShare:
        for name, pod in list(self.pods.items()):
            if not pod.is_known(self.time):
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

    def _pause(self, seconds: float) -> None:
        self.paused_until = max(self.paused_until, self.time + min(seconds, MAX_PAUSE_SECONDS))
        for pod in self.pods.values():
            # Pods give up their slots when they hear of it.
            pod.slot_until = 0.0

    # --- slots and permits ------------------------------------------------------------------------------

    def _permits(self, limits: RequestLimits, question: SlotQuestion, pod: PodShare) -> int | None:
        if limits.concurrent is None:
            return None
        return grant(self.pods, pod, question, limits.concurrent, self.time)

    def _slots(
        self, limits: RequestLimits, question: SlotQuestion, pod: PodShare, permits: int | None
    ) -> Slots:
        limit_window.forget(self.groups, limits, self.time)
        if permits is None:
            return self._spaced_slots(limits, pod, question.slots, until=math.inf)
        # Requests that follow from others need no permit.
        needing_none = max(0, question.slots - question.waiting)
        usable = usable_slots(limits, question, permits)
        until = turn_end(self.pods, pod, limits.concurrent or 0, self.time)
        if not usable.every:
            wanted = min(question.slots, usable.now + needing_none)
            return self._spaced_slots(limits, pod, wanted, until=until)
        return self._slots_for_permits(limits, question, pod, usable, until=until)

    def _spaced_slots(self, limits: RequestLimits, pod: PodShare, wanted: int, *, until: float) -> Slots:
        """The next slots of all, for a pod that can use them whenever they come."""
        pod.wants_slots = wanted > 0
        asking = sum(other.wants_slots and other.is_asking(self.time) for other in self.pods.values())
        share = math.ceil(AHEAD_SECONDS / limits.spacing / max(asking, 1))
        left = min(wanted, share)
        found: Slots = []
        at = max(self.next_slot, self.paused_until, self.time)
        while left > 0:
            at, room = limit_window.next_room(self.groups, limits, at)
            has_some = found or pod.slot_until > self.time
            if at > min(self.time + (AHEAD_SECONDS if has_some else FAR_SECONDS), until):
                break
            count = min(left, room, math.ceil(_GROUP_SECONDS / limits.spacing))
            self._hand_out(limits, pod, found, at, count)
            left -= count
            at += count * limits.spacing
            self.next_slot = at
        return found

    def _slots_for_permits(
        self,
        limits: RequestLimits,
        question: SlotQuestion,
        pod: PodShare,
        usable: UsableSlots,
        *,
        until: float,
    ) -> Slots:
        """Slots for the times at which a pod has a permit."""
        found: Slots = []
        left = question.slots
        begin = max(self.time, self.paused_until)
        until = min(self.time + AHEAD_SECONDS, until)
        if usable.now:
            at, room = limit_window.next_room(self.groups, limits, begin)
            count = min(usable.now, room, left)
            if at <= until and count:
                self._hand_out(limits, pod, found, at, count)
                left -= count
        following = pod.slot_until + usable.every if question.held or found else begin + usable.first
        at = max(begin, following)
        every = usable.every
        if spare := limit_window.room(self.groups, limits, self.time):
            # Requests end sooner and later than usual. What is not used is given back.
            every = max(every * (1 - spare), min(every, limits.tolerance))
        while left > 0:
            at, _ = limit_window.next_room(self.groups, limits, at)
            if at > until:
                break
            self._hand_out(limits, pod, found, at, 1)
            left -= 1
            at += every
        return found

    def _hand_out(self, limits: RequestLimits, pod: PodShare, found: Slots, at: float, count: int) -> None:
        found.append((at, count))
        limit_window.add(self.groups, limits, at, count)
        pod.slot_until = at

    def _again(
        self, limits: RequestLimits, question: SlotQuestion, pod: PodShare, permits: int | None, slots: int
    ) -> float | None:
        waits: list[float] = []
        if permits is not None and permits < question.in_use + question.waiting:
            turn = next_turn(self.pods, self.time) - self.time
            waits.append(min(max(turn, _SOONEST), _PERMIT_AGAIN) if turn > 0 else _PERMIT_AGAIN / 2)
        if limits.requests is not None and slots < question.slots and permits != 0:
            waits.append(self._slots_again(limits, question, pod, slots))
        if waits and self.paused_until > self.time:
            return max(_SOONEST, min(self.paused_until - self.time, _PAUSED_AGAIN))
        return min(max(min(waits), _SOONEST), _LATEST) if waits else None

    def _slots_again(self, limits: RequestLimits, question: SlotQuestion, pod: PodShare, slots: int) -> float:
        if slots or (question.held and pod.slot_until > self.time):
            return (pod.slot_until - self.time) / 2
        if permits_are_scarce(limits, question.usual_seconds) and question.free_seconds > AHEAD_SECONDS:
            return question.free_seconds - AHEAD_SECONDS / 2
        return max(self.next_slot, pod.slot_until) - AHEAD_SECONDS - self.time
