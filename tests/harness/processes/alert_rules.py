"""Which alerts fire for what Prometheus has scraped, by Prometheus' own engine, built from its Go module."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.progress import Progress

ROOT = Path(__file__).parents[3]
RULES = ROOT / "deploy" / "monitoring" / "rules.yaml"
SCRAPE_SECONDS = 60
_UNITS = {"s": 1, "m": 60, "h": 3600}


def alert_program(progress: Progress) -> Path:
    """The folder with the program, built when this machine has not yet."""
    return ensure_built(
        ROOT / "tests" / "harness" / "go" / "rules", progress, name="rules", what="Prometheus' engine"
    )


@dataclass
class Scrapes:
    """What Prometheus has of all targets, a sample of each series a minute."""

    series: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = field(default_factory=dict)

    def add(self, name: str, labels: Mapping[str, str], at: float, value: float) -> None:
        """A sample."""
        key = tuple(sorted({"__name__": name, **labels}.items()))
        self.series.setdefault(key, []).append((at, value))

    def scrape(self, text: str, target: Mapping[str, str], times: Sequence[float]) -> None:
        """The samples of a target's page of metrics at some times, with the labels of the target."""
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                for at in times:
                    self.add(sample.name, {**sample.labels, **target}, at, sample.value)

    def firing(self, at: float) -> set[str]:
        """The names of the alerts that fire."""
        groups = yaml.safe_load(RULES.read_text())["groups"]
        alerts = [
            {"Name": rule["alert"], "Expr": rule["expr"], "For": _seconds(rule["for"])}
            for group in groups
            for rule in group["rules"]
        ]
        series = [{"Labels": dict(key), "Samples": samples} for key, samples in self.series.items()]
        content = {"Series": series, "Alerts": alerts, "At": at, "Step": SCRAPE_SECONDS}
        done = subprocess.run(
            [alert_program(Progress()) / "rules"],
            input=json.dumps(content),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return {one["alert"] for one in json.loads(done.stdout)}


def _seconds(text: str) -> int:
    found = re.fullmatch(r"(\d+)([smh])", text)
    assert found is not None
    return int(found[1]) * _UNITS[found[2]]
