"""Where commands run: readers that leave, full disks, other encodings, narrow terminals, Ctrl+C."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from tests.unit.cli.commands import COMMAND
from tests.unit.cli.commands import tieline as run
from tests.unit.cli.hostile_server import ID, ORGANISATION, Server, Tieline
from tieline.cli import rollout
from tieline.cli.commands import logs
from tieline.cli.remote.contexts import Context, ContextFile
from tieline.cli.terminal import Output, json_text, write

TIME = "2026-11-25T12:00:00.000Z"


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Contexts, which need no platform to be shown."""
    for name in [name for name in os.environ if name.startswith("TIELINE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TIELINE_CONFIG_FOLDER", str(tmp_path / "tieline"))
    for number in range(20):
        ContextFile().save(Context(name=f"c{number}", url="https://x.example", organisation=ORGANISATION))
    return tmp_path


@pytest.mark.parametrize("arguments", [("context", "list"), ("context", "list", "-o", "json")])
def test_a_reader_that_leaves_ends_the_command_quietly(
    configuration: Path, arguments: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full disk")
def test_a_full_disk_is_reported(configuration: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run(
            [*COMMAND, "context", "list", "-o", "json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ended.returncode, ended.stderr) == (
        1,
        "tieline: The output cannot be written: No space left on device\n",
    )


def test_a_command_whose_output_is_closed_does_its_work(configuration: Path) -> None:
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "context", "use", "c1"],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ContextFile().current == "c1"


@pytest.mark.parametrize("columns", ["1", "12", "40"])
def test_a_narrow_terminal_shows_tables(configuration: Path, columns: str) -> None:
    reading, writing = pty.openpty()
    environment = {**os.environ, "COLUMNS": columns, "TERM": "xterm"}
    process = subprocess.Popen(
        [*COMMAND, "context", "list"], stdout=writing, stderr=subprocess.PIPE, env=environment
    )
    os.close(writing)
    shown = b""
    while True:
        try:
            shown += os.read(reading, 65536)
        except OSError:
            break
    assert process.wait(60) == 0
    os.close(reading)
    assert b"Traceback" not in shown
    assert process.stderr is not None
    assert process.stderr.read() == b""


def test_programs_read_the_same_value_in_any_encoding(monkeypatch: pytest.MonkeyPatch) -> None:
    value = {"name": "Bäcker 注文 \U0001f35e \x9b \u202e", "count": 2**53}
    for encoding in ("ascii", "iso-8859-1", "utf-8"):
        raw = io.BytesIO()
        stream = io.TextIOWrapper(raw, encoding=encoding)
        monkeypatch.setattr(sys, "stdout", stream)
        for output, read in ((Output.JSON, json.loads), (Output.YAML, yaml.safe_load)):
            write(value, output)
            stream.flush()
            assert read(raw.getvalue().decode(encoding)) == value  # type: ignore[operator]
            raw.seek(0)
            raw.truncate()
        assert json.loads(json_text(value)) == value
        assert "\x9b" not in json_text(value)


def test_a_locale_without_other_letters_shows_them_escaped(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "TIELINE_CONFIG_FOLDER": str(tmp_path)}
    ended = subprocess.run(
        [*COMMAND, "init", str(tmp_path / "Bäcker"), "--name", "x"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "B\\xe4cker" in ended.stdout


def _interrupt(_: float) -> None:
    raise KeyboardInterrupt


def _replace_sleep(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, sleep: Callable[[float], None]
) -> None:
    """For one module alone: whoever waits for a process sleeps as well."""
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=time.monotonic, sleep=sleep))


def test_ctrl_c_while_a_rollout_is_followed_says_that_it_goes_on(
    server: Server, tieline: Tieline, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = {"id": ID, "name": "v1", "state": "ready", "createdAt": TIME}
    environment = {
        "id": ID,
        "name": "production",
        "status": "draft",
        "deployedVersion": version,
        "rollout": {"state": "progressing"},
        "publicUrl": "",
    }
    project = {"id": ID, "name": "p", "environments": [environment]}

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        return (
            200,
            {"projects": [project]} if path.endswith("/projects") else {"items": [version], **project},
            {},
        )

    server.answer = answer
    _replace_sleep(monkeypatch, rollout, _interrupt)
    code, output, errors = tieline("rollback", "--to", "v1", "--yes")
    assert (code, output) == (130, "")
    assert "The rollout of v1 goes on without this command" in errors
    assert "Traceback" not in errors


def test_ctrl_c_ends_a_log_that_is_followed_and_an_api_that_is_away_does_not(
    server: Server, tieline: Tieline, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"id": ID, "name": "production"}
    line = {"timestamp": TIME, "severity": "INFO", "message": "one"}
    pauses: list[float] = []

    def answer(path: str) -> tuple[int, Any, dict[str, str]]:
        if path.endswith("/projects"):
            return 200, {"projects": [{"id": ID, "name": "p", "environments": [environment]}]}, {}
        if len(pauses) == 1:
            return 500, b"", {}
        more = [line, {**line, "message": "two"}]
        return 200, {"logs": more if pauses else [line]}, {}

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) > 3:
            raise KeyboardInterrupt

    server.answer = answer
    _replace_sleep(monkeypatch, logs, sleep)
    code, output, errors = tieline("logs", "--follow")
    assert code == 130
    assert [text.split()[-1] for text in output.splitlines()] == ["one", "two"]
    assert "lines follow once it answers" in errors
    assert pauses == [2, 4, 2, 2]


def test_a_link_in_a_new_folder_is_not_written_through(tmp_path: Path) -> None:
    folder, target = tmp_path / "new", tmp_path / "target"
    folder.mkdir()
    (folder / ".gitignore").symlink_to(target)
    refused = run("init", str(folder), "--name", "x")
    assert refused.returncode == 1
    assert not target.exists()
    (folder / "main.py").write_text("from tieline import Integration\nintegration = Integration()\n")
    (tmp_path / "deploy").mkdir()
    (tmp_path / "deploy" / "project.yaml").symlink_to(target)
    target.write_text("mine")
    made = run("manifests", str(folder), "--offline", "--force", "--to", str(tmp_path / "deploy"))
    assert made.returncode == 0, made.stderr
    assert target.read_text() == "mine"


@pytest.mark.parametrize("name", ["1.0", "true", "2026-11-25", "null", "a ", "0x10", "x"])
def test_a_new_project_has_the_name_that_was_given(tmp_path: Path, name: str) -> None:
    assert run("init", str(tmp_path / "x"), "--name", name).returncode == 0
    assert yaml.safe_load((tmp_path / "x" / "tieline.yaml").read_text()) == {"project": name}


def test_the_version_needs_no_command() -> None:
    ended = run("--version")
    assert (ended.returncode, ended.stdout.strip()) == (0, version("tieline"))
