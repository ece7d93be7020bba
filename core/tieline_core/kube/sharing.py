"""Objects that are much alike, kept in less memory: what is equal in them is kept once.

A cache of thousands of Deployments that one operator made holds the same probes, security contexts and words in each
of them. Objects of a cache are shared and never changed, so their parts can be shared as well.
"""

import sys
from typing import Any

import orjson

# Parts that follow from settings and not from the object, wherever they stand.
_ALIKE = frozenset(
    (
        "egress",
        "ingress",
        "lifecycle",
        "livenessProbe",
        "policyTypes",
        "ports",
        "readinessProbe",
        "resources",
        "securityContext",
        "startupProbe",
        "strategy",
        "topologySpreadConstraints",
    )
)
_MOST = 1024


class Sharing:
    """Replaces parts of objects, in place, by equal ones that are there already."""

    def __init__(self) -> None:
        self._parts: dict[bytes, Any] = {}

    def __call__(self, obj: dict[str, Any]) -> dict[str, Any]:
        """The object, which takes less memory now."""
        for name, value in obj.items():
            obj[name] = self._shared(name, value)
        return obj

    def _shared(self, name: str, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return sys.intern(value)
        if kind is dict:
            return self._one_of(value) if name in _ALIKE else self(value)
        if kind is list:
            return self._one_of(value) if name in _ALIKE else [self._shared("", item) for item in value]
        return value

    def _one_of(self, part: Any) -> Any:
        if len(self._parts) >= _MOST:
            self._parts.clear()
        return self._parts.setdefault(orjson.dumps(part), part)
