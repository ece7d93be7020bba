"""How many messages a pod takes of each of its consumers.

Each priority has a consumer. While a pod is full it takes a few events of each ahead, so that the most urgent one is at
hand whenever a run ends. More would wait here while other pods have room.
"""

from collections import Counter
from enum import Enum, auto

from tieline_protocol.event_streams import LANES

_AHEAD = 10
"""About as many as begin while the engine delivers the next ones."""


class Due(Enum):
    """The consumer of what has waited for its time."""

    DUE = auto()


Lane = int | Due
"""A priority, or what is due."""
ALL_LANES: tuple[Lane, ...] = (Due.DUE, *LANES)


def room(*, capacity: int, in_flight: int, waiting: int) -> int:
    """How many messages more a pod takes of a lane.

    ``in_flight``: those that it has of all lanes. ``waiting``: those of this lane that do not run yet.

    >>> room(capacity=100, in_flight=60, waiting=0)
    40
    >>> room(capacity=100, in_flight=100, waiting=3)
    7
    """
    ahead = min(capacity, _AHEAD)
    # What is being settled, or waits for its batch, has no slot and is in flight: it must not become more and more.
    most = capacity + ahead * len(ALL_LANES)
    return max(capacity - in_flight, min(ahead - waiting, most - in_flight), 0)


class InFlightMessages:
    """Counts what a pod has taken and not settled."""

    def __init__(self, capacity: int = 0) -> None:
        """``capacity`` is how many may run at once."""
        self.capacity = capacity
        self.count = 0
        self._waiting: Counter[Lane] = Counter()

    def add(self, lane: Lane) -> None:
        """A message has come. It waits."""
        self.count += 1
        self._waiting[lane] += 1

    def runs(self, lane: Lane, value: bool) -> None:
        """What waited runs now, or (False) what ran waits."""
        self._waiting[lane] += -1 if value else 1

    def remove(self, lane: Lane, *, has_run: bool) -> None:
        """It is settled."""
        self.count -= 1
        if not has_run:
            self._waiting[lane] -= 1

    def room(self, lane: Lane) -> int:
        """How many more may come."""
        return room(capacity=self.capacity, in_flight=self.count, waiting=self._waiting[lane])
