"""A server that is none of Tieline's, or not well-meaning: no text of it acts on the terminal, and no token leaves."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any

import pytest
import yaml

from tests.unit.cli.hostile_server import ID, ORGANISATION, TOKEN, Server, Tieline
from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote import client as client_module
from tieline.cli.remote import http
from tieline.cli.remote.contexts import Context

ATTACK = "\x1b]0;owned\x07\x1b[2J\u202egpj.exe\x9b31m\r\x7f[red]x[/red]\nforged  line"
_ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
TIME = "2026-11-25T12:00:00.000Z"


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    found: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", found.append)
    return found


VERSION = {"id": ID, "name": ATTACK, "state": ATTACK, "createdAt": TIME, "labels": {ATTACK: ATTACK}}
ENVIRONMENT = {
    "id": ID,
    "name": ATTACK,
    "status": ATTACK,
    "message": ATTACK,
    "publicUrl": ATTACK,
    "deployedVersion": VERSION,
    "lastDeployedAt": TIME,
    "servingVersion": VERSION,
    "rollbackVersion": VERSION,
    "rollout": {"state": ATTACK, "reason": ATTACK, "message": ATTACK},
}
PROJECT = {"id": ID, "name": ATTACK, "environments": [ENVIRONMENT], "createdAt": TIME}
RUN = {
    "id": ID,
    "status": ATTACK,
    "kind": ATTACK,
    "task": ATTACK,
    "user": {"externalId": ATTACK},
    "attempt": 1,
    "attempts": 2,
    "queuedAt": TIME,
    "startedAt": TIME,
    "endedAt": ATTACK,
    "error": {"type": ATTACK, "message": ATTACK, "upstream": {"status": ATTACK, "body": ATTACK}},
    "input": {ATTACK: ATTACK},
    "attemptHistory": [
        {
            "attempt": number,
            "status": ATTACK,
            "steps": [{"name": ATTACK, "child": ATTACK}],
            "error": {"message": ATTACK},
        }
        for number in (1, 2)
    ],
    "key": ATTACK,
    "traceId": ATTACK,
    "parent": ATTACK,
}
APPROVAL = {
    "id": ID,
    "projectId": ID,
    "environmentId": ID,
    "runId": ID,
    "task": ATTACK,
    "title": ATTACK,
    "details": {ATTACK: [ATTACK]},
    "by": [ATTACK],
    "otherThan": ATTACK,
    "form": {ATTACK: ATTACK},
    "askedAt": ATTACK,
    "until": TIME,
    "state": ATTACK,
    "answer": {"approved": True, "by": ATTACK, "at": ATTACK, "comment": ATTACK, "values": {ATTACK: ATTACK}},
    "mayAnswer": True,
}
LOG = {
    "timestamp": TIME,
    "severity": "INFO",
    "message": ATTACK,
    "error": ATTACK,
    "fields": {ATTACK: ATTACK, "b": {ATTACK: [ATTACK]}},
    "executionId": ATTACK,
}
SPAN = {
    "spanId": "a",
    "name": ATTACK,
    "startTime": TIME,
    "endTime": TIME,
    "status": {"code": "ERROR", "message": ATTACK},
}
SYSTEM = {
    "id": ID,
    "name": ATTACK,
    "domain": ATTACK,
    "templateBaseUrl": ATTACK,
    "authSchemeConfigs": [{"type": ATTACK}],
}
CREDENTIAL = {"credential": {"type": ATTACK, "errors": [ATTACK]}}
CONNECTION = {
    "id": ID,
    "name": ATTACK,
    "systemId": ID,
    "state": ATTACK,
    "credentials": [
        CREDENTIAL,
        {**CREDENTIAL, "credential": {"secret": {"name": ATTACK, "managedBy": ATTACK}}},
    ],
    "expires": [{"what": ATTACK, "at": TIME}],
    "lastRefusal": {"lastAt": TIME, "status": ATTACK, "said": ATTACK},
    "updatedAt": TIME,
}
TEMPLATE = {**SYSTEM, "connectionTemplateId": ID, "dynamic": False}
ANSWERS = {
    "me": {"name": ATTACK, "kind": ATTACK, "groups": [ATTACK], "organisations": [{"id": ATTACK}]},
    "projects": {"projects": [PROJECT]},
    f"projects/{ID}": PROJECT,
    f"projects/{ID}/versions": {"items": [VERSION]},
    f"projects/{ID}/runs": {"items": [RUN]},
    f"projects/{ID}/runs/{ID}": RUN,
    f"projects/{ID}/logs": {
        "logs": [LOG, {**LOG, "severity": ATTACK}, {**LOG, "fields": 7, "error": [ATTACK]}]
    },
    f"projects/{ID}/traces": {
        "items": [
            {"traceId": ATTACK, "name": ATTACK, "status": {"code": ATTACK}, "startTime": TIME, "duration": 1}
        ]
    },
    f"projects/{ID}/traces/{ID}": {"spans": [SPAN]},
    f"projects/{ID}/connection-templates": {"items": [TEMPLATE]},
    f"projects/{ID}/connections": {"items": [CONNECTION]},
    "schedulers": {
        "items": [
            {
                "name": ATTACK,
                "schedule": ATTACK,
                "projectName": ATTACK,
                "environmentName": ATTACK,
                "lastRun": ATTACK,
            }
        ]
    },
    f"environments/{ID}/schedulers": [{"id": ID, "name": ATTACK, "schedule": ATTACK, "lastRun": ATTACK}],
    f"environments/{ID}/events": {"runId": ATTACK},
    "systems": {"items": [SYSTEM]},
    "connections": {"items": [CONNECTION]},
    f"connections/{ID}": CONNECTION,
    f"connections/{ID}/test": {"ok": True, "status": ATTACK, "message": ATTACK},
    "connectors": {"items": [{"id": ID, "name": ATTACK, "updatedAt": ATTACK}]},
    "connectors/operations": {
        "items": [
            {
                "connectorName": ATTACK,
                "name": ATTACK,
                "method": ATTACK,
                "path": ATTACK,
                "summary": ATTACK,
                "graphql": ATTACK,
            }
        ]
    },
    f"store/{ID}/kv/list": {"data": [{"key": [ATTACK, ATTACK]}]},
    f"store/{ID}/kv/x": {"value": json.dumps(ATTACK)},
    "approvals": {"items": [APPROVAL]},
    "audit": {
        "items": [
            {
                **dict.fromkeys(
                    ("sequence", "at", "subject", "address", "via", "operation", "kind", "object"), ATTACK
                ),
                **dict.fromkeys(("outcome", "status", "code"), ATTACK),
                "changes": [
                    {"action": ATTACK, "kind": ATTACK, "fields": [{"name": ATTACK, "after": ATTACK}]}
                ],
                "sent": [{"method": ATTACK, "host": ATTACK, "path": ATTACK}],
            }
        ]
    },
    "role-bindings": {
        "items": [
            {
                "id": ID,
                "roleName": ATTACK,
                "subjects": [{"kind": ATTACK, "name": ATTACK, "namespace": ATTACK}],
                "byRest": True,
                "createdAt": ATTACK,
            }
        ]
    },
    "api-keys": {
        "items": [{"id": ID, "user": ATTACK, "role": ATTACK, "expiresAt": ATTACK, "createdAt": ATTACK}]
    },
    "notification_channels": {
        "items": [
            {
                **{"id": ID, "name": ATTACK, "type": ATTACK, "config": {"to": [ATTACK]}},
                **{"last_delivered_at": ATTACK, "message": ATTACK, "ready": ATTACK},
            }
        ]
    },
    f"projects/{ID}/notifications": {
        "items": [
            {
                **{"id": ID, "name": ATTACK, "environment_id": ATTACK, "channelName": ATTACK},
                **{"events": [ATTACK], "incidents": [], "ready": False},
            }
        ]
    },
    f"projects/{ID}/environments/call": {
        "status": 200,
        "headers": {ATTACK: [ATTACK]},
        "body": "e30=",
        "bodyEncoding": "base64",
    },
}
READS = [
    ("whoami",),
    ("projects", "list"),
    ("env", "list"),
    ("versions",),
    ("logs",),
    ("runs", "list"),
    ("runs", "show", ID),
    ("approvals", "list"),
    ("approvals", "show", ID),
    ("traces", "list"),
    ("traces", "show", ID),
    ("templates", "list"),
    ("schedules", "list"),
    ("schedules", "list", "--all"),
    ("systems", "list"),
    ("connections", "list"),
    ("connections", "show", ID),
    ("connections", "test", ID),
    ("connectors", "list"),
    ("connectors", "search", "x"),
    ("state", "list", ID),
    ("state", "get", ID, "x"),
    ("events", "publish", "x"),
    ("audit", "list"),
    ("roles", "list"),
    ("keys", "list"),
    ("channels", "list"),
    ("notifications", "list"),
    ("api", "projects"),
]
_NAMES = [" ".join(item[:2]) for item in READS]


def hostile(path: str) -> tuple[int, Any, dict[str, str]]:
    name = path.removeprefix(f"/api/v2/o/{ORGANISATION}/").removeprefix("/api/v2/")
    return 200, ANSWERS[name], {"Warning": f'299 - "{ATTACK[:5].strip()} \x9b31m"'.replace("\x9b", "")}


@pytest.mark.parametrize("arguments", READS, ids=_NAMES)
@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_no_answer_can_act_on_the_terminal(
    server: Server, tieline: Tieline, arguments: tuple[str, ...], output: str
) -> None:
    server.answer = hostile
    code, shown, errors = tieline(*arguments, "--output", output)
    assert code in (0, 1), errors
    assert not errors.startswith("tieline: ") or "cannot be used" in errors, errors
    assert not _ACTING.search(shown + errors)
    assert shown
    if output == "json":
        assert json.loads(shown) is not None
    if output == "yaml":
        assert yaml.safe_load(shown) is not None


def test_a_name_with_line_ends_does_not_look_like_further_rows_facts_or_log_lines(
    server: Server, tieline: Tieline
) -> None:
    server.answer = hostile
    for arguments in (("projects", "list"), ("runs", "show", ID), ("logs",)):
        _, shown, _ = tieline(*arguments)
        assert "forged" in shown
        assert not [line for line in shown.splitlines() if line.startswith("forged")], arguments


GARBAGE = [
    b"<html>Welcome</html>",
    b"",
    b"\xff\xfe",
    b"[" * 5000,
    b"null",
    b"[]",
    b"{}",
    b"7",
    b'"x"',
    b'[[{"id": null}]]',
    b'{"projects": 1, "items": 1, "logs": 1, "spans": 1, "organisations": 1}',
    b'{"projects": [1], "items": [1], "logs": [1], "spans": [1], "organisations": [1], "data": [1]}',
    b'{"projects": [{"id": [], "environments": {}}], "items": [{"id": {}}], "logs": [{"message": {}}]}',
]


@pytest.mark.parametrize("arguments", READS, ids=_NAMES)
def test_garbage_is_an_error_and_no_traceback(
    server: Server, tieline: Tieline, arguments: tuple[str, ...]
) -> None:
    for content in GARBAGE:
        server.answer = lambda _, content=content: (200, content, {})  # type: ignore[misc]
        code, _, errors = tieline(*arguments)
        assert code in (0, 1, 4), content
        assert (code == 0) or errors.startswith("tieline: "), (content, errors)
        assert "Traceback" not in errors


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 418, 422, 429, 500, 502, 599])
def test_an_error_page_of_something_between_is_told_by_its_status(
    server: Server, tieline: Tieline, status: int
) -> None:
    server.answer = lambda _: (status, f"<html>{ATTACK}</html>".encode(), {"Content-Type": "text/html"})
    code, output, errors = tieline("projects", "list")
    assert (code > 0, output) == (True, "")
    assert f"HTTP {status}" in errors
    assert not _ACTING.search(errors)


def test_a_refusal_is_short_and_without_the_token_that_it_repeats(server: Server, tieline: Tieline) -> None:
    body = {
        "message": f"No: {TOKEN} {ATTACK}" + "x" * 100_000,
        "fields": [{"field": ATTACK, "message": TOKEN}] * 999,
    }
    server.answer = lambda _: (422, body, {})
    code, _, errors = tieline("projects", "list")
    assert code == 1
    assert "No: <token>" in errors
    assert len(errors) < 20_000
    assert not _ACTING.search(errors)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_takes_the_token_to_another_host(server: Server, tieline: Tieline, status: int) -> None:
    with Server() as other:
        server.answer = lambda _: (status, b"", {"Location": f"{other.url}/api?x=1"})
        for arguments in (("projects", "list"), ("connections", "call", ID)):
            code, _, errors = tieline(*arguments)
            assert code == 1
            assert f"redirects to {other.url}:" in errors
        assert other.requests == []
    server.answer = lambda _: (302, b"", {"Location": "http://[oops"})
    assert tieline("projects", "list")[0] == 1


def get(server: Server) -> Any:
    context = Context(name="x", url=server.url, organisation=ORGANISATION, token=TOKEN)
    return client_module.Client(context).get("projects")


def test_an_answer_that_ends_too_early_is_asked_for_again(server: Server, waits: list[float]) -> None:
    whole = {"Content-Length": "17"}
    server.answer = lambda _: (200, b'{"projects": []', {} if len(server.requests) > 9 else whole)
    with pytest.raises(CommandError) as ended:
        get(server)
    assert ended.value.code is ExitCode.UNAVAILABLE
    assert waits == [1, 2, 4]
    server.answer = lambda _: (200, b"5\r\nhello\r\n", {"Content-Length": "", "Transfer-Encoding": "chunked"})
    with pytest.raises(CommandError) as ended:
        get(server)
    assert ended.value.code is ExitCode.UNAVAILABLE


def test_an_answer_without_end_is_given_up(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.drip = True
    server.answer = lambda _: (200, b"", {"Content-Length": str(2**40)})
    monkeypatch.setattr(http, "MAX_ANSWER", 2**20)
    with pytest.raises(CommandError, match="more than 1 MiB"):
        get(server)
    monkeypatch.setattr(http, "MAX_ANSWER", 2**40)
    monkeypatch.setattr(http, "ANSWER_SECONDS", -1.0)
    with pytest.raises(CommandError, match="not sent its whole answer") as slow:
        get(server)
    assert slow.value.code is ExitCode.UNAVAILABLE


def test_a_compressed_answer_is_measured_as_it_is_unpacked(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER", 2**20)
    bomb = gzip.compress(b" " * 2**25)
    assert len(bomb) < 2**20
    server.answer = lambda _: (200, bomb, {"Content-Encoding": "gzip"})
    with pytest.raises(CommandError, match="more than 1 MiB"):
        get(server)
    server.answer = lambda _: (200, b"no gzip", {"Content-Encoding": "gzip"})
    with pytest.raises(CommandError):
        get(server)


def test_log_pages_without_end_do_not_keep_the_command_for_ever(server: Server, tieline: Tieline) -> None:
    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        return (200, {"logs": [], "nextToken": "again"}, {}) if path.endswith("/logs") else hostile(path)

    server.answer = answer
    assert tieline("logs")[0] == 0
    assert len(server.requests) <= 1001


HOSTILE_ARGUMENTS = [
    (("runs", "show", ".."), 2),
    (("runs", "cancel", "."), 2),
    (("runs", "show", ""), 2),
    (("state", "get", "..", "x"), 2),
    (("state", "delete", ID, "..", "--yes"), 2),
    (("traces", "show", "../../x"), 4),
    (("projects", "create", "\udcff"), 2),
    (("logs", "--search", "\udcff"), 2),
    (("logs", "--since", "nan"), 2),
    (("logs", "--since", "infd"), 2),
    (("logs", "--since", "-5m"), 2),
    (("logs", "--since", "9" * 400 + "d"), 2),
    (("logs", "--since", "0001-01-01T00:00:00+23:00"), 2),
    (("events", "publish", "x", "--delay", "nan"), 2),
    (("state", "set", ID, "x", "1", "--expires", "1e999d"), 2),
    (("roles", "remove", "../x", "--yes"), 4),
    (("keys", "revoke", "..", "--yes"), 2),
    (("connections", "call", ID, "-X", "GET / HTTP/1.1\r\nX: y"), 2),
    (("connections", "call", ID, "-H", "X: a\r\nY: b"), 2),
    (("connections", "call", ID, "-H", "X Y: a"), 2),
    (("connections", "call", ID, "-H", "authorization: Bearer x"), 2),
    (("connections", "call", ID, "../../../systems"), 2),
    (("connections", "call", ID, "a/%2e%2e/b"), 2),
    (("api", "../../../me"), 2),
    (("api", "projects", "-X", "GET\r\n"), 2),
    (("api", "projects", "--organisation", "../x"), 2),
    (("projects", "list", "--context", "../../x"), 4),
    (("login", "https://[::1"), 2),
    (("login", "https://x:99999999"), 2),
    (("login", "https://a b"), 2),
    (("login", f"ftp://me:{TOKEN}@x"), 2),
    (("login", "https://x", "--name", "../x", "--token-stdin"), 2),
    (("login", "https://x", "--ca-file", "nowhere.pem", "--token-stdin"), 2),
    (("login", "https://x", "--issuer", "http://[", "--client-id", "x"), 2),
]


@pytest.mark.parametrize(
    ("arguments", "code"), HOSTILE_ARGUMENTS, ids=[" ".join(a[0])[:40] for a in HOSTILE_ARGUMENTS]
)
def test_an_argument_that_leads_elsewhere_is_refused(
    server: Server, tieline: Tieline, arguments: tuple[str, ...], code: int
) -> None:
    known = dict(ANSWERS)

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        name = path.removeprefix(f"/api/v2/o/{ORGANISATION}/")
        return (200, known[name], {}) if name in known else (404, {"message": "None"}, {})

    server.answer = answer
    ended, output, errors = tieline(*arguments)
    assert (ended, output) == (code, ""), errors
    assert errors.startswith("tieline: ")
    assert not _ACTING.search(errors)
    assert all("/o/" in path or "/me" in path for path, _ in server.requests)
