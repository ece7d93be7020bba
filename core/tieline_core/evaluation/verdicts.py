"""Verdicts about variables, and the cache of those that were asked for last."""

from collections import OrderedDict
from dataclasses import dataclass

from tieline_protocol.variables import VariableError

_REMEMBERED = 20_000
_REMEMBERED_BYTES = 8 * 1024 * 1024


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
    """Verdicts about values, the most recently used ones, within a number and a size."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[bytes, bytes], tuple[Verdict, float | None, int]] = OrderedDict()
        self._bytes = 0

    def get(self, key: tuple[bytes, bytes], now: float) -> Verdict | None:
        found = self._kept.get(key)
        if found is None:
            return None
        verdict, until, size = found
        if until is not None and now >= until:
            del self._kept[key]
            self._bytes -= size
            return None
        self._kept.move_to_end(key)
        return verdict

    def put(self, key: tuple[bytes, bytes], verdict: Verdict, until: float | None) -> None:
        size = sum(len(error.path) + len(error.message) + 200 for error in verdict.errors)
        if (before := self._kept.pop(key, None)) is not None:
            self._bytes -= before[2]
        self._kept[key] = verdict, until, size
        self._bytes += size
        while len(self._kept) > _REMEMBERED or self._bytes > _REMEMBERED_BYTES:
            _, gone = self._kept.popitem(last=False)
            self._bytes -= gone[2]
