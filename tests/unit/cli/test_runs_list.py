"""``tieline runs``: which dead runs are left, what became of the others, and whether the list is all there is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline

SECOND = f"{ID[:-1]}Z"
TIME = "2026-11-25T12:00:00.000Z"
RUN = {"id": ID, "kind": "event", "task": "order.created", "status": "dead", "attempt": 1, "queuedAt": TIME}


@pytest.fixture
def runs(server: Server) -> list[dict[str, Any]]:
    """The project's runs, which the test may change."""
    found: list[dict[str, Any]] = [dict(RUN)]

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        name = path.removeprefix(f"/api/v2/o/{ORGANISATION}/")
        known = {
            "projects": {"projects": [{"id": ID, "name": "orders", "environments": []}]},
            f"projects/{ID}": {"id": ID, "name": "orders", "environments": []},
            f"projects/{ID}/runs": {"items": found},
            f"projects/{ID}/runs/{ID}": found[0],
        }
        return 200, known[name], {}

    server.answer = answer
    return found


def asked(server: Server) -> dict[str, list[str]]:
    """The query of the last request for runs."""
    return parse_qs(urlsplit(server.requests[-1][0]).query)


def test_dead_runs_that_are_left_are_those_neither_run_again_nor_discarded(
    server: Server, tieline: Tieline, runs: list[dict[str, Any]]
) -> None:
    code, _, errors = tieline("runs", "list", "--project", "orders", "--left")
    assert code == 0, errors
    query = asked(server)
    assert (query["status"], query["discarded"], query["replayed"]) == (["dead"], ["false"], ["false"])
    code, _, errors = tieline("runs", "list", "--project", "orders", "--left", "--status", "succeeded")
    assert code == 2
    assert "--left" in errors


def test_a_list_says_which_dead_letters_are_dealt_with(tieline: Tieline, runs: list[dict[str, Any]]) -> None:
    runs[:] = [{**RUN, "replayedBy": ID}, {**RUN, "discardedAt": TIME}, RUN]
    _, shown, _ = tieline("runs", "list", "--project", "orders")
    assert "waits behind" not in shown
    assert [line.count("dead, replayed") for line in shown.splitlines()] == [0, 1, 0, 0]
    assert [line.count("dead, discarded") for line in shown.splitlines()] == [0, 0, 1, 0]


def test_a_list_says_which_run_a_queued_one_waits_behind(
    tieline: Tieline, runs: list[dict[str, Any]]
) -> None:
    runs[:] = [{**RUN, "status": "queued", "attempt": 0, "key": "ann", "waitsBehind": ID}]
    _, shown, _ = tieline("runs", "list", "--project", "orders")
    assert f"waits behind {ID}" in shown


@pytest.mark.parametrize(
    ("waits_for", "text"),
    [
        ("slot", "waits for a pod with room for it"),
        ("throttle", "waits for its turn"),
        ("new-word", "waits for new-word"),
    ],
)
def test_a_list_and_a_run_say_what_it_waits_for(
    tieline: Tieline, runs: list[dict[str, Any]], waits_for: str, text: str
) -> None:
    waiting = {**RUN, "status": "queued", "attempt": 0, "waitsFor": waits_for}
    waiting.pop("error", None)
    runs[:] = [waiting]
    _, shown, _ = tieline("runs", "list", "--project", "orders")
    assert text in shown
    _, shown, _ = tieline("runs", "show", ID, "--project", "orders")
    (line,) = [one for one in shown.splitlines() if one.startswith("waits for:")]
    assert line.partition(":")[2].strip() == text.removeprefix("waits for ")


@pytest.mark.parametrize(("count", "more"), [(20, False), (21, True)])
def test_a_list_that_is_cut_says_so_and_a_program_gets_what_it_asked_for(
    tieline: Tieline, runs: list[dict[str, Any]], count: int, more: bool
) -> None:
    runs[:] = [RUN] * count
    _, shown, errors = tieline("runs", "list", "--project", "orders", "--output", "json")
    assert len(json.loads(shown)) == 20
    assert ("--limit" in errors) == more


def test_a_run_shows_its_activation_and_when_its_dead_letter_was_discarded(
    tieline: Tieline, runs: list[dict[str, Any]]
) -> None:
    runs[:] = [{**RUN, "activationId": "01JD3YDBJAZX9KQW8T2V4N6P0H", "discardedAt": TIME}]
    _, shown, _ = tieline("runs", "show", ID, "--project", "orders")
    assert "01JD3YDBJAZX9KQW8T2V4N6P0H" in shown
    (discarded,) = [line for line in shown.splitlines() if line.startswith("discarded:")]
    assert "2026-11-25" in discarded


def test_runs_are_found_by_their_tags_and_show_them(
    server: Server, tieline: Tieline, runs: list[dict[str, Any]]
) -> None:
    runs[:] = [{**RUN, "tags": [{"name": "order", "value": "N-1101"}, {"name": "paid", "value": "True"}]}]
    command = ("runs", "list", "--project", "orders")
    code, shown, errors = tieline(
        *command, "--tag", "order=N-1101", "--tag", "note=a=b", "--find", "N-1101", "--status", "dead",
        "--status", "failed",
    )  # fmt: skip
    assert code == 0, errors
    query = asked(server)
    assert (query["tag"], query["find"]) == (["order:N-1101", "note:a=b"], ["N-1101"])
    assert query["status"] == ["dead", "failed"]
    assert "order=N-1101, paid=True" in " ".join(shown.split())
    code, shown, _ = tieline("runs", "show", ID, "--project", "orders")
    assert "order=N-1101, paid=True" in shown
    for bad in ("order", "order=", "Order=1", "=1"):
        code, _, errors = tieline(*command, "--tag", bad)
        assert (code, "order=N-1101" in errors) == (2, True)


