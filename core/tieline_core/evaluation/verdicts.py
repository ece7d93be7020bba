"""Verdicts about variables, and the cache of those that were asked for last."""

from contextlib import suppress
from dataclasses import dataclass

from cachetools import LRUCache

from tieline_protocol.variables import VariableError

_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Verdict:
    """What came out of checking variables against a schema."""

    problem: str | None = None
    """Why the schema cannot be used, or None."""
    errors: tuple[VariableError, ...] = ()
    """How the variables break it."""
    costly: bool = False
    """Whether checking takes too much: the schema when there is a problem, else these variables."""

    @property
    def fit(self) -> bool:
        """Whether the variables follow the schema."""
        return self.problem is None and not self.errors


FIT = Verdict()


class VerdictCache:
    """Verdicts about values, the most recently used ones, within a size."""

    def __init__(self) -> None:
        self._kept: LRUCache[tuple[bytes, bytes], tuple[Verdict, float | None]] = LRUCache(_BYTES, _size)

    def get(self, key: tuple[bytes, bytes], now: float) -> Verdict | None:
        found = self._kept.get(key)
        if found is None:
            return None
        verdict, until = found
        if until is not None and now >= until:
            del self._kept[key]
            return None
        return verdict

    def put(self, key: tuple[bytes, bytes], verdict: Verdict, until: float | None) -> None:
        with suppress(ValueError):  # larger than the cache
            self._kept[key] = verdict, until


def _size(entry: tuple[Verdict, float | None]) -> int:
    return 400 + sum(len(error.path) + len(error.message) + 200 for error in entry[0].errors)
