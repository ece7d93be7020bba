"""The slots that were handed out in the latest period: no more than the limit of them are in any. Pure."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tieline_protocol.request_limits import RequestLimits

_ENTRIES = 100
_SAME = 1e-5


@dataclass
class SlotGroup:
    """Slots that were handed out, from ``first`` to ``last``."""

    first: float
    last: float
    count: int


Groups = list[SlotGroup]
"""By their last times."""


def add(groups: Groups, limits: RequestLimits, at: float, count: int) -> None:
    """Count slots at a time. They join a group that is near and then only counts for longer, so that groups are few."""
    index = bisect_left(groups, at, key=_last)
    before = groups[index - 1] if index else None
    if index < len(groups) and groups[index].first <= at:
        groups[index].count += count
    elif before is not None and at <= before.first + limits.window / _ENTRIES:
        before.last = at
        before.count += count
    else:
        groups.insert(index, SlotGroup(at, at, count))


def add_spent(groups: Groups, limits: RequestLimits, now: float, count: int) -> None:
    """Count what was sent by now. It joins the next group, which only counts for longer, if that is near: so the
    groups of a period are few, however often pods tell of some."""
    index = bisect_left(groups, now, key=_last)
    following = groups[index] if index < len(groups) else None
    if following is not None and following.last - now <= limits.window / _ENTRIES:
        following.first = min(following.first, now)
        following.count += count
    else:
        add(groups, limits, now, count)


def take_back(groups: Groups, times: Iterable[float]) -> None:
    """Slots at these times were not used."""
    for at in times:
        for group in groups:
            if group.first - _SAME <= at <= group.last + _SAME:
                group.count -= 1
                break
    groups[:] = [group for group in groups if group.count > 0]


def forget(groups: Groups, limits: RequestLimits, now: float) -> None:
    """Drop what counts no more."""
    groups[:] = [group for group in groups if group.last > now - limits.window]


def next_room(groups: Groups, limits: RequestLimits, at: float) -> tuple[float, int]:
    """The first time from ``at`` on when the period has room, and for how many."""
    most = limits.requests or 0
    counted = [group for group in groups if group.last > at - limits.window]
    used = sum(group.count for group in counted)
    for group in counted:
        if used < most:
            break
        used -= group.count
        at = group.last + limits.window
    return at, most - used


def room(groups: Groups, limits: RequestLimits, now: float) -> float:
    """The part of the period's requests that nobody has used."""
    if limits.requests is None:
        return 1.0
    used = sum(group.count for group in groups if group.last > now - limits.window)
    return max(0.0, 1 - used / limits.requests)


def merge(groups: Groups, others: Iterable[SlotGroup]) -> None:
    """Count what ``others``, another memory of the same slots, know to be handed out."""
    known = {group.first: group for group in groups}
    for group in others:
        if (same := known.get(group.first)) is not None:
            same.last, same.count = max(same.last, group.last), max(same.count, group.count)
        else:
            insort(groups, SlotGroup(**asdict(group)), key=_last)


def _last(group: SlotGroup) -> float:
    return group.last
