"""A deploy from this machine asks the runs that wait first."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.hostile_server import ID, Server, Tieline

CODE = """
from tieline import Context, Event, Integration

integration = Integration()

@integration.event("order")
async def order(ctx: Context, event: Event) -> None:
    await ctx.step("{step}", len, "A")
"""
VERSION = {"id": ID, "name": "v1"}


def sleeper(run: str) -> dict[str, Any]:
    step = {"name": "reserve", "occurrence": 1, "place": 1, "work": "", "version": "v1", "result": "1"}
    return {
        "metadata": {"run": run, "kind": "event", "task": "order", "queued_at": 1.0},
        "payload": base64.b64encode(b"{}").decode(),
        "steps": [step],
        "outcomes": [],
    }


class Remote:
    """A project with an environment in which runs wait."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.total = 2
        self.sleepers: tuple[int, Any, dict[str, str]] | None = None
        self.files = [{"filename": "main.py", "content": CODE.format(step="reserve")}]
        server.answer = self.answer

    def answer(self, path: str) -> tuple[int, Any, dict[str, str]]:
        path = path.partition("?")[0]
        rollout = {"state": "complete", "version": VERSION}
        environment = {
            "id": ID,
            "name": "production",
            "status": "running",
            "deployedVersion": VERSION,
            "servingVersion": VERSION,
            "rollout": rollout,
        }
        found = {"id": ID, "name": "p", "environments": [environment]}
        if path.endswith("/projects"):
            return 200, {"projects": [found]}, {}
        if path.endswith("/sleepers"):
            items = [sleeper(f"01RUN{number}") for number in range(2)]
            return self.sleepers or (200, {"totalCount": self.total, "items": items}, {})
        if path.endswith("/files"):
            return 200, {"files": self.files}, {}
        if path.endswith("/versions"):
            return 200, {"items": [{**VERSION, "createdAt": "2026-01-01T00:00:00Z", "state": "ready"}]}, {}
        return 200, {**found, "items": []}, {}

    @property
    def deploys(self) -> int:
        return sum(path.partition("?")[0].endswith("/deploy") for path, _ in self.server.requests)


@pytest.fixture
def remote(server: Server) -> Remote:
    return Remote(server)


@pytest.fixture
def code(tmp_path: Path) -> Path:
    return tmp_path


def write(code: Path, step: str) -> Path:
    (code / "main.py").write_text(CODE.format(step=step) + "\n# changed\n")
    return code


def test_check_asks_the_sleepers_of_an_environment(remote: Remote, tieline: Tieline, code: Path) -> None:
    arguments = ("check", str(write(code, "reserve")), "--sleeping", "production", "--project", "p")
    ended, output, errors = tieline(*arguments)
    assert (ended, "2 runs wait in production: 2 would continue" in output) == (0, True), errors
    remote.total = 5
    ended, output, errors = tieline(*arguments)
    assert "5 runs wait in production: 2 would continue; 3 were not looked at" in output
    write(code, "book")
    ended, output, errors = tieline(*arguments)
    assert ended == 1
    assert "2 would stop" in output
    assert "main.py:8: order 01RUN0 stops: Step 1 of this run is 'reserve'" in output
    ended, output, errors = tieline(*arguments, "--format", "json")
    found = json.loads(output)
    assert (ended, found["ok"]) == (1, False)
    assert [one["verdict"] for one in found["sleeping"]["runs"]] == ["stops", "stops"]


def test_a_deploy_that_would_stop_runs_is_refused(remote: Remote, tieline: Tieline, code: Path) -> None:
    arguments = ("deploy", str(write(code, "book")), "--project", "p", "--wait", "0")
    ended, _, errors = tieline(*arguments)
    assert (ended, remote.deploys) == (1, 0)
    assert "Step 1 of this run is 'reserve'" in errors
    assert "2 of the runs that wait would stop with this code" in errors
    ended, _, errors = tieline(*arguments, "--force")
    assert (ended, remote.deploys) == (0, 1), errors
    assert "2 would stop" in errors


def test_a_deploy_with_which_all_continue_goes_on(remote: Remote, tieline: Tieline, code: Path) -> None:
    ended, _, errors = tieline("deploy", str(write(code, "reserve")), "--project", "p", "--wait", "0")
    assert (ended, remote.deploys) == (0, 1), errors
    assert "continue" not in errors


def test_a_deploy_goes_on_with_a_warning_while_the_engine_is_away(
    remote: Remote, tieline: Tieline, code: Path
) -> None:
    remote.sleepers = 503, {"code": "unavailable", "message": "The event engine is away"}, {}
    ended, _, errors = tieline("deploy", str(write(code, "book")), "--project", "p", "--wait", "0")
    assert (ended, remote.deploys) == (0, 1), errors
    assert "warning: the runs that wait cannot be asked now" in errors


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ([], "cannot be read"),
        ({"totalCount": "many", "items": []}, "cannot be read"),
        ({"totalCount": 1, "items": ["run"]}, "cannot be read"),
        ({"totalCount": 1, "items": [{"metadata": 7, "steps": 1}]}, "could not be judged"),
    ],
)
def test_odd_answers_are_no_defect(
    remote: Remote, tieline: Tieline, code: Path, answer: Any, says: str
) -> None:
    remote.sleepers = 200, answer, {}
    _, output, errors = tieline(
        "check", str(write(code, "book")), "--sleeping", "production", "--project", "p"
    )
    assert says in output + errors
    assert "Traceback" not in errors


def test_a_rollback_says_which_runs_stop_and_goes_on(remote: Remote, tieline: Tieline) -> None:
    remote.files = [{"filename": "main.py", "content": CODE.format(step="book")}]
    ended, _, errors = tieline("rollback", "--to", "v1", "--project", "p", "--yes", "--wait", "0")
    assert (ended, remote.deploys) == (0, 1), errors
    assert "2 would stop" in errors


def test_a_version_writes_no_files_beside_its_folder(
    remote: Remote, tieline: Tieline, tmp_path: Path
) -> None:
    remote.files = [{"filename": str(tmp_path / "outside.py"), "content": "1"}]
    ended, _, errors = tieline("rollback", "--to", "v1", "--project", "p", "--yes", "--wait", "0")
    assert (ended, remote.deploys) == (1, 0)
    assert "outside of its folder" in errors
    assert not (tmp_path / "outside.py").exists()
