"""Results of steps in the record of a run's end: whole, masked and said so, or left out; and read defensively."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

import pytest

from tieline.events.done_steps import DoneSteps
from tieline.events.run_store import KeptStep
from tieline.events.wait_store import KeptEvent
from tieline_protocol import kept_results
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.kept_results import (
    MAX_RESULTS_BYTES,
    InvalidResultsError,
    KeptResult,
    outcome_name,
    packed,
    unpacked,
)

pytestmark = pytest.mark.fast

STEP = KeptStep(name="book", occurrence=1, place=1, work="w", version="v1", result=b'{"id": 7}')
EVENT = KeptEvent(metadata=EventMetadata(run="r", kind="event", task="paid", queued_at=1.0), payload=b"480")
HASH = hashed("book")


def hide(text: str) -> str:
    return text.replace("s3cret", "***")


def test_results_are_read_as_they_were_written() -> None:
    done = DoneSteps("run", "v1")
    done.add(STEP)
    done.add(replace(STEP, name="bööking \ud800", occurrence=2, run="origin"))
    first, second = found = done.kept(hide)
    assert (first.result, first.missing, first.idempotency_key) == ('{"id": 7}', "", f"run/{HASH}/1")
    assert second.idempotency_key.startswith("origin/")
    assert unpacked(packed(found)) == found


def test_a_secret_is_masked_and_said_so() -> None:
    done = DoneSteps("run", "v1")
    done.add(replace(STEP, result=b'"s3cret"'))
    (found,) = done.kept(hide)
    assert (found.result, found.missing) == ('"***"', "masked")


def test_what_has_no_room_is_left_out_and_said_so() -> None:
    done = DoneSteps("run", "v1")
    done.add(replace(STEP, result=b"1" * MAX_RESULTS_BYTES))
    done.add(replace(STEP, name="page"))
    whole, left_out = done.kept(hide)
    assert (len(whole.result), whole.missing) == (MAX_RESULTS_BYTES, "")
    assert (left_out.name, left_out.result, left_out.missing) == ("page", "", "large")


@pytest.mark.parametrize("event", [EVENT, None])
def test_the_outcome_of_a_wait_is_kept_with_its_step(event: KeptEvent | None) -> None:
    done = DoneSteps("run", "v1")
    done.add(STEP)
    done.waits("book", 1, outcome_name(HASH, 1))
    (open_one,) = done.kept(hide)
    assert (open_one.is_wait, open_one.outcome) == (True, None)
    done.ended(outcome_name(HASH, 1), event)
    (found,) = done.kept(hide)
    assert found.outcome is not None
    assert found.outcome.payload == ("480" if event else "")
    assert found.outcome.event == (EVENT.metadata.header() if event else None)
    assert unpacked(packed([found])) == [found]


GOOD: dict[str, Any] = {"name": "book", "name_hash": HASH, "occurrence": 1, "place": 1}


def test_the_least_that_a_result_has_is_read() -> None:
    content = zlib.compress(json.dumps([{**GOOD, "new": 1}]).encode())
    assert unpacked(content) == [KeptResult(**GOOD)]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no zlib",
        zlib.compress(b"[")[:-2],
        zlib.compress(b"{}"),
        zlib.compress(b"[1]"),
        zlib.compress(b"[" * 100_000),
        zlib.compress(b" " * (64 << 20)),
        zlib.compress(json.dumps([GOOD] * (kept_results.MAX_RESULTS + 1)).encode()),
        *(
            zlib.compress(json.dumps([{**GOOD, **wrong}]).encode())
            for wrong in (
                {"name": None},
                {"name": "x" * 257},
                {"name_hash": ">"},
                {"name_hash": "*" * 32},
                {"occurrence": 0},
                {"occurrence": True},
                {"occurrence": 1e9},
                {"place": -1},
                {"place": "1"},
                {"result": 1},
                {"missing": "stolen"},
                {"missing": []},
                {"outcome": "x"},
                {"outcome": {"wait": 1}},
                {"run": "x" * 300},
            )
        ),
    ],
)
def test_what_nobody_wrote_is_refused(content: bytes) -> None:
    with pytest.raises(InvalidResultsError):
        unpacked(content)
