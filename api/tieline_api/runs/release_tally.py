"""How many runs the versions of an environment's releases did, and how many of them failed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class RunCount:
    """Runs, and failed ones among them."""

    all: int = 0
    failed: int = 0

    def __add__(self, other: "RunCount") -> "RunCount":
        return RunCount(self.all + other.all, self.failed + other.failed)


@dataclass(frozen=True)
class ReleaseTally:
    """Runs by version, and by the release after whose start they were queued."""

    counts: Mapping[tuple[str, int], RunCount] = field(default_factory=dict)

    def of(self, at: int, versions: Sequence[str]) -> RunCount:
        """The runs of a release: of its version, until that is deployed again. ``versions`` are those of all releases,
        oldest first, and ``at`` is the release's place among them.

        >>> tally = ReleaseTally({("a", 0): RunCount(3), ("a", 1): RunCount(1), ("a", 2): RunCount(5, 2)})
        >>> tally.of(0, ["a", "b", "a"]), tally.of(2, ["a", "b", "a"])
        (RunCount(all=4, failed=0), RunCount(all=5, failed=2))
        """
        version, total = versions[at], RunCount()
        for place in range(at, len(versions)):
            if place > at and versions[place] == version:
                break
            total += self.counts.get((version, place), RunCount())
        return total
