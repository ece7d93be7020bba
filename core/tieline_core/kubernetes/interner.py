"""Objects that are much alike, kept in less memory: what is equal in them is kept once.

A cache of thousands of Deployments that one operator made holds the same probes, variables, security contexts and words
in each of them. Objects of a cache are shared and never changed, so their parts can be shared as well.
"""

import sys
from typing import Any

# What many objects have in common comes again with each of them: it stays known however many others come.
_MOST = 256


class Interner:
    """Replaces parts of objects, in place, by equal ones that are there already.

    Parts are looked at from the inside to the outside: of two that are equal, what is in them is the same by then, so
    that the identities of what is in a part tell whether it is known. What a part that is remembered holds stays alive
    with it: its identities are nobody else's.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], Any] = {}
        self._former: dict[tuple[object, ...], Any] = {}

    def __call__(self, obj: dict[str, Any]) -> dict[str, Any]:
        """The object, which takes less memory now."""
        for name, value in obj.items():
            obj[name] = self._shared(value)
        return obj

    def _shared(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return sys.intern(value)
        if kind is dict:
            return self._one_of((dict, *value, *map(id, self(value).values())), value)
        if kind is list:
            value[:] = map(self._shared, value)
            return self._one_of((list, *map(id, value)), value)
        if kind is int:
            return self._one_of((int, value), value)
        return value

    def _one_of(self, key: tuple[object, ...], part: Any) -> Any:
        if key in self._parts:
            return self._parts[key]
        if len(self._parts) >= _MOST:
            self._former, self._parts = self._parts, {}
        found = self._parts[key] = self._former.get(key, part)
        return found
