"""Finding and ending the programs of a cluster, and no others."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.session.waiting import eventually
from tieline_cluster.processes import MARK, Process, ProcessRecords, end, marked, strays

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
DEAF = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)",
)


@pytest.fixture
def records(tmp_path: Path) -> Iterator[ProcessRecords]:
    yield ProcessRecords(tmp_path / "processes")
    end(marked(tmp_path), grace=0)


def start(records: ProcessRecords, tmp_path: Path, argv: tuple[str, ...] = SLEEP) -> Process:
    return records.start(
        "etcd",
        argv,
        fingerprint="1",
        log=tmp_path / "etcd.log",
        env={MARK: str(tmp_path), "PATH": os.defpath},
    )


def test_a_program_is_found_again_with_what_it_was_started_with(
    records: ProcessRecords, tmp_path: Path
) -> None:
    started = start(records, tmp_path)
    assert ProcessRecords(tmp_path / "processes").find("etcd") == (started, "1")


def test_a_program_that_has_ended_is_not_found(records: ProcessRecords, tmp_path: Path) -> None:
    end([start(records, tmp_path)], grace=5)
    assert records.find("etcd") is None
    assert records.all() == {}


def test_another_program_with_a_reused_number_is_never_taken_for_ours(
    records: ProcessRecords, tmp_path: Path
) -> None:
    path = tmp_path / "processes" / "etcd.json"
    start(records, tmp_path)
    # This test's own number: a mistake would end it.
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pid": os.getpid()}))
    assert records.find("etcd") is None
    end([Process(os.getpid(), 1)], grace=0)


def test_a_record_from_before_a_restart_of_the_machine_is_void(
    records: ProcessRecords, tmp_path: Path
) -> None:
    start(records, tmp_path)
    path = tmp_path / "processes" / "etcd.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"boot": "another"}))
    assert records.find("etcd") is None


def test_a_damaged_record_is_as_none(records: ProcessRecords, tmp_path: Path) -> None:
    (tmp_path / "processes").mkdir()
    (tmp_path / "processes" / "etcd.json").write_text('{"pi')
    assert records.find("etcd") is None


def test_a_program_that_ignores_the_request_to_end_is_killed(records: ProcessRecords, tmp_path: Path) -> None:
    deaf = start(records, tmp_path, DEAF)
    while "deaf" not in (tmp_path / "etcd.log").read_text():
        assert deaf.alive()
    end([deaf], grace=0.2)
    assert not deaf.alive()


def test_what_was_started_but_never_recorded_is_found_by_its_mark(
    records: ProcessRecords, tmp_path: Path
) -> None:
    recorded = start(records, tmp_path)
    environment = {MARK: str(tmp_path)}
    lost = subprocess.Popen(SLEEP, env=environment, start_new_session=True)
    child_of_a_runtime = subprocess.Popen(SLEEP, env=environment, process_group=0)
    everyone = {recorded.pid, lost.pid, child_of_a_runtime.pid}
    try:
        # A process that has just begun a program shows its environment a moment later.
        eventually("all are found", lambda: {one.pid for one in marked(tmp_path)} == everyone)
        assert [one.pid for one in strays(tmp_path, [recorded])] == [lost.pid]
    finally:
        for one in (lost, child_of_a_runtime):
            one.kill()
            one.wait()
