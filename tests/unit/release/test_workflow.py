"""The release workflow publishes what ``make release`` writes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from deploy.release.chart import write_chart
from deploy.release.images import TARGETS, write_image
from deploy.release.main import PARTS
from tests.harness.cluster.kubectl import ROOT
from tests.unit.release.releases import BASE, SOURCE, layout

JOBS = yaml.safe_load((ROOT / ".github/workflows/release.yaml").read_text())["jobs"]
STEPS = [step for job in JOBS.values() for step in job["steps"]]
SHELL = "\n".join(step.get("run", "") for step in STEPS)


def test_its_jobs_build_each_part_once() -> None:
    built = [
        part for parts in re.findall(r'make release ONLY="?([\w ]+?)"? TAG=', SHELL) for part in parts.split()
    ]
    assert sorted(built) == sorted(PARTS)


def test_it_publishes_the_files_by_their_names(tmp_path: Path) -> None:
    for target in TARGETS:
        (tmp_path / target).mkdir()
        write_image(SOURCE, target, layout(tmp_path / target, BASE), tmp_path)
    write_chart(SOURCE, tmp_path)
    known = {"target": "platform", "version": SOURCE.version, "architecture": "amd64"}
    named = [
        re.sub(r"\$(\w+)", lambda found: known[found[1]], name)
        for name in re.findall(r'"?(tieline-\$[^":\s]+\.tar)', SHELL)
    ]
    assert len(named) == 2
    for name in named:
        assert (tmp_path / name).is_file(), name


def test_every_action_has_a_version() -> None:
    actions = [step["uses"] for step in STEPS if "uses" in step]
    assert actions
    assert not [one for one in actions if not re.fullmatch(r"[\w.-]+/[\w.-]+@(?:v\d+|release/v\d+)", one)]


@pytest.mark.parametrize(
    "name", [name for name, job in JOBS.items() if "id-token" in job.get("permissions", {})]
)
def test_jobs_that_may_sign_run_none_of_the_projects_code(name: str) -> None:
    """What builds cannot publish, and what publishes builds nothing."""
    commands = {
        shlex.split(line)[0]
        for step in JOBS[name]["steps"]
        for line in step.get("run", "x").splitlines()
        if line.strip()
    }
    assert not commands & {"make", "bash", "python", "python3", "console/build"}
    assert not [step for step in JOBS[name]["steps"] if step.get("uses", "").startswith("actions/checkout")]
