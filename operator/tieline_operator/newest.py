"""What happened last, of as many as are worth remembering."""

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_MOST = 4096


class Newest(Generic[K]):
    """The keys that were added last, the newest first.

    >>> newest = Newest[str](most=2)
    >>> for key in ("ann", "ben", "ann", "cat"):
    ...     newest.add(key)
    >>> list(newest)
    ['cat', 'ann']
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._keys: dict[K, None] = {}

    def __iter__(self) -> Iterator[K]:
        return reversed(self._keys)

    def add(self, key: K) -> None:
        """``key`` is the newest now; what is older than as many others is forgotten."""
        self._keys.pop(key, None)
        self._keys[key] = None
        if len(self._keys) > self._most:
            del self._keys[next(iter(self._keys))]

    def clear(self) -> None:
        """Forgets all."""
        self._keys.clear()
