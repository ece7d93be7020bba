"""How many slots a pod can use where the number of its requests under way is limited too."""

from tieline_protocol.request_limits import RequestLimits, SlotQuestion

_LEAST_SECONDS = 0.001
_CAREFUL = 0.7
"""The part of the permits expected to come free in time that is counted on: how long requests take varies."""


def usable_slots(limits: RequestLimits, question: SlotQuestion, permits: int) -> int:
    """How many slots in a row find a permit before they are too late: one that is free, or one of a request that has
    ended by then, as requests usually do."""
    free = max(0, permits - question.in_use)
    if permits == 0 or question.usual_seconds is None:
        return free
    seconds = max(question.usual_seconds, _LEAST_SECONDS)
    # Of n slots, the last one may be used n * spacing + tolerance after the first one is due. Until then, permits come
    # free at a rate of permits / seconds: n = free + (n * spacing + tolerance) * permits / seconds.
    kept_busy = permits * limits.spacing / seconds
    if kept_busy >= _CAREFUL:
        return question.slots
    # The free ones are for slots that the pod has.
    count = ((0 if question.held else free) + permits * limits.tolerance / seconds) / (1 - kept_busy)
    usable = max(0 if question.held else free, int(count * _CAREFUL))
    return usable if question.held <= usable else 0
