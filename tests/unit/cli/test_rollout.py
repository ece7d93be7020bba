"""What `tieline deploy` makes of the answers while it waits for a rollout."""

from __future__ import annotations

from typing import Any

import pytest

from tieline.cli import rollout
from tieline.cli.exit_codes import CommandError
from tieline.cli.terminal import Output


class Remote:
    """An API with an answer for each request."""

    def __init__(self, *answers: dict[str, Any]) -> None:
        self._answers = list(answers)

    def get(self, _path: str) -> dict[str, Any]:
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def project(version: str, state: str | None) -> dict[str, Any]:
    environment = {
        "id": "E",
        "name": "production",
        "status": "running",
        "deployedVersion": {"id": version, "name": version},
        "rollout": state and {"state": state},
    }
    return {"id": "P", "name": "orders", "environments": [environment]}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rollout, "_POLL_SECONDS", 0.0)


def follow(*answers: dict[str, Any]) -> None:
    remote: Any = Remote(*answers)
    rollout.follow(remote, project("v2", "progressing"), "E", wait=60, output=Output.JSON)


@pytest.mark.parametrize(
    "late", [project("v1", "complete"), project("v2", None)], ids=["version", "suspended"]
)
def test_an_answer_of_a_replica_that_is_behind_is_no_outcome(
    late: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    follow(late, project("v2", "progressing"), project("v2", "complete"))
    assert '"v2"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("after", "says"),
    [(project("v3", "complete"), "Another deploy replaced v2"), (project("v2", None), "was suspended")],
    ids=["replaced", "suspended"],
)
def test_a_rollout_that_cannot_end_any_more_is_an_error(after: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError, match=says):
        follow(project("v2", "progressing"), after)
