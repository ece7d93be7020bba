"""A run shows what its code last said, of whichever attempt, whatever order records come in."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.api.runs.run_records import record
from tests.unit.api.runs.test_tags import EVERYWHERE, listed, made, take
from tieline_api.conversion.runs import progress_to_rest
from tieline_core.identity.ids import new_id
from tieline_protocol.run_progress import Progress

pytestmark = pytest.mark.fast


def said(attempt: int, at: float, text: str = "x", fraction: float | None = None) -> Any:
    return Progress(text=text, fraction=fraction, at=at, attempt=attempt)


@given(data=st.data())
@settings(max_examples=20, deadline=None)
def test_the_latest_attempt_counts_and_then_the_latest_time(data: st.DataObject) -> None:
    run = new_id()
    states = st.builds(said, st.integers(1, 3), st.sampled_from([1.0, 2.0]), st.sampled_from("ab"))
    found = data.draw(st.lists(states, min_size=1, max_size=6))
    records = [record(run, "running", one.attempt, progress=one) for one in found]
    records.append(record(run, "succeeded", 3))
    with tempfile.TemporaryDirectory() as folder, made(Path(folder)) as index:
        order = data.draw(st.permutations(records))
        cut = data.draw(st.integers(0, len(order)))
        take(index, order[:cut], *([one] for one in order[cut:]))
        (shown,) = listed(index, EVERYWHERE)
    assert shown.progress == max(found, key=lambda one: one.order)
    assert shown.status == "succeeded"


def test_progress_goes_with_its_run_and_is_counted(tmp_path: Path) -> None:
    run, quiet = new_id(), new_id()
    with made(tmp_path) as index:
        take(index, [record(run, "running", 1, progress=said(1, 5.0, "3 of 10", 0.3)), record(quiet)])
        shown = {one.id: one.progress for one in listed(index, EVERYWHERE)}
        assert shown == {run: said(1, 5.0, "3 of 10", 0.3), quiet: None}
        index.sweep(EVERYWHERE.organisation, first=99)
        assert listed(index, EVERYWHERE) == []


def test_rest_has_the_attempt_that_said_so() -> None:
    found = progress_to_rest(said(2, 5.0, "3 of 10", 0.3))
    assert found is not None
    assert found.model_dump(by_alias=True) == {
        "text": "3 of 10", "fraction": 0.3, "attempt": 2, "at": "1970-01-01T00:00:05.000000Z",
    }  # fmt: skip
    assert progress_to_rest(None) is None
