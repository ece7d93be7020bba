"""Objects that an event has told of before the cache knows them: their own change has to bring them back."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class PendingEvents(Generic[K]):
    """What is waited for, by its key.

    A watch may be minutes behind another one of the same resource: each has its own pauses after failures.

    >>> late = PendingEvents[str]()
    >>> late.expect("ann")
    >>> late.arrived("ben"), late.arrived("ann"), late.arrived("ann")
    (False, True, False)
    """

    def __init__(self) -> None:
        self._keys: set[K] = set()

    def expect(self, key: K) -> None:
        """The cache is behind: the object's next change is news."""
        self._keys.add(key)

    def arrived(self, key: K) -> bool:
        """Whether this change is one that was waited for; it is not any more."""
        if key not in self._keys:
            return False
        self._keys.discard(key)
        return True
