"""Tests of integrations with providers of the catalogue: their tokens, answers, limits, lists and webhooks."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.unit.testing.written_projects import folder
from tieline.testing import Project, UnexpectedRequestError

CODE = """
@integration.webhook("who", methods=["GET"])
async def who(ctx: Context) -> object:
    answer = await ctx.fetch("slack", "/auth.test")
    return await answer.json()


@integration.webhook("post", methods=["POST"])
async def post(ctx: Context) -> object:
    answer = await ctx.fetch("slack", "/chat.postMessage", method="POST", json={"text": "hello"})
    return {"status": answer.status, **await answer.json()}


@integration.webhook("mail", methods=["GET"])
async def mail(ctx: Context) -> object:
    answer = await ctx.fetch("gmail", "/users/me/profile")
    return {"status": answer.status, **await answer.json()}


@integration.webhook("events", connection="slack-events")
async def events(ctx: Context, request: Request) -> object:
    return {"got": await request.json()}
"""


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    with Project(folder(tmp_path, CODE)) as running:
        yield running


def test_code_meets_the_providers_odd_errors(project: Project) -> None:
    slack = project.provider("slack")
    assert project.get("/who").json()["team"] == "Emulated workspace"
    slack.revoke()
    assert project.get("/who").json() == {"ok": False, "error": "token_revoked"}
    assert [one.path for one in slack.requests] == ["/auth.test", "/auth.test"]
    assert slack.requests[0].headers["Authorization"].startswith("Bearer slack-at-")


def test_an_expired_token_is_refreshed(project: Project) -> None:
    gmail = project.provider("gmail")
    assert project.get("/mail").json()["status"] == 200
    before = gmail.tokens_issued
    gmail.expire()
    assert project.get("/mail").json()["status"] == 200
    assert gmail.tokens_issued == before + 1
    project.advance(timedelta(hours=2))
    assert project.get("/mail").json()["status"] == 200
    gmail.revoke()
    assert project.get("/mail").json()["status"] == 401


def test_limits_and_outages_come_in_the_providers_form(project: Project) -> None:
    slack = project.provider("slack")
    slack.on("POST", "/chat.postMessage").answer(json={"ok": True, "ts": "1"})
    assert project.post("/post").json() == {"status": 200, "ok": True, "ts": "1"}
    slack.limit(duration=5)
    assert project.post("/post").json()["status"] == 429
    slack.fail(10, status=500)
    assert project.get("/who").json()["error"] == "temporarily_unavailable"


def test_an_endpoint_without_an_answer_fails_the_test(project: Project) -> None:
    project.provider("slack")
    with pytest.raises(UnexpectedRequestError, match=r"chat\.postMessage"):
        project.post("/post")


def test_a_provider_sends_signed_webhooks(project: Project) -> None:
    slack = project.provider("slack")
    slack.signs_for("slack-events")
    assert slack.send_webhook("/events", {"type": "ping"}).json() == {"got": {"type": "ping"}}
    assert project.post("/events", json={"type": "ping"}).status == 401
