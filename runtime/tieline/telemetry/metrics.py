"""What a pod has run, in the text form of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats)."""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Literal

Kind = Literal["webhook", "event", "schedule", "background"]
Outcome = Literal["succeeded", "failed", "timed_out", "refused", "cancelled", "interrupted", "waiting"]

Gauges = Mapping[str, tuple[str, Callable[[], float]]]
"""Names with a sentence on what they are, and what reads them."""


BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
"""Upper limits of the histogram of durations, in seconds: from a quick webhook to the longest schedule."""
MAX_TASK_SERIES = 200
"""Tasks that have series of their own, so that names made up at run time cannot grow the metrics without end."""
OTHER = "other"
"""Stands for the tasks beyond that."""


class _Durations:
    """How long the runs of one task took."""

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0
        self.buckets = [0] * len(BUCKETS)
        """Runs by the smallest bucket that they fit in."""

    def add(self, seconds: float) -> None:
        self.total += seconds
        self.count += 1
        bucket = bisect_left(BUCKETS, seconds)
        if bucket < len(BUCKETS):
            self.buckets[bucket] += 1


class RunMetrics:
    """Counts runs by kind, task and outcome.

    Every series has the labels ``project`` and ``environment``. A pod reports at most MAX_TASK_SERIES tasks, each with
    one series an outcome, one in all, and ``len(BUCKETS) + 3`` of its durations.
    """

    def __init__(self, *, project: str = "", environment: str = "") -> None:
        self.runs: Counter[tuple[Kind, str, Outcome]] = Counter()
        self._durations: defaultdict[tuple[Kind, str], _Durations] = defaultdict(_Durations)
        self._environment_labels = environment_labels(project, environment)

    def add(self, kind: Kind, task: str, outcome: Outcome, seconds: float) -> None:
        """One run more."""
        if (kind, task) not in self._durations and len(self._durations) >= MAX_TASK_SERIES:
            task = OTHER
        self.runs[kind, task, outcome] += 1
        self._durations[kind, task].add(seconds)

    def text(self, gauges: Gauges) -> str:
        """All of it, with ``gauges`` as they are now."""
        return "\n".join([*self._lines(gauges), ""])

    def _lines(self, gauges: Gauges) -> Iterator[str]:
        yield from _head("tieline_runs_total", "counter", "Runs that have ended.")
        for (kind, task, outcome), count in sorted(self.runs.items()):
            labels = _labels(kind=kind, task=task, outcome=outcome)
            yield f"tieline_runs_total{{{self._environment_labels},{labels}}} {count}"
        durations = sorted(self._durations.items())
        yield from _head("tieline_run_seconds_total", "counter", "Seconds that runs took.")
        for (kind, task), taken in durations:
            labels = _labels(kind=kind, task=task)
            yield f"tieline_run_seconds_total{{{self._environment_labels},{labels}}} {taken.total:.6f}"
        name = "tieline_run_duration_seconds"
        yield from _head(name, "histogram", "Durations of runs.")
        for (kind, task), taken in durations:
            labels = f"{self._environment_labels},{_labels(kind=kind, task=task)}"
            for limit, count in zip(BUCKETS, accumulate(taken.buckets), strict=True):
                yield f'{name}_bucket{{{labels},le="{limit:g}"}} {count}'
            yield f'{name}_bucket{{{labels},le="+Inf"}} {taken.count}'
            yield f"{name}_sum{{{labels}}} {taken.total:.6f}"
            yield f"{name}_count{{{labels}}} {taken.count}"
        for name, (meaning, read) in gauges.items():
            yield from _head(name, "counter" if name.endswith("_total") else "gauge", meaning)
            yield f"{name}{{{self._environment_labels}}} {read():g}"


def environment_labels(project: str, environment: str) -> str:
    """The labels that every series has, as text."""
    return _labels(project=project, environment=environment)


def _head(name: str, sort: str, meaning: str) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {sort}"


def _labels(**values: str) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
