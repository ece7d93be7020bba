"""How many runs there were: each is counted once, however often it was reported, and none is left out."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import NOW, record
from tieline_api.errors import ApiError
from tieline_api.runs.history import COUNTED, RunHistory
from tieline_api.runs.index import RunIndex
from tieline_api.runs.records import read_records
from tieline_api.runs.tally import BEFORE, Windows, current
from tieline_api.runs.writing import IndexedMessage
from tieline_core.identity.ids import new_id
from tieline_protocol.run_records import RunRecord, encode

ORGANISATION = new_id()
ENVIRONMENTS = (new_id(), new_id())
SECOND = 1_000_000_000
EPOCH = int(NOW)
WINDOWS = Windows(start=(EPOCH + 100) * SECOND, end=(EPOCH + 200) * SECOND, buckets=7)
ERRORS = ("failed", "dead")


class Platform:
    """The history of runs with its two streams, without an engine."""

    def __init__(self, folder: Path) -> None:
        self.index = RunIndex(folder / "runs.db", max_bytes=64 << 20)
        for direct in (False, True):
            self.index.begin(ORGANISATION, "then", direct=direct)
        self._position = 0

        async def require(_organisation: str) -> None:
            pass

        self.history = RunHistory(
            SimpleNamespace(), SimpleNamespace(), self.index, SimpleNamespace(require=require)  # type: ignore[arg-type]
        )  # fmt: skip

    def report(self, *records: RunRecord, environment: str = ENVIRONMENTS[0], direct: bool = False) -> None:
        self._position += 1
        message = IndexedMessage(self._position, environment, read_records(encode(list(records)))[0])
        self.index.apply(ORGANISATION, [message], position=self._position, direct=direct)


@contextmanager
def running() -> Iterator[Platform]:
    with tempfile.TemporaryDirectory() as folder:
        platform = Platform(Path(folder))
        try:
            yield platform
        finally:
            platform.index.close()


@pytest.fixture
def platform() -> Iterator[Platform]:
    with running() as made:
        yield made


def direct_run(run: str, at: float, *, failed: bool = False) -> RunRecord:
    times = {"queued_at": NOW + at, "started_at": NOW + at, "ended_at": NOW + at + 0.001}
    return record(run, "failed" if failed else "succeeded", attempt=1, kind="webhook", task="orders", **times)


_SECONDS = st.integers(-10, 210)
_RUNS = st.lists(
    st.tuples(
        _SECONDS,
        st.sampled_from(["queued", "running", "succeeded", "failed", "dead", "cancelled"]),
        st.sampled_from(["history", "direct", "both"]),
        st.sampled_from(ENVIRONMENTS),
    ),
    max_size=30,
)


@given(_RUNS)
@settings(max_examples=30)
async def test_every_run_is_counted_once_in_the_window_in_which_it_was_queued(runs: list[Any]) -> None:
    with running() as platform:
        executions: Counter[int] = Counter()
        failures: Counter[int] = Counter()
        for at, status, source, environment in runs:
            run = new_id()
            if source != "direct":
                platform.report(record(run, status, attempt=1, queued_at=NOW + at), environment=environment)
            if source != "history":
                # What the event engine knows of a run counts, whatever a record of a direct run says of it.
                failed = (status in ERRORS) if source == "direct" else True
                for _ in range(2):
                    platform.report(direct_run(run, at, failed=failed), environment=environment, direct=True)
            if 0 <= at < 200:
                bucket = BEFORE if at < 100 else (at - 100) * SECOND // WINDOWS.width
                executions[bucket] += 1
                failures[bucket] += status in ERRORS
        found = await platform.history.tally(ORGANISATION, WINDOWS)
        assert +found.executions == +executions
        assert +found.errors == +failures
        assert current(found.executions) + found.executions[BEFORE] == executions.total()
        for one in ENVIRONMENTS:
            assert found.within[one].executions == sum(
                environment == one and 100 <= at < 200 for at, _, _, environment in runs
            )
            assert found.before[one].executions == sum(
                environment == one and 0 <= at < 100 for at, _, _, environment in runs
            )


async def test_latency_is_the_average_of_runs_that_ended(platform: Platform) -> None:
    for seconds in (1, 2):
        platform.report(
            record(attempt=1, queued_at=NOW + 120, started_at=NOW + 121, ended_at=NOW + 121 + seconds)
        )
    platform.report(record(status="queued", queued_at=NOW + 120))
    platform.report(direct_run(new_id(), 150), environment=ENVIRONMENTS[1], direct=True)
    found = await platform.history.tally(ORGANISATION, WINDOWS)
    assert found.within[ENVIRONMENTS[0]].latency == 1500
    assert found.within[ENVIRONMENTS[1]].latency == pytest.approx(1)
    assert found.before[ENVIRONMENTS[0]].latency == 0


async def test_more_runs_than_a_list_counts_are_all_counted(platform: Platform) -> None:
    most, at_once = COUNTED + 300, 1500
    for start in range(0, most, at_once):
        count = min(at_once, most - start)
        platform.report(*(record(status="dead", attempt=1, queued_at=NOW + 150) for _ in range(count)))
    for _ in range(0, 4500, 1500):
        platform.report(*(direct_run(new_id(), 150) for _ in range(1500)), direct=True)
    found = await platform.history.tally(ORGANISATION, WINDOWS)
    assert (current(found.executions), current(found.errors)) == (most + 4500, most)


async def test_a_run_that_was_queued_before_the_windows_is_not_counted_again_within(
    platform: Platform,
) -> None:
    run = new_id()
    platform.report(record(run, queued_at=NOW - 1000))
    platform.report(direct_run(run, 150), direct=True)
    assert not +(await platform.history.tally(ORGANISATION, WINDOWS)).executions


async def test_made_up_times_do_not_end_the_count(platform: Platform) -> None:
    times: dict[str, Any] = {"started_at": 0.0, "ended_at": 8.9e9}
    platform.report(*(record(status="failed", attempt=1, queued_at=NOW + 150, **times) for _ in range(3)))
    assert current((await platform.history.tally(ORGANISATION, WINDOWS)).executions) == 3


async def test_runs_of_another_organisation_do_not_count(platform: Platform) -> None:
    platform.report(record(queued_at=NOW + 150))
    platform.report(direct_run(new_id(), 150), direct=True)
    assert not +(await platform.history.tally(new_id(), WINDOWS)).executions


async def test_a_count_that_takes_too_long_says_what_to_do(platform: Platform, tmp_path: Path) -> None:
    platform.report(*(record(queued_at=NOW + 150) for _ in range(2000)))
    platform.index._read_seconds = -1
    with pytest.raises(ApiError) as refused:
        await platform.history.tally(ORGANISATION, WINDOWS)
    assert refused.value.status == 503
    assert "narrow it down" in refused.value.message


@given(st.integers(0, 2**62), st.integers(1, 2**62), st.integers(1, 500))
def test_every_moment_of_the_window_is_in_a_bucket(start: int, length: int, buckets: int) -> None:
    windows = Windows(start=start, end=start + length, buckets=buckets)
    assert windows.bucket(start) == 0
    assert 0 <= windows.bucket(windows.end - 1) < buckets
    assert windows.before == max(start - length, 0)
