"""A dictionary of limited size. cachetools has it too; project pods do not carry that."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedDict(OrderedDict[K, V]):
    """Beyond ``size`` keys, the one that was written longest ago is dropped. Reading does not count as writing.

    >>> known = BoundedDict(2)
    >>> known["a"], known["b"], known["a"], known["c"] = 1, 2, 3, 4
    >>> known
    BoundedDict({'a': 3, 'c': 4})
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._size:
            self.popitem(last=False)

    def __repr__(self) -> str:
        return f"BoundedDict({dict(self)!r})"
