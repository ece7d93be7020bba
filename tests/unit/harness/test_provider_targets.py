"""What ``make provider-test`` and ``make provider-proofs`` run, with programs that only note how they are called."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.harness.cluster.kubectl import ROOT
from tests.harness.session import proven
from tieline_catalogue.entry import Proof

_NOTES = """#!/bin/sh
echo "$(basename $0) $TIELINE_CATALOGUE_KEYS $TIELINE_WRITE_PROVEN $*" >> "$NOTES"
exit %s
"""


def made(folder: Path, *arguments: str, tests_end_with: int = 0) -> tuple[int, list[str]]:
    """The status of a target, and the calls of programs."""
    (folder / "bin").mkdir()
    for name, status in (("python", 0), ("pytest", tests_end_with)):
        (folder / "bin" / name).write_text(_NOTES % status)
        (folder / "bin" / name).chmod(0o755)
    (folder / ".installed").touch()
    notes = folder / "notes"
    done = subprocess.run(
        ["make", "--silent", f"VENV={folder}", *arguments],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "NOTES": str(notes)},
        capture_output=True,
        timeout=60,
        check=False,
    )
    return done.returncode, notes.read_text().splitlines()


def test_an_entry_is_tried_in_code_and_in_the_browser_and_what_it_shows_is_written(tmp_path: Path) -> None:
    status, (*checks, tests) = made(tmp_path, "provider-test", "KEY=acme")
    assert status == 0
    files = "tests/unit/emulator/test_entries.py tests/integration/catalogue/test_entries.py"
    assert len(checks) == 2
    assert tests == f"pytest acme 1 {files}"


@pytest.mark.parametrize("ends_with", [0, 1])
def test_the_table_is_written_also_when_a_provider_fails(tmp_path: Path, ends_with: int) -> None:
    status, calls = made(tmp_path, "provider-proofs", tests_end_with=ends_with)
    assert (status != 0) == (ends_with != 0)
    assert [call.partition(" ")[0] for call in calls] == ["pytest", "python"]
    assert "deploy.provider_table" in calls[-1]


def test_entries_are_those_that_are_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert proven.chosen_keys(["github"]) == ["github"]
    monkeypatch.setenv(proven.CHOSEN, "slack,box")
    assert proven.chosen_keys(["github"]) == ["slack", "box"]
    monkeypatch.setenv(proven.CHOSEN, proven.ALL)
    assert len(proven.chosen_keys(["github"])) > 200


def test_a_new_entry_is_added_to_the_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(proven.WRITES, "1")
    shown = {Proof.CONNECT}
    proven.record("acme", shown, among=shown, folder=tmp_path)
    assert proven.proven_of("acme", among=shown, folder=tmp_path) == shown
