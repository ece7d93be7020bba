"""Any text is a key, and becomes one token of a subject that no other key has."""

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from nats.js.api import DiscardPolicy

from tieline_core.engine.state_streams import (
    OWN,
    StatePlace,
    activation_of_subject,
    environment_of_subject,
    is_report,
    issues_stream,
    key_of_token,
    key_token,
    schedules_stream,
    state_stream,
    state_streams,
)
from tieline_core.engine.streams import StreamLimits

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=40)


@given(TEXTS)
@example("*")
@example(">")
@example("a.b")
@example("~own")
@example("=2E")
@example(" \t\r\n")
def test_a_key_becomes_one_token_without_wildcards_and_comes_back(key: str) -> None:
    token = key_token(key)
    assert not set(token) & set(".*>~ \t\r\n\0")
    assert token.isascii()
    assert key_of_token(token) == key


@given(TEXTS, TEXTS)
def test_different_keys_have_different_subjects(one: str, other: str) -> None:
    place = StatePlace.of_activation("O", "E", None)
    assert (place.subject(one) == place.subject(other)) == (one == other)


@given(st.text(max_size=20))
@example("=41")
@example("=FF")
@example("~carried-1")
def test_a_token_that_no_key_makes_is_none(token: str) -> None:
    key = key_of_token(token)
    assert key is None or key_token(key) == token


@given(TEXTS)
def test_a_subject_says_whose_it_is(key: str) -> None:
    own = StatePlace.of_activation("O", "E", None)
    user = StatePlace.of_activation("O", "E", "A")
    schedule = StatePlace.of_schedules("O", "E")
    assert activation_of_subject(own.subject(key)) == ("E", OWN)
    assert activation_of_subject(user.subject(key)) == ("E", "A")
    assert activation_of_subject(schedule.subject(key)) is None
    assert {environment_of_subject(place.subject(key)) for place in (own, user, schedule)} == {"E"}
    assert [place.key(place.subject(key)) for place in (own, user, schedule)] == [key] * 3
    assert own.key(f"{own.prefix}.~carried-1") is None


@pytest.mark.parametrize("place", [StatePlace.of_issue_reports, StatePlace.of_approval_reports])
def test_reports_are_beside_the_decisions_and_none_of_them(place: Callable[[str, str], StatePlace]) -> None:
    decisions, reports = StatePlace.of_issues("O", "E"), place("O", "E")
    assert is_report(reports.subject("all"))
    assert not is_report(decisions.subject("0" * 20))
    assert decisions.key(reports.subject("all")) is None
    assert environment_of_subject(reports.subject("all")) == "E"


def test_only_what_nobody_can_delete_makes_room_for_what_is_new() -> None:
    found = {str(one.name): one.discard for one in state_streams("O", StreamLimits())}
    assert found == {
        state_stream("O"): DiscardPolicy.NEW,
        schedules_stream("O"): DiscardPolicy.NEW,
        issues_stream("O"): DiscardPolicy.OLD,
    }
