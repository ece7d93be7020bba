"""What ``make demo-down`` leaves in the checkout."""

from __future__ import annotations

from pathlib import Path

from tieline_cluster.demo import remove_files


def _demo(folder: Path) -> Path:
    work = folder / ".tieline"
    for name in ("bin", "login", "platform/forwards", "quickstart"):
        (work / name).mkdir(parents=True)
        (work / name / "file").touch()
    (work / "demo.env").touch()
    return work


def test_nothing_of_the_demo_is_left(tmp_path: Path) -> None:
    work = _demo(tmp_path)
    remove_files(work)
    assert not work.exists()


def test_files_of_others_stay(tmp_path: Path) -> None:
    work = _demo(tmp_path)
    (work / "state.json").touch()
    remove_files(work)
    assert [path.name for path in work.iterdir()] == ["state.json"]


def test_a_second_time_is_no_error(tmp_path: Path) -> None:
    remove_files(tmp_path / "absent")
