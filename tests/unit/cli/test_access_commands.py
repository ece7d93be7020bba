"""``tieline roles``, ``keys``, ``channels`` and ``notifications``: what is sent, and what people read."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline

OF_ORGANISATION = f"/api/v2/o/{ORGANISATION}"
TIME = "2026-11-25T12:00:00.000Z"
KEY = {
    "id": ID,
    "user": "ci",
    "subject": "tieline:ci",
    "role": "none",
    "createdAt": TIME,
    "key": "tlk_shown-once",
}
PROJECT = {"id": ID, "name": "Orders", "environments": [{"id": ID, "name": "production"}]}
CHANNEL = {"id": ID, "name": "Operations", "type": "slack", "config": {}, "message": ""}


def sent(server: Server) -> Any:
    """The body of the last request."""
    return json.loads(server.bodies[-1])


@pytest.mark.parametrize(
    ("arguments", "subject"),
    [
        (("--user", "login:ann"), {"kind": "User", "name": "login:ann"}),
        (("--group", "finance"), {"kind": "Group", "name": "finance"}),
        (("--service-account", "ci"), {"kind": "ServiceAccount", "name": "ci"}),
        (
            ("--service-account", "flux/ci"),
            {"kind": "ServiceAccount", "name": "ci", "namespace": "flux"},
        ),
    ],
)
def test_a_role_is_assigned_to_one_subject(
    server: Server, tieline: Tieline, arguments: tuple[str, ...], subject: dict[str, str]
) -> None:
    server.answer = lambda _: (201, {"id": ID}, {})
    code, shown, errors = tieline("roles", "assign", "editor", *arguments)
    assert code == 0, errors
    assert sent(server) == {"role": "editor", "subject": subject}
    assert "has the role editor" in shown


def test_a_role_for_nobody_or_for_two_is_refused_before_it_is_sent(server: Server, tieline: Tieline) -> None:
    for arguments in ((), ("--user", "ann", "--group", "finance")):
        code, _, errors = tieline("roles", "assign", "viewer", *arguments)
        assert code == 2
        assert "--user, --group or --service-account" in errors
    assert server.requests == []


def test_a_new_key_is_alone_on_standard_output(server: Server, tieline: Tieline) -> None:
    server.answer = lambda _: (201, KEY, {})
    code, shown, errors = tieline("keys", "create", "ci", "--group", "bots", "--expires", "90d")
    assert (code, shown.strip()) == (0, KEY["key"])
    assert "tieline roles assign viewer --user tieline:ci" in errors
    body = sent(server)
    assert (body["user"], body["groups"]) == ("ci", ["bots"])
    assert body["expiresAt"].endswith("Z")


def test_nothing_is_revoked_removed_or_deleted_without_a_yes(server: Server, tieline: Tieline) -> None:
    server.answer = lambda path: (
        200,
        {"projects": [PROJECT]} if path.endswith("/projects") else {"items": [CHANNEL]},
        {},
    )
    for arguments in (
        ("keys", "revoke"),
        ("roles", "remove"),
        ("channels", "delete"),
        ("notifications", "delete"),
    ):
        code, _, errors = tieline(*arguments, ID)
        assert code == 2
        assert "--yes" in errors
        assert "DELETE" not in server.methods
        assert tieline(*arguments, ID, "--yes")[0] == 0
        assert server.methods.pop() == "DELETE"


def test_the_secret_of_a_channel_comes_from_a_file_or_standard_input(
    server: Server, tieline: Tieline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answer = lambda _: (201, CHANNEL, {})
    file = tmp_path / "url"
    file.write_text("https://hooks.slack.com/services/x\n")
    code, shown, errors = tieline(
        "channels", "create", "Operations", "--type", "slack", "--secret-file", str(file)
    )
    assert code == 0, errors
    assert sent(server)["config"] == {"url": "https://hooks.slack.com/services/x"}
    assert "hooks.slack.com" not in shown + errors
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"whsec_x")))
    arguments = ("--type", "webhook", "--url", "https://x.example/hook", "--secret-file", "-")
    assert tieline("channels", "create", "Hook", *arguments)[0] == 0
    assert sent(server)["config"] == {"url": "https://x.example/hook", "secret": "whsec_x"}
    mail = ("--type", "email", "--host", "mail.example", "--from", "a@x.example", "--to", "b@x.example")
    assert tieline("channels", "create", "Mail", *mail)[0] == 0
    assert sent(server)["config"] == {"host": "mail.example", "from": "a@x.example", "to": ["b@x.example"]}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--type", "slack", "--url", "https://hooks.slack.com/x"), "is a secret"),
        (("--type", "slack"), "give it with --secret-file"),
        (("--type", "email", "--secret-file", "x"), "--username"),
    ],
)
def test_a_channel_that_lacks_something_is_refused_before_it_is_sent(
    server: Server, tieline: Tieline, arguments: tuple[str, ...], words: str
) -> None:
    code, _, errors = tieline("channels", "create", "Operations", *arguments)
    assert code == 2
    assert words in errors
    assert server.requests == []


@pytest.mark.parametrize(
    ("states", "code", "words"),
    [
        (["sending", "sending", "delivered"], 0, "Operations delivered the test message"),
        (["sending", "failed"], 1, "did not deliver the test message. The server said no."),
    ],
)
def test_a_test_message_is_waited_for(
    server: Server,
    tieline: Tieline,
    monkeypatch: pytest.MonkeyPatch,
    states: list[str],
    code: int,
    words: str,
) -> None:
    monkeypatch.setattr("tieline.cli.commands.notifications.time.sleep", lambda _: None)
    left = iter(states)

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if path.endswith("/test"):
            return 200, {**CHANNEL, "test": {"state": next(left)}}, {}
        if server.methods.count("POST") == 0:
            return 200, {"items": [CHANNEL]}, {}
        return (
            200,
            {"items": [{**CHANNEL, "message": "The server said no.", "test": {"state": next(left)}}]},
            {},
        )

    server.answer = answer
    ended, shown, errors = tieline("channels", "test", "operations")
    assert (ended, words in shown + errors) == (code, True), shown + errors


def test_a_channel_is_notified_of_an_environment(server: Server, tieline: Tieline) -> None:
    answers = {
        f"{OF_ORGANISATION}/projects": {"projects": [PROJECT]},
        f"{OF_ORGANISATION}/notification_channels": {"items": [CHANNEL]},
        f"{OF_ORGANISATION}/projects/{ID}/notifications": {"id": ID, "events": ["run_dead"]},
    }
    server.answer = lambda path: (200, answers[path], {})
    code, shown, errors = tieline(
        *("notifications", "create", "operations", "--project", "orders", "--event", "run_dead")
    )
    assert code == 0, errors
    assert sent(server) == {
        "name": "Operations",
        "channel_id": ID,
        "environment_id": ID,
        "events": ["run_dead"],
    }
    assert "Operations is notified of run_dead of production of Orders" in shown
