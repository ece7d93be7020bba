"""Failed authentications are limited by address, without locking out those who share it."""

import pytest

from tieline_api.auth.rate_limits import FailureLimiter, credential_of
from tieline_api.client_address import networks, origin
from tieline_api.errors import ApiError

HERE, THERE = "198.51.100.1", "198.51.100.2"


class Clock:
    def __init__(self) -> None:
        self.seconds = 6000.0

    def __call__(self) -> float:
        return self.seconds


def _refused(attempts: FailureLimiter, address: str, credential: bytes | None = b"new") -> ApiError | None:
    try:
        attempts.check(address, credential)
    except ApiError as error:
        return error
    return None


def test_whoever_fails_too_often_is_429_until_the_minute_has_passed() -> None:
    clock = Clock()
    attempts = FailureLimiter(3, clock=clock)
    for number in range(3):
        assert _refused(attempts, HERE) is None
        attempts.failed(HERE, b"%d" % number)
    refused = _refused(attempts, HERE)
    assert refused is not None
    assert (refused.status, refused.headers["Retry-After"]) == (429, "60")
    assert _refused(attempts, THERE) is None, "others are not held up"
    clock.seconds += 59
    assert _refused(attempts, HERE) is not None
    clock.seconds += 2
    assert _refused(attempts, HERE) is None
    attempts.failed(HERE, b"once more")
    assert _refused(attempts, HERE) is not None, "what failed a moment ago still counts"
    clock.seconds += 120
    assert _refused(attempts, HERE) is None


def test_a_credential_that_was_good_goes_on_from_an_address_where_others_fail() -> None:
    attempts = FailureLimiter(1, clock=Clock())
    attempts.succeeded(b"ann")
    attempts.failed(HERE, b"guess")
    assert _refused(attempts, HERE, b"ann") is None
    assert _refused(attempts, HERE, b"ben") is not None
    attempts.failed(HERE, b"ann")
    assert _refused(attempts, HERE, b"ann") is not None, "it was revoked"


def test_to_send_nothing_is_no_failure() -> None:
    attempts = FailureLimiter(1, clock=Clock())
    attempts.failed(HERE, None)
    attempts.failed(HERE, None)
    assert _refused(attempts, HERE) is None
    attempts.failed(HERE, b"guess")
    assert _refused(attempts, HERE, None) is None, "probes and documents need no token"


def test_the_table_is_bounded() -> None:
    attempts = FailureLimiter(1, addresses=100, clock=Clock())
    for number in range(1000):
        attempts.failed(f"198.51.{number // 256}.{number % 256}", b"guess")
    assert len(attempts) == 100


def test_zero_is_no_limit() -> None:
    attempts = FailureLimiter(0)
    for _ in range(1000):
        attempts.failed(HERE, b"guess")
    assert _refused(attempts, HERE) is None


def test_credentials_are_told_apart_and_not_kept() -> None:
    bearer = credential_of({"Authorization": "Bearer abc"})
    assert bearer is not None
    assert b"abc" not in bearer
    assert bearer != credential_of({"Authorization": "Bearer abd"})
    assert credential_of({"X-API-Key": "abc"}) != bearer
    assert credential_of({"Accept": "*/*"}) is None
    assert credential_of({"Authorization": "Bearer \udcff"}) is not None


@pytest.mark.parametrize(
    ("peer", "forwarded", "address"),
    [
        ("198.51.100.1", [], "198.51.100.1"),
        ("198.51.100.1", ["203.0.113.9"], "198.51.100.1"),
        ("10.0.0.1", ["203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.66, 203.0.113.9"], "203.0.113.9"),
        ("10.0.0.1", ["203.0.113.9, 10.0.0.2"], "203.0.113.9"),
        ("10.0.0.1", ["198.51.100.66", "203.0.113.9:4711"], "203.0.113.9"),
        ("10.0.0.1", ["unknown"], "10.0.0.1"),
        ("10.0.0.1", [",".join(["10.0.0.2"] * 5000)], "10.0.0.2"),
        ("10.0.0.1", ["[2001:db8:1:2:3:4:5:6]:80"], "2001:db8:1:2::/64"),
        ("2001:db8:1:2::99", [], "2001:db8:1:2::/64"),
        ("::ffff:198.51.100.1", [], "198.51.100.1"),
        (None, [], ""),
    ],
)
def test_an_address_is_what_trusted_proxies_say_it_is(
    peer: str | None, forwarded: list[str], address: str
) -> None:
    assert origin(peer, forwarded, trusted=networks(["10.0.0.0/8"])) == address
