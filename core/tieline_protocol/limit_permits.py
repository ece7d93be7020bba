"""How many requests each pod may have under way: permits, and turns where pods want more of them than there are. Pure.

Permits are leases: those of a killed pod come back by themselves. A pod that has had its permits for two seconds gives
way to one that has none.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tieline_protocol.request_limits import LEASE_SECONDS, SlotQuestion

ASKING_SECONDS = 1.5
"""A pod that has asked within this time still wants what it asked for."""
TURN_SECONDS = 2.0
"""How long a pod keeps its permits while others have none."""


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

    def is_asking(self, now: float) -> bool:
        """Whether it still wants what it asked for."""
        return now - self.asked <= ASKING_SECONDS

    def is_known(self, now: float) -> bool:
        """Whether it has something or wants it."""
        return self.lease_until > now or self.is_asking(now)

    def turn_is_over(self, now: float) -> bool:
        """Whether it gives way to a pod without permits."""
        return self.permits > 0 and now - self.turn > TURN_SECONDS

    def shift(self, seconds: float) -> None:
        """Go over to a clock that is ahead by ``seconds``."""
        self.asked += seconds
        self.slot_until += seconds
        self.lease_until += seconds
        self.turn += seconds


def grant(pods: Mapping[str, PodShare], pod: PodShare, question: SlotQuestion, most: int, now: float) -> int:
    """How many of ``most`` permits the pod has from now on, those in use included."""
    had, waited = pod.permits, pod.wanted > 0
    pod.wanted = question.in_use + question.waiting
    others = sum(other.permits for other in pods.values() if other is not pod and other.lease_until > now)
    granted = max(0, min(pod.wanted, _fair_share(pods, pod, most, now), most - others))
    # What is under way counts until it has ended, and what the pod may begin until it has heard that it may not.
    counted = max(question.in_use, granted, question.permits)
    if bool(counted) != bool(had) or not (had or waited) or (granted and pod.turn_is_over(now)):
        pod.turn = now
    pod.permits = counted
    pod.lease_until = now + LEASE_SECONDS if counted else 0.0
    return granted


def turn_end(pods: Mapping[str, PodShare], pod: PodShare, most: int, now: float) -> float:
    """When the pod gives its permits to one that has none; infinity where no pod waits for that."""
    wanting = sum(1 for other in pods.values() if other.wanted and _counts(other, now))
    return pod.turn + TURN_SECONDS if wanting > most else math.inf


def next_turn(pods: Mapping[str, PodShare], now: float) -> float:
    """When the first pod that has permits gives way."""
    return min((pod.turn + TURN_SECONDS for pod in pods.values() if pod.permits), default=now)


def _fair_share(pods: Mapping[str, PodShare], pod: PodShare, most: int, now: float) -> int:
    """How many permits are the pod's, when all get as many as they want or else equally many."""
    wanted = {id(other): other.wanted for other in _in_turn(pods, now)}
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


def _in_turn(pods: Mapping[str, PodShare], now: float) -> Sequence[PodShare]:
    """The pods that want permits: those whose turn it is, those that wait, and those whose turn is over."""

    def precedence(pod: PodShare) -> tuple[int, float]:
        if pod.permits and not pod.turn_is_over(now):
            return 0, pod.turn
        return (2 if pod.permits else 1), pod.turn

    return sorted((pod for pod in pods.values() if pod.wanted and _counts(pod, now)), key=precedence)


def _counts(pod: PodShare, now: float) -> bool:
    return pod.is_asking(now) or (pod.permits > 0 and pod.lease_until > now)
