"""``tieline audit list``: what is asked, and what people read."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline

PATH = f"/api/v2/o/{ORGANISATION}/audit"
CHANGE = {
    "kind": "systems", "object": ID, "action": "changed",
    "fields": [{"name": "domain"}, {"name": "name", "before": "Old", "after": "New"}],
}  # fmt: skip


def record(sequence: int, **more: Any) -> dict[str, Any]:
    return {
        "sequence": sequence, "id": ID, "at": "2026-11-25T12:00:00.000Z", "subject": "ann", "caller": "user",
        "via": "console", "address": "192.0.2.7", "operation": "updateSystem", "kind": "systems", "object": ID,
        "outcome": "allowed", "status": 201, "code": "", "changes": [CHANGE], "sent": [], **more,
    }  # fmt: skip


ANONYMOUS = {"subject": "", "outcome": "refused", "status": 401, "code": "unauthenticated", "changes": []}


@pytest.fixture
def pages(server: Server) -> list[dict[str, Any]]:
    """The pages that the server answers with, one after the other; the last one always."""
    found: list[dict[str, Any]] = []

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        assert path == PATH
        return 200, found.pop(0) if len(found) > 1 else found[0], {}

    server.answer = answer
    return found


def asked(server: Server) -> list[dict[str, list[str]]]:
    return [parse_qs(urlsplit(path).query) for path, *_ in server.requests]


def test_records_say_who_did_what(server: Server, tieline: Tieline, pages: list[dict[str, Any]]) -> None:
    pages.append({"items": [record(9), record(8, **ANONYMOUS)]})
    code, shown, errors = tieline("audit", "list")
    assert code == 0, errors
    first, second = shown.splitlines()[1:3]
    assert "ann" in first
    assert "changed systems: domain, name=New" in " ".join(shown.split())
    assert "192.0.2.7" in second, "an anonymous caller has no name"
    assert "refused" in shown
    assert asked(server)[0]["log"] == ["changes"]


def test_filters_are_sent_and_empty_pages_lead_on(
    server: Server, tieline: Tieline, pages: list[dict[str, Any]]
) -> None:
    pages += [{"items": [], "next": "b"}, {"items": [record(3)], "next": "c"}, {"items": [record(1)]}]
    filters = ("--subject", "ann", "--kind", "systems", "--id", ID, "--outcome", "allowed", "--since", "2h")
    code, shown, errors = tieline("audit", "list", "--access", *filters, "--output", "json")
    assert code == 0, errors
    assert [one["sequence"] for one in json.loads(shown)] == [3, 1]
    first, second, _ = asked(server)
    assert (first["log"], first["subject"], first["id"]) == (["access"], ["ann"], [ID])
    assert (first["kind"], first["outcome"], len(first["since"])) == (["systems"], ["allowed"], 1)
    assert second["after"] == ["b"]
    assert second["since"] == first["since"], "a cursor belongs to its filters"


def test_a_list_says_that_there_are_more_and_ends(
    server: Server, tieline: Tieline, pages: list[dict[str, Any]]
) -> None:
    pages.append({"items": [record(9)], "next": "b"})
    code, _, errors = tieline("audit", "list", "--limit", "1")
    assert (code, len(server.requests)) == (0, 1)
    assert "There are more records" in errors
    pages[:] = [{"items": [], "next": "for ever"}]
    code, _, errors = tieline("audit", "list")
    assert code == 0
    assert "There are more records" in errors
