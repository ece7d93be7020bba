"""What a pod tells of requests that wait for the limits of their connections, by connection template."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import accumulate

BUCKETS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 60.0, 300.0)
"""Upper limits of the histogram, in seconds."""
MAX_TEMPLATES = 100
OTHER = "other"
"""Stands for the templates beyond that."""


class LimitMetrics:
    """Counts waiting. Each template has ``len(BUCKETS) + 5`` series."""

    def __init__(self, *, labels: str = "") -> None:
        """``labels`` are those of every series, as text."""
        self._labels = f"{labels}," if labels else ""
        self._templates: set[str] = set()
        self._buckets: defaultdict[str, list[int]] = defaultdict(lambda: [0] * (len(BUCKETS) + 1))
        self._seconds: Counter[str] = Counter()
        self._gave_up: Counter[str] = Counter()
        self._pauses: Counter[str] = Counter()
        self.alone = 0
        """How often no coordinator answered any more."""

    def went(self, template: str, seconds: float) -> None:
        """A request was let through after so long."""
        name = self._name(template)
        self._buckets[name][bisect_left(BUCKETS, seconds)] += 1
        self._seconds[name] += seconds  # type: ignore[assignment]  # a Counter of floats

    def gave_up(self, template: str, seconds: float) -> None:
        """A run's time was over while its request waited."""
        self.went(template, seconds)
        self._gave_up[self._name(template)] += 1

    def paused(self, template: str) -> None:
        """The system asked for a pause."""
        self._pauses[self._name(template)] += 1

    def text(self) -> str:
        """All of it, in the text form of Prometheus; empty where no connection has limits."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        if not self._templates:
            return
        name = "tieline_limit_wait_seconds"
        yield f"# HELP {name} How long requests waited for the limits of their connections."
        yield f"# TYPE {name} histogram"
        for template, buckets in sorted(self._buckets.items()):
            labels = self._of(template)
            *counts, whole = accumulate(buckets)
            for limit, count in zip(BUCKETS, counts, strict=True):
                yield f'{name}_bucket{{{labels},le="{limit:g}"}} {count}'
            yield f'{name}_bucket{{{labels},le="+Inf"}} {whole}'
            yield f"{name}_sum{{{labels}}} {self._seconds[template]:.6f}"
            yield f"{name}_count{{{labels}}} {whole}"
        yield from self._counter(
            "tieline_limit_reached_total", "Requests that were not sent in their run's time.", self._gave_up
        )
        yield from self._counter(
            "tieline_limit_pauses_total", "Pauses that systems asked for with 429 or 503.", self._pauses
        )

    def _counter(self, name: str, meaning: str, counts: Counter[str]) -> Iterator[str]:
        yield f"# HELP {name} {meaning}"
        yield f"# TYPE {name} counter"
        for template in sorted(self._templates):
            yield f"{name}{{{self._of(template)}}} {counts[template]}"

    def _name(self, template: str) -> str:
        if template not in self._templates and len(self._templates) >= MAX_TEMPLATES:
            template = OTHER
        self._templates.add(template)
        return template

    def _of(self, template: str) -> str:
        escaped = template.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        return f'{self._labels}template="{escaped}"'
