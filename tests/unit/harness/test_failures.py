"""What ``python -m tests`` shows of failures at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import pytest_runtest_logreport
from tests.harness.session import failures


@pytest.fixture
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "failures"
    path.touch()
    monkeypatch.setenv(failures.FILE, str(path))
    return path


def test_without_a_failure_nothing_is_shown(noted: Path) -> None:
    assert failures.shown(noted) == ""


def test_a_failure_is_shown_with_the_end_of_its_text(noted: Path) -> None:
    failures.note("test_a.py::test_b", "x" * 10_000 + "\nE  assert 1 == 2")
    shown = failures.shown(noted)
    assert shown.startswith("test_a.py::test_b\n")
    assert shown.endswith("E  assert 1 == 2")
    assert len(shown) < 3_000


def test_many_failures_do_not_fill_the_screen(noted: Path) -> None:
    for number in range(50):
        failures.note(f"test_{number}", "why")
    assert failures.shown(noted).endswith("test_19\nwhy\n\nand 30 more")


def test_a_failing_test_is_noted(noted: Path) -> None:
    """By the hook of ``tests/conftest.py``, which takes what pytest says of it."""

    def report(outcome: str) -> pytest.TestReport:
        return pytest.TestReport(
            "test_a.py::test_b",
            ("test_a.py", 1, "test_b"),
            {},
            outcome,
            "E  assert 1 == 2",
            "call",  # type: ignore[arg-type]
        )

    pytest_runtest_logreport(report("passed"))
    assert failures.shown(noted) == ""
    pytest_runtest_logreport(report("failed"))
    assert failures.shown(noted) == "test_a.py::test_b\nE  assert 1 == 2"
