"""``tieline approvals``: what is asked and sent, and what people read."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline
from tieline.events.event_file import EventFile
from tieline.events.local_answers import kept_in
from tieline.execution.ulids import new_ulid
from tieline_protocol.approvals import Answer, Approval

TIME = "2026-11-25T12:00:00.000Z"
ENVIRONMENT = "01JD3Y9D3E5TQ0M3H7RS8XA1BG"
FOUND: dict[str, Any] = {
    "id": ID, "projectId": ID, "environmentId": ENVIRONMENT, "runId": ID, "task": "refund.requested",
    "title": "Refund 480 EUR to Ann?", "details": {"order": "A-1"}, "by": ["group:finance"], "otherThan": "ann",
    "form": {"type": "object"}, "askedAt": TIME, "until": TIME, "state": "rejected", "mayAnswer": False,
    "answer": {"approved": False, "by": "bob", "at": TIME, "comment": "Too late"},
}  # fmt: skip


@pytest.fixture(autouse=True)
def approvals(server: Server) -> None:
    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        name = path.removeprefix(f"/api/v2/o/{ORGANISATION}/")
        known = {
            "projects": {"projects": [{"id": ID, "name": "orders", "environments": []}]},
            "approvals": {"items": [FOUND]},
            f"environments/{ENVIRONMENT}/approvals/{ID}/answer": FOUND,
        }
        return 200, known[name], {}

    server.answer = answer


def run(tieline: Tieline, *arguments: str) -> str:
    code, shown, errors = tieline("approvals", *arguments)
    assert code == 0, errors
    return shown


def asked(server: Server) -> dict[str, list[str]]:
    return parse_qs(urlsplit(server.requests[-1][0]).query)


def test_a_list_has_open_ones_of_all_projects_or_what_is_asked_for(server: Server, tieline: Tieline) -> None:
    shown = run(tieline, "list")
    assert all(text in shown for text in (ID, "rejected", "refund.requested", "group:finance", "480"))
    assert (asked(server)["state"], "project" in asked(server)) == (["open"], False)
    run(tieline, "list", "--project", "orders", "-e", "production", "--state", "approved")
    assert (asked(server)["project"], asked(server)["project_env"], asked(server)["state"]) == (
        [ID],
        ["production"],
        ["approved"],
    )
    run(tieline, "list", "--mine")
    assert (asked(server)["answerable"], "state" in asked(server)) == (["true"], False)


def test_one_is_shown_with_its_answer(tieline: Tieline) -> None:
    shown = run(tieline, "show", ID.lower())
    for text in ("Refund 480 EUR to Ann?", "A-1", "group:finance", "ann", "bob", "Too late"):
        assert text in shown


def test_an_answer_is_sent_with_comment_and_values(server: Server, tieline: Tieline) -> None:
    run(tieline, "approve", ID, "-m", "fine", "--values", '{"limit": 5}')
    assert server.methods[-1] == "POST"
    assert server.requests[-1][0].endswith(f"/environments/{ENVIRONMENT}/approvals/{ID}/answer")
    assert json.loads(server.bodies[-1]) == {"approved": True, "comment": "fine", "values": {"limit": 5}}
    run(tieline, "reject", ID)
    assert json.loads(server.bodies[-1]) == {"approved": False, "comment": ""}


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("approve", ID, "--values", "[1]"), "object"),
        (("approve", ID, "--values", "{"), "JSON"),
        (("approve", "01JD3Y9D3E5TQ0M3H7RS8XA1BX"), "no approval"),
        (("reject", "..", "-m", "x"), "id"),
    ],
)
def test_what_cannot_be_is_said(tieline: Tieline, arguments: tuple[str, ...], error: str) -> None:
    code, _, errors = tieline("approvals", *arguments)
    assert code > 0
    assert error in errors


def test_in_local_runs_the_author_answers_for_everybody(
    tieline: Tieline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "main.py").write_text("")
    assert "no events" in tieline("approvals", "list", "--local")[2]
    file = EventFile(tmp_path / ".tieline" / "events.db")
    now = time.time()
    approval = Approval(
        id=new_ulid(), run=new_ulid(), task="t", title="Go on?", asked_at=now, until=now + 60,
        by=("group:finance", "role:tieline-admin"), details=[1],
    )  # fmt: skip
    asyncio.run(kept_in(file).ask(approval))
    assert "Go on?" in run(tieline, "list", "--local")
    assert approval.run in run(tieline, "show", approval.id, "--local")
    run(tieline, "approve", approval.id, "--local", "-m", "ok")
    ((_, run_id, content),) = file.take_answers()
    given = Answer.decode(content)
    assert (run_id, given.approval, given.approved, given.comment) == (approval.run, approval.id, True, "ok")
    code, _, errors = tieline("approvals", "reject", new_ulid(), "--local")
    assert (code, "no approval" in errors) == (1, True)
