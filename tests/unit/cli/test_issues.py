"""``tieline issues``: what is asked and sent, and what people read."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline
from tieline.cli.commands.issues import chart

TIME = "2026-11-25T12:00:00.000Z"
ISSUE = "5f0c1e9a7d3b24680ace"
RUN = {"id": ID, "kind": "event", "task": "order.created", "status": "dead", "attempt": 1, "queuedAt": TIME}
FOUND: dict[str, Any] = {
    "id": ISSUE, "environmentId": ID, "kind": "event", "task": "order.created", "type": "tieline.errors.UpstreamError",
    "message": "shop answered 503", "system": "Shop", "upstreamStatus": 503, "state": "regressed", "count": 70,
    "firstSeen": TIME, "lastSeen": TIME, "firstVersion": {"name": "v7"}, "users": 12, "keys": 66,
    "hours": [0] * 23 + [9], "changedAt": TIME, "changedBy": "ann", "regressedIn": {"name": "v8"},
    "resolvedAfter": {"name": "v7"}, "assignee": "ben",
}  # fmt: skip
PATH = f"/api/v2/o/{ORGANISATION}/projects/{ID}/issues/{ISSUE}"


@pytest.fixture(autouse=True)
def issues(server: Server) -> None:
    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        name = path.removeprefix(f"/api/v2/o/{ORGANISATION}/")
        known = {
            "projects": {"projects": [{"id": ID, "name": "orders", "environments": []}]},
            f"projects/{ID}": {"id": ID, "name": "orders", "environments": []},
            "issues": {"items": [FOUND]},
            f"projects/{ID}/issues": {"items": [FOUND]},
            f"projects/{ID}/issues/{ISSUE}": {
                **FOUND,
                "mostAffectedUsers": [{"user": {"externalId": "pat"}, "count": 41}],
                "latestRuns": [RUN],
            },
            f"projects/{ID}/issues/{ISSUE}/replay": {"count": 70, "skipped": 2, "more": False},
        }
        return 200, known[name], {}

    server.answer = answer


def run(tieline: Tieline, *arguments: str) -> str:
    code, shown, errors = tieline("issues", *arguments, "--project", "orders")
    assert code == 0, errors
    return shown


def sent(server: Server) -> tuple[str, str, Any]:
    """Method, path and body of the last request."""
    body = server.bodies[-1]
    return server.methods[-1], server.requests[-1][0], json.loads(body) if body else None


def test_a_list_has_what_is_left_and_its_filters(server: Server, tieline: Tieline) -> None:
    shown = run(tieline, "list", "--task", "order.created", "--system", "Shop", "-e", "production")
    assert all(text in shown for text in (ISSUE, "regressed", "70", "v7", "ben", "Shop answered 503"))
    query = parse_qs(urlsplit(server.requests[-1][0]).query)
    assert query["state"] == ["open", "regressed"]
    assert (query["task"], query["system"], query["project_env"]) == (
        ["order.created"],
        ["Shop"],
        ["production"],
    )
    run(tieline, "list", "--all", "--state", "muted")
    path, _, query_text = server.requests[-1][0].partition("?")
    assert path.endswith(f"/{ORGANISATION}/issues")
    assert parse_qs(query_text)["state"] == ["muted"]


def test_an_issue_says_since_when_for_whom_and_where_it_came_back(tieline: Tieline) -> None:
    shown = run(tieline, "show", ISSUE)
    for text in ("regressed", "Shop answered 503", "v7", "v8", "12", "66", "by ann", "ben", "pat", "41", ID):
        assert text in shown


@pytest.mark.parametrize(
    ("arguments", "expected", "said"),
    [
        (["resolve"], {"state": "resolved"}, "Resolved"),
        (["resolve", "--next-version"], {"state": "resolved", "nextVersion": True}, "the version after v7"),
        (["mute", "--reason", "known"], {"state": "muted", "reason": "known"}, "Muted"),
        (["reopen"], {"state": "open"}, "Reopened"),
        (["assign", "ann"], {"assignee": "ann"}, "to ann"),
        (["assign", "--nobody"], {"assignee": ""}, "to nobody"),
    ],
)
def test_a_change_is_sent_as_rest_names_it(
    server: Server, tieline: Tieline, arguments: list[str], expected: dict[str, Any], said: str
) -> None:
    command, *options = arguments
    assert said in run(tieline, command, ISSUE, *options)
    assert sent(server) == ("PATCH", PATH, expected)


def test_muting_ends_after_a_time(server: Server, tieline: Tieline) -> None:
    run(tieline, "mute", ISSUE, "--reason", "known", "--for", "2h")
    assert sent(server)[2]["mutedUntil"].endswith("Z")


@pytest.mark.parametrize(
    "arguments",
    [["mute"], ["assign"], ["assign", "ann", "--nobody"], ["mute", "--reason", "r", "--for", "0s"]],
)
def test_what_is_missing_is_said(tieline: Tieline, arguments: list[str]) -> None:
    command, *options = arguments
    code, _, errors = tieline("issues", command, ISSUE, *options, "--project", "orders")
    assert code == 2
    assert errors


def test_a_replay_counts_first(server: Server, tieline: Tieline) -> None:
    assert "Replay 70 runs (2 others" in run(tieline, "replay", ISSUE, "--dry-run")
    assert sent(server) == ("POST", f"{PATH}/replay", {"dryRun": True})
    assert "Replayed 70" in run(tieline, "replay", ISSUE, "--yes")
    assert sent(server) == ("POST", f"{PATH}/replay", None)
    assert "Replayed 70" in run(tieline, "replay", ISSUE, "--since", "2026-11-25T12:00:00Z", "--yes")
    assert sent(server) == ("POST", f"{PATH}/replay", {"start": "2026-11-25T12:00:00.000Z"})


def test_a_chart_shows_what_few_and_many_are() -> None:
    assert chart([0, 1, 50, 100]) == "·▁▄█"
    assert chart([0, 0]) == "··"
    assert chart([]) == ""
