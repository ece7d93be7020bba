"""``tieline org quotas``: what people read."""

from __future__ import annotations

import json
from typing import Any

from tests.unit.cli.hostile_server import ORGANISATION, Server, Tieline

QUOTAS: dict[str, Any] = {
    "items": [
        {"name": "environments", "unit": "environments", "limit": 10, "used": 4, "left": 6},
        {"name": "engineStorage", "unit": "bytes", "limit": 4 << 30, "used": 3 << 29, "left": 5 << 29},
        {"name": "requestsPerSecond", "unit": "requests", "used": 0},
    ],
    "problem": "the annotation cannot be used",
}


def answering(server: Server) -> None:
    server.answer = lambda asked: (200, {f"/api/v2/o/{ORGANISATION}/quotas": QUOTAS}[asked], {})


def test_quotas_show_what_is_used_and_left(server: Server, tieline: Tieline) -> None:
    answering(server)
    code, shown, errors = tieline("org", "quotas")
    assert code == 0, errors
    lines = [line.split() for line in shown.splitlines()]
    assert ["environments", "4", "10", "6"] in lines
    assert ["engineStorage", "1.5", "GiB", "4", "GiB", "2.5", "GiB"] in lines
    assert ["requestsPerSecond", "0"] in lines
    assert "the annotation cannot be used" in errors


def test_quotas_in_json_are_the_answer(server: Server, tieline: Tieline) -> None:
    answering(server)
    _, shown, _ = tieline("org", "quotas", "--output", "json")
    assert json.loads(shown) == QUOTAS["items"]
