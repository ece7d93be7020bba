"""What the webhook answers."""

from typing import Any

import pytest

from tieline.testing import Project


def test_somebody_is_greeted(tieline_project: Project) -> None:
    answer = tieline_project.post("/hello", json={"name": "Ann"})
    assert (answer.status, answer.json()) == (200, {"message": "Hello, Ann!"})
    assert tieline_project.logs[-1].fields == {"name": "Ann"}


@pytest.mark.parametrize("body", [{}, [], {"name": 7}, {"name": " "}])
def test_without_a_name_the_answer_says_what_to_send(tieline_project: Project, body: Any) -> None:
    assert tieline_project.post("/hello", json=body).status == 422
