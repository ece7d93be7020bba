"""Answers of other systems that mean "too many requests", and until when."""

import math
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from tieline_protocol.answer_paths import MISSING
from tieline_protocol.limit_answers import (
    LONGEST_SECONDS,
    USUAL,
    LimitAnswers,
    TimeUnit,
    remaining_of,
    wait_of,
)
from tieline_protocol.request_limits import MAX_PAUSE_SECONDS

NOW = 1_700_000_000.0
SHOPIFY_COST = {
    "cost": {
        "requestedQueryCost": 101,
        "throttleStatus": {"maximumAvailable": 1000.0, "currentlyAvailable": 1, "restoreRate": 50.0},
    }
}
GITHUB_COST = {
    "available": "data.rateLimit.remaining",
    "reset": "data.rateLimit.resetAt",
    "requested": "data.rateLimit.cost",
}


def read(answers: LimitAnswers, status: int, headers: dict[str, str], body: Any = MISSING) -> Any:
    """(refused, seconds), or None."""
    found = answers.read(status, CIMultiDict(headers), body, now=NOW)
    return None if found is None else (found.refused, found.seconds)


@pytest.mark.parametrize(
    ("status", "headers", "body", "expected"),
    [
        (429, {}, MISSING, (True, None)),
        (429, {"retry-after": "7"}, MISSING, (True, 7.0)),
        (429, {"Retry-After": "2.0"}, MISSING, (True, 2.0)),
        (429, {"Retry-After": "Tue, 14 Nov 2023 22:13:50 GMT"}, MISSING, (True, 30.0)),
        (429, {"Retry-After": "2023-11-14T22:13:50Z"}, MISSING, (True, 30.0)),
        (429, {"Retry-After": "2023-11-14T23:13:50+01:00"}, MISSING, (True, 30.0)),
        (429, {"Retry-After": "1700000030"}, MISSING, (True, 30.0)),
        (429, {"Retry-After": "soon"}, MISSING, (True, None)),
        (429, {"Retry-After": "-5"}, MISSING, (True, None)),
        (429, {"Retry-After": "NaN"}, MISSING, (True, None)),
        (429, {"Retry-After": "1e308"}, MISSING, (True, None)),
        (429, {"Retry-After": "9999-12-31T23:59:59Z"}, MISSING, (True, None)),
        (429, {"Retry-After": "7200"}, MISSING, (True, MAX_PAUSE_SECONDS)),
        (429, {"Retry-After": "soon", "X-RateLimit-Reset": "1700000030"}, MISSING, (True, 30.0)),
        (429, {"X-RateLimit-Reset": "1700000030500"}, MISSING, (True, 30.5)),
        (429, {"X-RateLimit-Reset": "30"}, MISSING, (True, 30.0)),
        (429, {"X-RateLimit-Reset": "1699999999"}, MISSING, (True, 0.0)),
        (429, {"RateLimit": "limit=100, remaining=0, reset=5"}, MISSING, (True, 5.0)),
        (429, {"RateLimit": '"day";r=0;t=9, "minute";r=3;t=2'}, MISSING, (True, 9.0)),
        (429, {"RateLimit": '"a;r=5";r=0', "RateLimit-Policy": '"a;r=5";q=10;w=60'}, MISSING, (True, 60.0)),
        (503, {"Retry-After": "7"}, MISSING, (True, 7.0)),
        (503, {}, MISSING, None),
        (403, {}, MISSING, None),
        (403, {"Retry-After": "60"}, MISSING, (True, 60.0)),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000030"}, MISSING, (True, 30.0)),
        (403, {"X-RateLimit-Remaining": "4999", "X-RateLimit-Reset": "1700000030"}, MISSING, None),
        (404, {"X-RateLimit-Remaining": "0"}, MISSING, None),
        (200, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1700000030"}, MISSING, None),
        (200, {"Retry-After": "60"}, MISSING, None),
        (200, {"X-Shopify-Shop-Api-Call-Limit": "32/40"}, MISSING, None),
        (200, {"X-Shopify-Shop-Api-Call-Limit": "40/40"}, MISSING, (False, 1.0)),
        (200, {"Retry-After": "30"}, {"ok": False, "error": "ratelimited"}, (True, 30.0)),
        (200, {}, {"ok": True, "error": "ratelimited"}, None),
        (200, {}, {"ok": False, "error": "invalid_auth"}, None),
        (200, {}, {"errors": [{"type": "RATE_LIMITED"}]}, (True, None)),
        (
            200,
            {},
            {"errors": [{"extensions": {"code": "THROTTLED"}}], "extensions": SHOPIFY_COST},
            (True, 2.0),
        ),
        (200, {}, {"data": {}, "extensions": SHOPIFY_COST}, (False, 2.0)),
        (200, {}, {"error": "the word ratelimited in a longer text"}, None),
        (200, {}, ["ratelimited"], None),
    ],
)
def test_the_usual_answers_are_understood(
    status: int, headers: dict[str, str], body: Any, expected: tuple[bool, float | None] | None
) -> None:
    assert read(USUAL, status, headers, body) == expected


@pytest.mark.parametrize(
    ("limits", "status", "headers", "body", "expected"),
    [
        # What the system names counts, and nothing else for that status.
        (
            {"status": 429, "header": "X-Reset", "unit": "milliseconds"},
            429,
            {"X-Reset": "1500", "Retry-After": "9"},
            None,
            (True, 1.5),
        ),
        ({"status": 429, "header": "X-Reset"}, 429, {"Retry-After": "9"}, None, (True, 9.0)),
        ({"status": 429, "header": "X-Reset"}, 429, {}, None, (True, None)),
        ({"status": 420, "header": "Retry-After"}, 420, {"Retry-After": "9"}, None, (True, 9.0)),
        ({"status": 420, "header": "Retry-After"}, 429, {"Retry-After": "9"}, None, (True, 9.0)),
        ({"status": 403, "header": "Retry-After"}, 403, {}, None, None),
        ({"status": 403, "header": "Retry-After"}, 403, {"X-RateLimit-Remaining": "0"}, None, None),
        ({"status": 403, "remaining": "X-Left", "wait": "1m"}, 403, {"X-Left": "0"}, None, (True, 60.0)),
        ({"status": 403, "remaining": "X-Left", "wait": "1m"}, 403, {"X-Left": "1"}, None, None),
        (
            {"remaining": "X-Left", "header": "X-Reset", "unit": "seconds"},
            200,
            {"X-Left": "0", "X-Reset": "4"},
            None,
            (False, 4.0),
        ),
        (
            {"remaining": "X-Left", "header": "X-Reset", "unit": "epochSeconds"},
            200,
            {"X-Left": "0", "X-Reset": "4"},
            None,
            (False, 0.0),
        ),
        ({"status": 429, "header": "X-Reset", "unit": "iso8601"}, 429, {"X-Reset": "30"}, None, (True, None)),
        (
            {"status": 200, "path": "errors.0.code", "equals": "88"},
            200,
            {},
            {"errors": [{"code": 88}]},
            (True, None),
        ),
        (
            {"status": 200, "path": "/errors/0/code", "in": ["88", "89"]},
            200,
            {},
            {"errors": [{"code": 89}]},
            (True, None),
        ),
        ({"status": 200, "path": "errors.0.code", "equals": "88"}, 200, {}, {"errors": [{"code": 8}]}, None),
        ({"status": 200, "path": "errors.0.code", "equals": "88"}, 200, {}, MISSING, None),
        (
            {"status": 200, "path": "throttled", "equals": "true", "resetPath": "parameters.retry_after"},
            200,
            {},
            {"throttled": True, "parameters": {"retry_after": 3}},
            (True, 3.0),
        ),
        (
            {"status": 400, "path": "code", "equals": "x", "header": "Retry-After", "wait": "5s"},
            400,
            {},
            {"code": "x"},
            (True, 5.0),
        ),
    ],
)
def test_a_system_says_which_answers_count(
    limits: dict[str, Any], status: int, headers: dict[str, str], body: Any, expected: Any
) -> None:
    assert read(LimitAnswers.parse({"answers": [limits]}), status, headers, body) == expected


def test_the_cost_of_graphql_is_read_where_the_system_says() -> None:
    answers = LimitAnswers.parse({"cost": GITHUB_COST})
    limit = {"remaining": 3, "cost": 5, "resetAt": "2023-11-14T22:13:50Z"}
    assert read(answers, 200, {}, {"data": {"rateLimit": limit}}) == (False, 30.0)
    assert read(answers, 200, {}, {"data": {"rateLimit": {**limit, "remaining": 5}}}) is None
    assert read(answers, 200, {}, {"data": {"rateLimit": {**limit, "remaining": "many"}}}) is None


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"answers": {"status": 429}}, "answers must be a list"),
        ({"answers": [{}] * 17}, "at most 16"),
        ({"answers": ["x"]}, "answers[0]: must be an object"),
        ({"answers": [{"header": "Retry-After"}]}, "needs status, path or remaining"),
        ({"answers": [{"status": 99}]}, "status must be a number"),
        ({"answers": [{"status": True}]}, "status must be a number"),
        ({"answers": [{"status": 200, "path": "error"}]}, "path needs equals or in"),
        ({"answers": [{"status": 200, "path": "a", "equals": "x", "in": ["y"]}]}, "one of equals and in"),
        ({"answers": [{"status": 200, "path": "a", "equals": {}}]}, "must be texts"),
        ({"answers": [{"status": 429, "header": "a b"}]}, "name of a header"),
        ({"answers": [{"status": 429, "unit": "days"}]}, "unit must be one of seconds"),
        ({"answers": [{"status": 429, "wait": "2 weeks"}]}, "per must be"),
        ({"cost": {"available": "left"}}, "cost needs available, and restoreRate or reset"),
    ],
)
def test_a_rule_that_cannot_be_is_refused(limits: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says.replace("[", r"\[")):
        LimitAnswers.parse(limits)


HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "Retry-After",
            "X-RateLimit-Remaining",
            "X-RateLimit-Reset",
            "RateLimit",
            "RateLimit-Policy",
            "RateLimit-Reset",
        ]
    ),
    st.one_of(
        st.text(max_size=40),
        st.integers().map(str),
        st.floats().map(str),
        st.from_regex(r'\A("[a-z]*";)?r=[0-9]{0,30};t=[0-9-]{0,30}\Z'),
        st.datetimes().map(str),
    ),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "error",
                    "errors",
                    "extensions",
                    "cost",
                    "code",
                    "throttleStatus",
                    "currentlyAvailable",
                    "restoreRate",
                    "requestedQueryCost",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
)


@given(status=st.sampled_from([200, 403, 429, 503]), headers=HEADERS, body=VALUES)
def test_no_answer_pauses_for_longer_than_the_bound(status: int, headers: dict[str, str], body: Any) -> None:
    found = USUAL.read(status, CIMultiDict(headers), body, now=NOW)
    assert status != 429 or found is not None
    if found is not None and found.seconds is not None:
        assert 0 <= found.seconds <= MAX_PAUSE_SECONDS


@given(value=VALUES, unit=st.none() | st.sampled_from(TimeUnit))
def test_no_value_is_a_wait_that_is_not_finite(value: Any, unit: TimeUnit | None) -> None:
    found = wait_of(value, NOW, unit)
    assert found is None or (math.isfinite(found) and 0 <= found <= LONGEST_SECONDS)


@given(seconds=st.integers(0, 86_400))
def test_every_form_of_a_time_means_the_same(seconds: int) -> None:
    at = datetime.fromtimestamp(NOW + seconds, UTC)
    forms = {
        TimeUnit.SECONDS: str(seconds),
        TimeUnit.EPOCH_SECONDS: str(int(NOW) + seconds),
        TimeUnit.EPOCH_MILLISECONDS: str((int(NOW) + seconds) * 1000),
        TimeUnit.ISO8601: at.isoformat(),
        TimeUnit.HTTP_DATE: format_datetime(at, usegmt=True),
    }
    assert {wait_of(text, NOW, unit) for unit, text in forms.items()} == {float(seconds)}
    assert {wait_of(text, NOW) for text in forms.values()} == {float(seconds)}


@given(used=st.integers(0, 10**6), limit=st.integers(0, 10**6))
def test_what_is_left_is_never_negative(used: int, limit: int) -> None:
    assert remaining_of(f"{used}/{limit}") == max(0, limit - used)
