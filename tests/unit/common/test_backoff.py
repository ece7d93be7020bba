"""Delays of retries."""

import random

import pytest

from tieline_common.backoff import exponential, jitter


@pytest.mark.parametrize(
    ("attempt", "seconds"),
    [(1, 0.5), (2, 1.5), (3, 4.5), (4, 10.0), (10_000, 10.0), (10**9, 10.0)],
)
def test_delays_grow_by_the_factor_up_to_the_cap(attempt: int, seconds: float) -> None:
    assert exponential(attempt, first=0.5, cap=10.0, factor=3) == seconds


def test_the_factor_doubles_by_default() -> None:
    assert [exponential(attempt, first=1.0, cap=100.0) for attempt in (1, 2, 3, 4)] == [1, 2, 4, 8]


def test_the_first_delay_keeps_to_the_cap() -> None:
    assert exponential(1, first=30.0, cap=5.0) == 5.0


def test_jitter_spreads_over_the_whole_range() -> None:
    random.seed(7)
    found = [jitter(10.0, 0.5, 1.0) for _ in range(500)]
    assert 5.0 <= min(found) < 5.5
    assert 9.5 < max(found) <= 10.0
