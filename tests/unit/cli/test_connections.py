"""``tieline connections``: whether they work, what ends soon, and where values are."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline

TIME = "2026-11-25T12:00:00Z"
SECRET = {"name": "shop-key", "managedBy": 'Flux (Kustomization "apps")'}
CONNECTION: dict[str, Any] = {
    "id": ID,
    "name": "shop",
    "state": "not_authorised",
    "updatedAt": TIME,
    "lastSuccessAt": TIME,
    "lastRefusal": {
        "status": 401,
        "count": 1,
        "since": TIME,
        "lastAt": TIME,
        "said": "no\x1b[0m",
        "acceptedAt": TIME,
    },
    "expires": [{"what": "token", "at": "2000-01-01T00:00:00Z", "credentialId": ID}],
    "credentials": [{"id": ID, "credential": {"type": "string", "errors": [], "secret": SECRET}}],
}
USES = {
    "templates": [{"name": "shop", "projectName": "orders", "environmentName": "production"}],
    "templateCount": 2,
    "activations": [],
    "activationCount": 3,
}


@pytest.fixture
def answers(server: Server) -> dict[str, Any]:
    """What the API answers to a test, which the test may change."""
    test: dict[str, Any] = {"ok": True, "status": 200, "message": "The system answered 200"}
    known: dict[str, Any] = {
        "connections": {"items": [CONNECTION]},
        "systems": {"items": []},
        f"connections/{ID}": CONNECTION,
        f"connections/{ID}/uses": USES,
        f"connections/{ID}/test": test,
    }
    server.answer = lambda path: (
        200,
        known[path.removeprefix(f"/api/v2/o/{ORGANISATION}/").partition("?")[0]],
        {},
    )
    return test


def test_a_list_asks_for_what_ends_soon(server: Server, tieline: Tieline, answers: dict[str, Any]) -> None:
    code, shown, errors = tieline("connections", "list", "--expiring", "14d", "--search", "shop")
    assert code == 0, errors
    asked = next(path for path, *_ in server.requests if "/connections" in path)
    query = parse_qs(urlsplit(asked).query)
    assert query["expires_before"][0].endswith("Z")
    assert query["search"] == ["shop"]
    line = shown.splitlines()[-1]
    assert "not authorised" in line
    assert "token expired" in line
    code, _, errors = tieline("connections", "list", "--expiring", "soon")
    assert code == 2
    assert "no duration" in errors


@pytest.mark.usefixtures("answers")
def test_a_connection_says_where_its_values_are_and_what_uses_it(tieline: Tieline) -> None:
    code, shown, errors = tieline("connections", "show", "shop")
    assert code == 0, errors
    for text in (
        "401: no\\x1b[0m",
        'Secret shop-key, managed by Flux (Kustomization "apps")',
        "orders production as shop, 1 more, 3 activations",
    ):
        assert text in shown, text


@pytest.mark.usefixtures("answers")
@pytest.mark.parametrize(("status", "is_said"), [(400, True), (403, False)])
def test_uses_that_cannot_be_read_hide_nothing_else(
    server: Server, tieline: Tieline, status: int, is_said: bool
) -> None:
    answer = server.answer
    server.answer = lambda path: (status, {"message": "no"}, {}) if path.endswith("/uses") else answer(path)
    code, shown, errors = tieline("connections", "show", "shop")
    assert (code, "shop-key" in shown) == (0, True)
    assert ("Cannot read what uses it" in errors) is is_said


def test_a_check_shows_the_state_and_fails_when_it_does(tieline: Tieline, answers: dict[str, Any]) -> None:
    code, shown, errors = tieline("connections", "check", "shop")
    assert code == 0, errors
    assert "not authorised" in shown
    answers |= {"ok": False, "status": 401, "said": "unknown key"}
    code, shown, errors = tieline("connections", "check", "shop")
    assert code == 1
    assert "unknown key" in shown
