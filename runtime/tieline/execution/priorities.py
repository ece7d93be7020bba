"""In which order work of several priorities goes on. Pure.

Higher priorities go first. But work that waits is not passed over for ever: after ``MAX_PASSED`` starts of higher
priorities, one of a lower one goes. Starts are counted, and not seconds: so a backlog of hours does not grow so old
that it holds up what is urgent.
"""

from collections.abc import Collection, Mapping

LOWEST, USUAL, HIGHEST = -1, 0, 1
MAX_PASSED = 10
"""Starts of higher priorities, after which one of a priority that waits goes first."""


def next_priority(waiting: Collection[int], passed: Mapping[int, int]) -> int:
    """Which of the priorities that wait goes next; ``passed`` has how many starts each was passed over by.

    >>> next_priority([-1, 0, 1], {})
    1
    >>> next_priority([-1, 0, 1], {0: 4, -1: MAX_PASSED})
    -1
    """
    starved = [one for one in waiting if passed.get(one, 0) >= MAX_PASSED]
    return max(starved, key=lambda one: (passed[one], one)) if starved else max(waiting)


class PriorityOrder:
    """Remembers how often each priority was passed over since it last had a start, or had nothing that waits."""

    def __init__(self) -> None:
        self._passed: dict[int, int] = {}

    def choose(self, waiting: Collection[int]) -> int:
        """The priority that starts now, of those that wait."""
        chosen = next_priority(waiting, self._passed)
        self._passed = {one: self._passed.get(one, 0) + 1 for one in waiting if one < chosen} | {
            one: self._passed[one] for one in waiting if one > chosen and one in self._passed
        }
        return chosen
