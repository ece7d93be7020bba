"""A server that answers as the test says, and commands that know it as their platform."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.hostile_server import ID, ORGANISATION, TOKEN, Server, Tieline


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def tieline(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Tieline:
    for name, value in {
        "TIELINE_URL": server.url,
        "TIELINE_ORGANISATION": ORGANISATION,
        "TIELINE_TOKEN": TOKEN,
        "TIELINE_CONFIG_FOLDER": str(tmp_path / "configuration"),
        "TIELINE_NO_KEYRING": "1",
        "TIELINE_PROJECT": ID,
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("TIELINE_ENVIRONMENT", raising=False)
    monkeypatch.delenv("TIELINE_CONTEXT", raising=False)
    monkeypatch.chdir(tmp_path)
    return Tieline(monkeypatch, capsys)
