"""Which slots a pod can use where the number of its requests under way is limited too. Pure."""

from dataclasses import dataclass

from tieline_protocol.request_limits import RequestLimits, SlotQuestion

_LEAST_SECONDS = 0.001
_SCARCE = 0.6
"""The part of the slots that all permits together serve. Permits of one pod are not free for the slots of another."""
_CAREFUL = 0.7
"""The part of the permits expected to come free in time that is counted on: how long requests take varies."""
_EARLY = 0.5
"""The part of the tolerance by which a slot is earlier than its permit is expected: requests end sooner and later."""


@dataclass(frozen=True)
class UsableSlots:
    """Slots that find a permit in time."""

    now: int
    """That can be used at once, or whenever they come where ``every`` is 0."""
    first: float = 0.0
    """Seconds until the next one after those."""
    every: float = 0.0
    """Seconds between the others, as permits come free; 0: there are none."""


def permits_are_scarce(limits: RequestLimits, usual_seconds: float | None) -> bool:
    """Whether permits hold requests back, and not slots: all of them serve hardly more than the period allows."""
    if limits.concurrent is None or limits.requests is None or usual_seconds is None:
        return False
    return usual_seconds / limits.concurrent >= limits.spacing * _SCARCE


def usable_slots(limits: RequestLimits, question: SlotQuestion, permits: int) -> UsableSlots:
    """What a pod with so many permits can use.

    Where the permits of all pods together serve more requests than the period allows, permits are free whenever a slot
    comes. Otherwise each slot has to come when a permit does.
    """
    free = max(0, permits - question.in_use)
    if permits == 0 or question.usual_seconds is None:
        return UsableSlots(free)
    every = max(question.usual_seconds, _LEAST_SECONDS) / permits
    if not permits_are_scarce(limits, question.usual_seconds):
        return UsableSlots(_in_a_row(limits, question, free, every))
    first = 0.0 if free else question.free_seconds
    return UsableSlots(max(0, free - question.held), max(0.0, first - limits.tolerance * _EARLY), every)


def _in_a_row(limits: RequestLimits, question: SlotQuestion, free: int, every: float) -> int:
    """How many slots in a row find a permit before they are too late.

    Of n slots, the last one may be used n * spacing + tolerance after the first one is due. Until then, a permit comes
    free each ``every`` seconds: n = free + (n * spacing + tolerance) / every.
    """
    kept_busy = limits.spacing / every
    if kept_busy >= _CAREFUL:
        return question.slots
    # The free ones are for slots that the pod has.
    free = 0 if question.held else free
    usable = max(free, int((free + limits.tolerance / every) / (1 - kept_busy) * _CAREFUL))
    return usable if question.held <= usable else 0
