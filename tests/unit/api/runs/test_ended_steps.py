"""Which results a run takes over that begins at a step of another, and what is said where it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_api.errors import ApiError
from tieline_api.runs.ended_steps import EndedSteps, StepName, taken_over
from tieline_protocol.event_streams import hashed
from tieline_protocol.events import EventMetadata
from tieline_protocol.kept_results import KeptOutcome, KeptResult
from tieline_protocol.run_records import StepApproval, StepRecord

pytestmark = pytest.mark.fast


def step(name: str, occurrence: int = 1, **fields: Any) -> StepRecord:
    return StepRecord(name=name, occurrence=occurrence, started_at=1.0, ended_at=2.0, **fields)


def result(name: str, place: int, occurrence: int = 1, **fields: Any) -> KeptResult:
    content = {"name_hash": hashed(name), "result": f'"{name}"', **fields}
    return KeptResult(name=name, occurrence=occurrence, place=place, **content)


STEPS = [step("book"), step("page"), step("page", 2), step("mail", error="away")]
RESULTS = [result("book", 1), result("page", 2), result("page", 3, occurrence=2)]
ENDED = EndedSteps(STEPS, RESULTS)
EVENT = EventMetadata(run="r", kind="event", task="paid", queued_at=1.0).header()


@pytest.mark.parametrize(
    ("first", "count"),
    [
        (StepName("book"), 0),
        (StepName("page"), 1),
        (StepName("page", 2), 2),
        (StepName("mail"), 3),
    ],
)
def test_results_before_the_step_are_taken_over(first: StepName, count: int) -> None:
    assert taken_over(ENDED, first) == RESULTS[:count]


@pytest.mark.parametrize("first", [StepName("ship"), StepName("book", 2)])
def test_a_step_that_does_not_exist_is_refused(first: StepName) -> None:
    with pytest.raises(ApiError) as refused:
        taken_over(ENDED, first)
    assert refused.value.status == 422
    assert "'book', 'page', 'page' (occurrence 2), 'mail'" in refused.value.message


def test_a_run_without_steps_has_none_to_begin_at() -> None:
    with pytest.raises(ApiError) as refused:
        taken_over(EndedSteps([], None), StepName("book"))
    assert refused.value.status == 422
    assert "did no step" in refused.value.message


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"missing": "masked"}, "has a secret in it"),
        ({"missing": "large"}, "512 KiB"),
        ({"is_wait": True}, "while it waited"),
        ({"is_wait": True, "outcome": KeptOutcome(wait="w", event="{")}, "cannot be read"),
        ({"is_wait": True, "outcome": KeptOutcome(wait="w", event=f"{EVENT}\r\nX: 1")}, "cannot be read"),
    ],
)
def test_a_result_that_is_not_whole_is_not_taken_over(changed: dict[str, Any], said: str) -> None:
    ended = EndedSteps(STEPS, [RESULTS[0], result("page", 2, **changed), RESULTS[2]])
    with pytest.raises(ApiError) as refused:
        taken_over(ended, StepName("mail"))
    assert refused.value.status == 409
    assert said in refused.value.message
    assert "'page'" in refused.value.message
    assert taken_over(ended, StepName("page")) == RESULTS[:1]


def test_a_wait_that_has_ended_is_taken_over() -> None:
    wait = result("page", 2, is_wait=True, outcome=KeptOutcome(wait="w", event=EVENT, payload="1"))
    ended = EndedSteps(STEPS, [RESULTS[0], wait, RESULTS[2]])
    assert taken_over(ended, StepName("mail"))[1] == wait


def test_an_approval_that_nobody_has_answered_is_not_taken_over() -> None:
    open_one = step("page", approval=StepApproval(id="a", state="open"))
    with pytest.raises(ApiError) as refused:
        taken_over(EndedSteps([STEPS[0], open_one, *STEPS[2:]], RESULTS), StepName("mail"))
    assert refused.value.status == 409


def test_without_results_a_run_begins_at_its_first_step_alone() -> None:
    ended = EndedSteps(STEPS, None)
    assert taken_over(ended, StepName("book")) == []
    with pytest.raises(ApiError) as refused:
        taken_over(ended, StepName("page"))
    assert (refused.value.status, "not kept" in refused.value.message) == (409, True)
