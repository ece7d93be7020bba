"""What becomes of a message; Slack is a fake."""

from typing import Any

import pytest

from tieline.testing import Project

MESSAGE = {"channel": "#general", "text": "Hello"}


def test_a_message_is_posted(tieline_project: Project) -> None:
    slack = tieline_project.connection("slack")
    slack.on("POST", "/chat.postMessage").answer(200, json={"ok": True})
    assert tieline_project.post("/messages", json=MESSAGE).status == 202
    tieline_project.run_events()
    (request,) = slack.requests
    assert request.json() == MESSAGE
    assert tieline_project.dead_letters == []


def test_what_slack_refuses_is_a_dead_letter(tieline_project: Project) -> None:
    slack = tieline_project.connection("slack")
    slack.on("POST", "/chat.postMessage").answer(200, json={"ok": False, "error": "channel_not_found"})
    tieline_project.post("/messages", json=MESSAGE)
    tieline_project.run_events()
    (letter,) = tieline_project.dead_letters
    assert "channel_not_found" in str(letter)


@pytest.mark.parametrize("body", [{}, [], {"channel": "#general"}])
def test_what_is_no_message_is_not_posted(tieline_project: Project, body: Any) -> None:
    slack = tieline_project.connection("slack")
    tieline_project.post("/messages", json=body)
    tieline_project.run_events()
    assert slack.requests == []
    assert len(tieline_project.dead_letters) == 1
