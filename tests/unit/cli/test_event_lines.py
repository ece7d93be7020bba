"""``tieline events publish --lines``: what is sent, and what people read when something is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline
from tieline.cli.event_lines import batches

PATH = f"/api/v2/o/{ORGANISATION}/environments/{ID}/events/batch"


@pytest.fixture(autouse=True)
def project(server: Server) -> None:
    environment = {"id": ID, "name": "test"}
    found = {"id": ID, "name": "orders", "environments": [environment]}

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if not path.endswith("/batch"):
            return 200, found if path.endswith(ID) else {"projects": [found]}, {}
        results = []
        for number, one in enumerate(json.loads(server.bodies[-1])["events"]):
            refused = one["payload"] == "refuse me"
            result = {"status": "refused", "error": "full"} if refused else {"status": "stored", "runId": ID}
            results.append({"eventId": str(number), **result})
        return 202, {"results": results}, {}

    server.answer = answer


def publish(tieline: Tieline, folder: Path, text: str, *arguments: str) -> tuple[int, str, str]:
    (folder / "events.jsonl").write_text(text)
    return tieline(
        "events", "publish", *arguments, "--lines", str(folder / "events.jsonl"), "--project", "orders",
        "--environment", "test",
    )  # fmt: skip


def test_the_lines_of_a_file_are_sent_together(server: Server, tieline: Tieline, tmp_path: Path) -> None:
    lines = '{"payload": {"id": 1}, "key": "a"}\n\n{"task": "other", "payload": null, "delay": 5}\n'
    code, shown, errors = publish(tieline, tmp_path, lines, "booked")
    assert (code, shown.strip()) == (0, "Stored 2 events"), errors
    assert server.requests[-1][0] == PATH
    assert json.loads(server.bodies[-1]) == {
        "events": [
            {"payload": {"id": 1}, "key": "a", "task": "booked"},
            {"task": "other", "payload": None, "delay": 5},
        ]
    }


def test_refused_lines_are_named_by_their_numbers(server: Server, tieline: Tieline, tmp_path: Path) -> None:
    code, _, errors = publish(tieline, tmp_path, '{"payload": 1}\n{"payload": "refuse me"}\n', "booked")
    assert code == 1
    assert "Line 2: full" in errors
    assert "1 events were refused" in errors


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ("{", "Line 1 is not JSON"),
        ('{"payload": 1, "task": "a"}\n[]', "Line 2 is not an object"),
        ('{"payload": 1}', "Line 1 has no 'task'"),
        ('{"task": "a"}', "Line 1 has no 'payload'"),
        ('{"task": "a", "payload": 1, "Key": 1}', "Line 1 has the unknown field 'Key'"),
    ],
)
def test_a_line_that_is_no_event_ends_the_command(
    tieline: Tieline, tmp_path: Path, lines: str, says: str
) -> None:
    code, _, errors = publish(tieline, tmp_path, lines)
    assert code == 2
    assert says in errors


def test_options_of_one_event_are_refused_beside_a_file(tieline: Tieline, tmp_path: Path) -> None:
    code, _, errors = publish(tieline, tmp_path, "", "--key", "a")
    assert (code, "are in the lines" in errors) == (2, True)
    code, _, errors = tieline("events", "publish")
    assert (code, "Name the EVENT" in errors) == (2, True)


def test_long_files_are_sent_in_batches() -> None:
    line = b'{"task": "a", "payload": 1}\n'
    found = list(batches([line] * 2500, None))
    assert [len(one.events) for one in found] == [1000, 1000, 500]
    assert [found[-1].numbers[0], found[-1].numbers[-1]] == [2001, 2500]
    large = b'{"task": "a", "payload": "%b"}' % (b"x" * 3_000_000)
    assert [len(one.events) for one in batches([large] * 5, None)] == [2, 2, 1]
