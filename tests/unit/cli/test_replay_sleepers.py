"""Runs that wait are replayed in a process of its own, which reaches nothing."""

from __future__ import annotations

import base64
import json
import socket
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tieline.cli import replay_sleepers
from tieline.cli.replay_sleepers import replay_in_subprocess
from tieline.events.steps import work_of
from tieline_protocol.event_streams import hashed

RUNS = (("01A", "even"), ("01B", "odd"))

HEAD = """
import os, socket, subprocess, sys, time
from pathlib import Path
from tieline import Context, Event, Integration, NewEvent

integration = Integration()

@integration.event("order")
async def order(ctx: Context, event: Event) -> None:
"""


def sleeper(run: str, payload: Any) -> dict[str, Any]:
    return {
        "metadata": {"run": run, "kind": "event", "task": "order", "queued_at": 1.0},
        "payload": base64.b64encode(json.dumps(payload).encode()).decode(),
        "steps": [
            {
                "name": "fetch",
                "occurrence": 1,
                "place": 1,
                "work": work_of(len, ("A",), {}),
                "version": "v1",
                "result": "1",
            }
        ],
        "outcomes": [],
    }


def replayed(folder: Path, body: str, *runs: dict[str, Any]) -> list[dict[str, Any]]:
    (folder / "main.py").write_text(HEAD + textwrap.indent(textwrap.dedent(body), "    "))
    return replay_in_subprocess(folder, runs)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        yield server


def test_each_run_has_its_verdict(tmp_path: Path) -> None:
    body = """
    if event.payload == "odd":
        await ctx.step("odd", len, "A")
    await ctx.step("fetch", len, "A")
    """
    found = replayed(tmp_path, body, sleeper("01A", "even"), sleeper("01B", "odd"), {"metadata": None})
    assert [(one["run"], one["verdict"]) for one in found] == [
        ("01A", "continues"),
        ("01B", "stops"),
        ("", "unknown"),
    ]
    assert found[1]["location"] == "main.py:12"


def test_runs_that_wait_for_a_signal_are_judged_and_nothing_is_published(tmp_path: Path) -> None:
    body = """
    await ctx.wait_for_signal("stop" if event.payload == "odd" else "go", timeout=60)
    """
    waits = {
        "name": "signal: go", "occurrence": 1, "place": 1, "work": hashed("signal go"), "version": "v1",
        "result": json.dumps({"index": "of its run", "since": 0, "until": 9e9}),
    }  # fmt: skip
    found = replayed(tmp_path, body, *({**sleeper(run, one), "steps": [waits]} for run, one in RUNS))
    assert [(one["run"], one["verdict"]) for one in found] == [("01A", "continues"), ("01B", "stops")]
    body = """
    await ctx.publish_many([NewEvent("order", {})])
    """
    (found_one,) = replayed(tmp_path, body, sleeper("01A", "even"))
    assert (found_one["verdict"], "published outside of a step" in found_one["reason"]) == ("unknown", True)


def test_code_reaches_nothing(tmp_path: Path, listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    body = f"""
    try:
        match event.payload:
            case "connect": socket.create_connection(("127.0.0.1", {port}))
            case "program": subprocess.run(["touch", {str(tmp_path / "program")!r}])
            case "file": Path({str(tmp_path / "file")!r}).write_text("written")
            case "shell": os.system("touch {tmp_path / "shell"}")
    except BaseException:
        pass
    await ctx.step("fetch", len, "A")
    """
    kinds = ("connect", "program", "file", "shell")
    found = replayed(tmp_path, body, *(sleeper("01A", kind) for kind in kinds))
    assert [one["verdict"] for one in found] == ["unknown"] * 4
    assert all("outside of a step" in one["reason"] for one in found)
    with pytest.raises(BlockingIOError):
        listening.accept()
    assert {path.name for path in tmp_path.iterdir()} == {"main.py"}


def test_runs_after_the_end_of_the_process_are_unknown(tmp_path: Path) -> None:
    body = """
    if event.payload == "end":
        os._exit(0)
    await ctx.step("fetch", len, "A")
    """
    found = replayed(tmp_path, body, sleeper("01A", ""), sleeper("01B", "end"), sleeper("01C", ""))
    assert [one["verdict"] for one in found] == ["continues", "unknown", "unknown"]


def test_code_that_blocks_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_sleepers, "TIMEOUT", 2.0)
    (found,) = replayed(tmp_path, "while True:\n    pass", sleeper("01A", ""))
    assert (found["verdict"], found["reason"]) == ("unknown", "replaying the runs takes more than 2 seconds")


def test_answers_that_the_code_writes_itself_are_bounded_and_checked() -> None:
    lines = ["{", "7", '{"number": 0}', json.dumps({"number": 1, "verdict": "fine"})]
    good = {"run": "r", "task": "t", "verdict": "stops", "reason": "x" * 9000, "location": ""}
    found = replay_sleepers._answers("\n".join([*lines, json.dumps({"number": 2, **good})]))
    assert list(found) == [2]
    assert len(found[2]["reason"]) == 2000
