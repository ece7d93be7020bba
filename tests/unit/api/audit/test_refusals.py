"""Refused requests are recorded up to a bound, so that nobody fills the stream with them."""

from tieline_api.audit.refusals import (
    DAY_SECONDS,
    MOST_ANONYMOUS,
    MOST_OF_ADDRESS,
    MOST_OF_CALLER,
    MOST_OF_CALLER_IN_A_DAY,
    WINDOW_SECONDS,
    RefusalLimiter,
)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_is_bounded_in_each_window() -> None:
    clock = Clock()
    limiter = RefusalLimiter(clock=clock)
    assert sum(limiter.admits_anonymous("O", "a") for _ in range(50)) == MOST_OF_ADDRESS
    assert limiter.admits_anonymous("O", "b")
    clock.now += WINDOW_SECONDS
    assert limiter.admits_anonymous("O", "a")


def test_many_addresses_are_bounded_together_in_each_organisation() -> None:
    limiter = RefusalLimiter(clock=Clock())
    admitted = sum(limiter.admits_anonymous("O", f"{number}") for number in range(20_000))
    assert admitted == MOST_ANONYMOUS
    assert limiter.admits_anonymous("other", "1")


def test_a_day_has_bounds_of_its_own() -> None:
    clock = Clock()
    limiter = RefusalLimiter(clock=clock)
    anonymous = callers = 0
    while clock.now < DAY_SECONDS:
        anonymous += sum(limiter.admits_anonymous("O", f"{number}") for number in range(50))
        callers += sum(limiter.admits_caller("O", "ann") for _ in range(50))
        clock.now += WINDOW_SECONDS
    assert (anonymous, callers) == (MOST_ANONYMOUS, MOST_OF_CALLER_IN_A_DAY)
    assert limiter.admits_anonymous("O", "1")
    assert limiter.admits_caller("O", "ann")


def test_anonymous_callers_take_nothing_from_known_ones() -> None:
    limiter = RefusalLimiter(clock=Clock())
    for number in range(1000):
        limiter.admits_anonymous("O", f"{number}")
    assert sum(limiter.admits_caller("O", "ann") for _ in range(1000)) == MOST_OF_CALLER
