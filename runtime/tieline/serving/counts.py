"""What a pod has run, in the text form of Prometheus (https://prometheus.io/docs/instrumenting/exposition_formats)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Literal

Kind = Literal["webhook", "schedule", "background"]
Outcome = Literal["succeeded", "failed", "timed_out", "refused", "interrupted"]

Gauges = Mapping[str, tuple[str, Callable[[], float]]]
"""Names with a sentence on what they are, and what reads them."""


class Counts:
    """Counts runs by kind, task and outcome."""

    def __init__(self) -> None:
        self.runs: Counter[tuple[Kind, str, Outcome]] = Counter()
        self.seconds: defaultdict[tuple[Kind, str], float] = defaultdict(float)

    def add(self, kind: Kind, task: str, outcome: Outcome, seconds: float) -> None:
        """One run more."""
        self.runs[kind, task, outcome] += 1
        self.seconds[kind, task] += seconds

    def text(self, gauges: Gauges) -> str:
        """All of it, with ``gauges`` as they are now."""
        lines = ["# HELP tieline_runs_total Runs that have ended.", "# TYPE tieline_runs_total counter"]
        lines += [
            f'tieline_runs_total{{kind="{kind}",task="{task}",outcome="{outcome}"}} {count}'
            for (kind, task, outcome), count in sorted(self.runs.items())
        ]
        lines += [
            "# HELP tieline_run_seconds_total Seconds that runs took.",
            "# TYPE tieline_run_seconds_total counter",
        ]
        lines += [
            f'tieline_run_seconds_total{{kind="{kind}",task="{task}"}} {seconds:.6f}'
            for (kind, task), seconds in sorted(self.seconds.items())
        ]
        for name, (meaning, read) in gauges.items():
            sort = "counter" if name.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {meaning}", f"# TYPE {name} {sort}", f"{name} {read():g}"]
        return "\n".join([*lines, ""])
