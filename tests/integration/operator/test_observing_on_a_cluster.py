"""What those who run the operator see of it: lines to join with the API's, environments, a silent watch, its end."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import http
from tests.harness.cluster.kubectl import Organisation
from tests.harness.session.waiting import eventually
from tests.integration.operator.cluster_objects import SYSTEM, NamespacedKubectl, project_spec
from tests.integration.operator.running_operator import RunningOperator
from tieline_core.identity.ids import object_id

pytestmark = pytest.mark.cluster


def lines(operator: RunningOperator) -> list[dict[str, Any]]:
    """The log, each line of which is JSON with the same first keys."""
    found = [json.loads(line) for line in operator.log.read_text().splitlines()]
    for line in found:
        assert re.fullmatch(r"[0-9T:.-]{23}Z", line["timestamp"])
        assert line["severity"] in {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"}
        assert line["message"]
    return found


@pytest.fixture
def another(
    operator_kubeconfig: Path, organisations: tuple[Organisation, Organisation], tmp_path: Path
) -> RunningOperator:
    """A second operator, which was not started: for the organisation without room."""
    namespaces = (organisations[1].namespace,)
    return RunningOperator(kubeconfig=operator_kubeconfig, namespaces=namespaces, log=tmp_path / "log")


def test_each_change_is_a_line_with_object_generation_and_the_changes_text(
    acting: NamespacedKubectl, operator: RunningOperator
) -> None:
    for name in ("Shop", "Other"):
        acting.apply("System", "observed", {**SYSTEM, "name": name})
        made = acting.get("system", "observed")
        wanted = {
            "kind": "System",
            "object": f"{acting.namespace}/observed",
            "generation": made["metadata"]["generation"],
            "change": f"{object_id(made)}.{made['metadata']['generation']}",
        }

        def told(wanted: dict[str, Any] = wanted) -> bool:
            return any(wanted.items() <= line.items() for line in lines(operator))

        eventually(f"a line of {wanted}", told)


def test_environments_are_counted_by_status(acting: NamespacedKubectl, operator: RunningOperator) -> None:
    stopped = [{"name": "production", "version": "latest", "suspended": True}]
    acting.apply("Project", "counted", project_spec(environments=stopped))
    acting.until_environment("counted", "suspended")
    text = operator.metrics()
    assert 'tieline_operator_environments{status="suspended"} 1.0' in text
    assert 'tieline_operator_objects{kind="Project",ready="true"} 1.0' in text


def test_an_operator_that_hears_nothing_is_neither_healthy_nor_ready(
    another: RunningOperator,
) -> None:
    """The server says something each minute at least: to one that expects it each ten seconds the watches are dead."""
    running = replace(another, variables={"TIELINE_WATCH_TIMEOUT": "10"})
    with running:
        for path in ("healthz", "readyz"):
            assert _refusal(f"http://127.0.0.1:{running.health_port}/{path}").startswith(
                "Nothing is heard of "
            )


def test_an_operator_that_is_told_to_stop_has_nothing_to_wait_for(
    another: RunningOperator,
) -> None:
    """kopf gives tasks that were left five seconds, and says so."""
    running = replace(another, variables={"TIELINE_LOG_LEVEL": "DEBUG"})
    running.start()
    assert running.stop() == 0
    told = [line["message"] for line in lines(running)]
    assert "Hung tasks stopping is skipped: no tasks given." in told


def _refusal(url: str) -> str:
    """What a probe says once it answers 503."""

    def said() -> str | None:
        answer = http("GET", url, timeout=5)
        return answer.body.decode() if answer.status == 503 else None

    return eventually(f"{url} failing", said)
