"""Callers who ask too often are told when to go on; others are not held up by them."""

import pytest

from tieline_api.auth.authentication import Caller
from tieline_api.auth.rate_limits import RateLimiter
from tieline_api.errors import ApiError

ANN, BOB = Caller(username="ann"), Caller(username="bob")


def test_one_too_many_is_429_with_the_time_to_wait() -> None:
    limit = RateLimiter(3)
    for _ in range(3):
        limit.hit(ANN)
    with pytest.raises(ApiError) as refused:
        limit.hit(ANN)
    assert refused.value.status == 429
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60
    limit.hit(BOB)


def test_zero_is_no_limit() -> None:
    limit = RateLimiter(0)
    for _ in range(10_000):
        limit.hit(ANN)
