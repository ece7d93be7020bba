"""The subjects at which the engine keeps how far schedules are, read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieline_core.engine.state_streams import StatePlace, schedule_of_subject

NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=60)


@given(NAMES)
def test_a_schedule_of_any_name_is_read_back(name: str) -> None:
    place = StatePlace.of_schedules("01ORG", "01ENV")
    assert schedule_of_subject(place.subject(name)) == ("01ENV", name)


@pytest.mark.parametrize(
    "subject", ["", "schedules.o.e.~code.versions", "state.o.e.a.k", "schedules.o.e", "schedules.o.e.=zz"]
)
def test_other_subjects_are_of_no_schedule(subject: str) -> None:
    assert schedule_of_subject(subject) is None