def test_many_runs_are_chosen_by_tag(server: Server, tieline: Tieline, runs: list[dict[str, Any]]) -> None:
    found = server.answer

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        return (
            (202, {"count": 1, "skipped": 0, "more": False}, {}) if path.endswith("/replay") else found(path)
        )

    server.answer = answer
    code, _, errors = tieline("replay", "--project", "orders", "--tag", "order=N-1101", "--yes")
    assert code == 0, errors
    assert [json.loads(body) for body in server.bodies[-2:]] == [
        {"tag": ["order:N-1101"], "dryRun": True},
        {"tag": ["order:N-1101"]},
    ]


@pytest.mark.parametrize("action", ["replay", "cancel", "discard"])
def test_many_runs_are_chosen_by_their_ids(
    server: Server, tieline: Tieline, runs: list[dict[str, Any]], action: str
) -> None:
    found, counted = server.answer, {"count": 2, "skipped": 0, "more": False}
    server.answer = lambda path: (202, counted, {}) if path.endswith(action) else found(path)
    command = ("runs", action, "--project", "orders", "--id", ID, "--id", SECOND, "--yes")
    code, _, errors = tieline(*command)
    assert code == 0, errors
    assert json.loads(server.bodies[-1]) == {"ids": [ID, SECOND]}
    assert tieline("runs", action, ID, "--project", "orders", "--id", SECOND)[0] == 2


@pytest.mark.parametrize("command", [("replay",), ("runs", "replay")])
@pytest.mark.parametrize(
    ("given", "name", "occurrence"),
    [("ship", "ship", 1), ("ship#2", "ship", 2), ("#2", "#2", 1), ("a#b", "a#b", 1), ("a#2#1", "a#2", 1)],
)
def test_a_run_is_replayed_from_a_step(
    server: Server,
    tieline: Tieline,
    runs: list[dict[str, Any]],
    command: tuple[str, ...],
    given: str,
    name: str,
    occurrence: int,
) -> None:
    known = server.answer
    server.answer = lambda path: (202, RUN, {}) if path.endswith("/replay") else known(path)
    code, shown, errors = tieline(*command, ID, "--project", "orders", "--from-step", given)
    assert code == 0, errors
    assert f"Run again: {ID} as {ID}" in shown
    assert json.loads(server.bodies[-1]) == {"fromStep": {"name": name, "occurrence": occurrence}}


def test_a_run_shows_how_far_its_code_says_it_is(tieline: Tieline, runs: list[dict[str, Any]]) -> None:
    said = {"text": "3 of\x1b[31m 10", "fraction": 0.3, "attempt": 1, "at": TIME}
    runs[:] = [{**RUN, "status": "running", "attempt": 2, "progress": said}]
    _, shown, _ = tieline("runs", "show", ID, "--project", "orders")
    assert "10 (30 %), in attempt 1" in shown
    assert "\x1b[31m" not in shown
    _, shown, _ = tieline("runs", "list", "--project", "orders")
    assert "(30 %)" in " ".join(shown.split())


def test_a_signal_is_sent_with_its_payload(
    server: Server, tieline: Tieline, runs: list[dict[str, Any]]
) -> None:
    known = server.answer
    status = "stored"
    server.answer = lambda path: (202, {"status": status}, {}) if "/signals/" in path else known(path)
    command = ("runs", "signal", ID, "address")
    code, shown, errors = tieline(*command, '{"city": "Bonn"}', "--project", "orders", "--id", "a")
    assert (code, shown.strip()) == (0, f"Sent to {ID}"), errors
    assert server.requests[-1][0].endswith(f"/projects/{ID}/runs/{ID}/signals/address")
    assert json.loads(server.bodies[-1]) == {"payload": {"city": "Bonn"}, "id": "a"}
    status = "duplicate"
    _, shown, _ = tieline(*command, "--project", "orders")
    assert "already, and not again" in shown
    assert json.loads(server.bodies[-1]) == {"payload": None}
    code, _, errors = tieline(*command, "{", "--project", "orders")
    assert (code, "is not JSON" in errors) == (2, True)


@pytest.mark.parametrize("more", [("--status", "dead"), (ID, "--payload", "1")])
def test_a_step_is_of_one_run_with_its_own_input(
    tieline: Tieline, runs: list[dict[str, Any]], more: tuple[str, ...]
) -> None:
    code, _, errors = tieline("runs", "replay", *more, "--project", "orders", "--from-step", "ship")
    assert code == 2
    assert "--from-step" in errors


def test_a_run_is_downloaded_for_its_owner_alone(
    server: Server,
    tieline: Tieline,
    runs: list[dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recording = {"format": 1, "id": "../../evil", "notes": ["The input is \x1b[31mnot kept"]}
    known = server.answer
    server.answer = lambda path: (200, recording, {}) if path.endswith("/recording") else known(path)
    monkeypatch.chdir(tmp_path)
    code, shown, errors = tieline("runs", "download", ID, "--project", "orders")
    assert code == 0, errors
    assert f"Written: run-{ID}.json" in shown
    assert "not kept" in errors
    assert "\x1b" not in errors
    file = tmp_path / f"run-{ID}.json"
    assert json.loads(file.read_text()) == recording
    assert file.stat().st_mode & 0o077 == 0
    other = tmp_path / "other.json"
    assert tieline("runs", "download", ID, "--project", "orders", "-o", str(other))[0] == 0
    assert json.loads(other.read_text()) == recording
    code, shown, _ = tieline("runs", "download", ID, "--project", "orders", "-o", "-")
    assert json.loads(shown) == recording
