"""When tokens are due, and that one request is made for all who want them."""

import asyncio
import copy
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tieline_core.kubernetes.errors import Conflict, Unavailable
from tieline_core.kubernetes.resources import Resource
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.refresh_coordinator import RefreshCoordinator
from tieline_protocol.oauth.token_client import RefusedError, TokenError, Tokens, UnreachableError

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def tokens(
    number: int, *, lifetime: timedelta | None = timedelta(hours=1), ago: timedelta = timedelta()
) -> Tokens:
    issued = NOW - ago
    return Tokens(
        access_token=f"at{number}",
        refresh_token=f"rt{number}",
        issued_at=issued,
        expires_at=issued + lifetime if lifetime else None,
    )


class FakeSecrets:
    """One Secret with a resourceVersion; ``failures`` are raised by the next writes."""

    def __init__(self, held: Tokens) -> None:
        blank = {"metadata": {"name": "s", "namespace": "n", "resourceVersion": "1"}}
        self.secret: dict[str, Any] = token_secret_codec.with_tokens(blank, held)
        self.failures: list[Exception | None] = []

    async def get(self, resource: Resource, name: str, namespace: str | None = None) -> dict[str, Any]:
        await asyncio.sleep(0)
        return copy.deepcopy(self.secret)

    async def replace(self, resource: Resource, obj: Mapping[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        failure = self.failures.pop(0) if self.failures else None
        if failure:
            raise failure
        version = self.secret["metadata"]["resourceVersion"]
        if obj["metadata"]["resourceVersion"] != version:
            raise Conflict("changed", status=409)
        self.secret = copy.deepcopy(dict(obj))
        self.secret["metadata"]["resourceVersion"] = str(int(version) + 1)
        return copy.deepcopy(self.secret)


class RotatingProvider:
    """Takes each refresh token once."""

    def __init__(self, error: Exception | None = None) -> None:
        self.asked: list[str] = []
        self.error = error

    async def __call__(self, old: Tokens) -> Tokens:
        self.asked.append(old.refresh_token)
        await asyncio.sleep(0.01)
        if self.error:
            raise self.error
        if len(set(self.asked)) < len(self.asked):
            raise RefusedError("reused", code="invalid_grant")
        return tokens(len(self.asked) + 1)


def refresher(secrets: FakeSecrets, now: Callable[[], datetime] = lambda: NOW) -> RefreshCoordinator:
    return RefreshCoordinator(secrets, poll=0.001, now=now)


@pytest.mark.parametrize(
    ("lifetime", "due"),
    [
        (timedelta(hours=1), timedelta(minutes=45)),
        (timedelta(minutes=30), timedelta(minutes=15)),
        (timedelta(minutes=10), timedelta(minutes=5)),
        (timedelta(days=30), timedelta(hours=23, minutes=50)),
        (None, timedelta(hours=23, minutes=50)),
    ],
)
def test_tokens_are_due_early_and_daily_at_the_latest(lifetime: timedelta | None, due: timedelta) -> None:
    assert token_secret_codec.due_at(tokens(1, lifetime=lifetime)) == NOW + due


def test_a_secret_gives_back_what_it_was_given_and_shows_none_of_it() -> None:
    held = tokens(1)
    found = token_secret_codec.read(FakeSecrets(held).secret)
    assert found.tokens == held
    assert "rt1" not in repr(found)


async def test_many_callers_in_many_processes_make_one_request() -> None:
    secrets, provider = FakeSecrets(tokens(1, ago=timedelta(hours=2))), RotatingProvider()
    processes = [refresher(secrets) for _ in range(4)]
    found = await asyncio.gather(*(p.fresh("n", "s", ask=provider) for p in processes for _ in range(50)))
    assert provider.asked == ["rt1"]
    assert {one.access_token for one in found} == {"at2"}


async def test_good_tokens_are_left_alone() -> None:
    secrets, provider = FakeSecrets(tokens(1)), RotatingProvider()
    assert (await refresher(secrets).fresh("n", "s", ask=provider)).access_token == "at1"
    assert provider.asked == []


async def test_a_401_refreshes_the_token_that_got_it_and_no_newer_one() -> None:
    secrets, provider = FakeSecrets(tokens(1, lifetime=None)), RotatingProvider()
    one = refresher(secrets)
    for _ in range(2):
        assert (await one.fresh("n", "s", ask=provider, rejected="at1")).access_token == "at2"
    assert provider.asked == ["rt1"]


async def test_a_refusal_is_kept_until_the_tokens_change() -> None:
    secrets = FakeSecrets(tokens(1, ago=timedelta(hours=2)))
    provider = RotatingProvider(RefusedError("no", code="invalid_grant"))
    for _ in range(3):
        with pytest.raises(RefusedError) as caught:
            await refresher(secrets).fresh("n", "s", ask=provider)
        assert caught.value.code == "invalid_grant"
    assert provider.asked == ["rt1"]
    secrets.secret["data"] = token_secret_codec.with_tokens(secrets.secret, tokens(7))["data"]
    secrets.secret["data"].pop("expiresAt")
    provider.error = None
    assert (await refresher(secrets).fresh("n", "s", ask=provider, rejected="at7")).access_token == "at3"


async def test_an_outage_is_no_refusal_and_is_not_hammered() -> None:
    secrets = FakeSecrets(tokens(1, ago=timedelta(hours=2)))
    provider = RotatingProvider(UnreachableError("away", retry_after=30))
    ticks = [NOW]
    processes = [refresher(secrets, lambda: ticks[0]) for _ in range(4)]
    found = await asyncio.gather(
        *(p.fresh("n", "s", ask=provider) for p in processes for _ in range(50)), return_exceptions=True
    )
    assert {type(one) for one in found} == {UnreachableError}
    assert len(provider.asked) == 1
    ticks[0] += timedelta(seconds=31)
    provider.error, provider.asked = None, []
    assert (await processes[0].fresh("n", "s", ask=provider)).access_token == "at2"


async def test_a_pause_that_a_clock_a_day_ahead_has_written_holds_nobody_up() -> None:
    secrets = FakeSecrets(tokens(1, ago=timedelta(hours=2)))
    provider = RotatingProvider(UnreachableError("away"))
    with pytest.raises(UnreachableError):
        await refresher(secrets, lambda: NOW + timedelta(days=1)).fresh("n", "s", ask=provider)
    provider.error, provider.asked = None, []
    assert (await refresher(secrets).fresh("n", "s", ask=provider)).access_token == "at2"


async def test_a_rotated_token_is_not_lost_while_the_api_server_is_away() -> None:
    secrets, provider = FakeSecrets(tokens(1, ago=timedelta(hours=2))), RotatingProvider()
    secrets.failures = [None, Unavailable("away"), Conflict("changed"), Unavailable("away")]
    assert (await refresher(secrets).fresh("n", "s", ask=provider)).access_token == "at2"
    assert token_secret_codec.read(secrets.secret).tokens.refresh_token == "rt2"
    assert token_secret_codec.read(secrets.secret).claimed_by == ""


async def test_a_caller_that_goes_away_does_not_stop_the_refresh() -> None:
    secrets, provider = FakeSecrets(tokens(1, ago=timedelta(hours=2))), RotatingProvider()
    one = refresher(secrets)
    caller = asyncio.create_task(one.fresh("n", "s", ask=provider))
    await until(lambda: provider.asked)
    caller.cancel()
    assert (await one.fresh("n", "s", ask=provider)).access_token == "at2"
    assert provider.asked == ["rt1"]


@pytest.mark.parametrize(
    "ahead", [timedelta(), timedelta(minutes=4), -timedelta(minutes=4)], ids=["as ours", "ahead", "behind"]
)
async def test_a_dead_holder_is_followed_when_its_claim_ends_whatever_its_clock_says(
    ahead: timedelta,
) -> None:
    secrets, provider = FakeSecrets(tokens(1, ago=timedelta(hours=2))), RotatingProvider()
    until = token_secret_codec.written(NOW + ahead + timedelta(seconds=60))
    secrets.secret = token_secret_codec.marked(
        secrets.secret, {token_secret_codec.CLAIMED_BY: "dead", token_secret_codec.CLAIMED_UNTIL: until}
    )
    passed = [1000.0]
    one = RefreshCoordinator(secrets, poll=0.001, now=lambda: NOW, monotonic=lambda: passed[0])
    waiting: Awaitable[Tokens] = one.fresh("n", "s", ask=provider)
    waiter = asyncio.ensure_future(waiting)
    for _ in range(2):
        await asyncio.sleep(0.02)  # it would have asked by now
        assert provider.asked == []
        passed[0] += 59
    assert (await waiter).access_token == "at2"


async def test_a_claim_that_is_long_over_holds_up_nobody() -> None:
    secrets, provider = FakeSecrets(tokens(1, ago=timedelta(hours=2))), RotatingProvider()
    until = token_secret_codec.written(NOW - timedelta(minutes=6))
    secrets.secret = token_secret_codec.marked(
        secrets.secret, {token_secret_codec.CLAIMED_BY: "dead", token_secret_codec.CLAIMED_UNTIL: until}
    )
    assert (await refresher(secrets).fresh("n", "s", ask=provider)).access_token == "at2"


def test_every_error_of_a_request_is_a_token_error() -> None:
    assert issubclass(RefusedError, TokenError)
    assert not issubclass(UnreachableError, RefusedError)


@pytest.mark.parametrize(
    ("given", "due"),
    [
        ("9999-12-31T23:59:59-01:00", NOW + token_secret_codec.IDLE),
        ("0001-01-01T00:00:00+05:00", datetime.min),
    ],
)
def test_an_end_beyond_all_years_is_read_and_written(given: str, due: datetime) -> None:
    found = token_secret_codec.from_values({"accessToken": "at", "expiresAt": given}, issued_at=NOW)
    assert found.expires_at
    assert token_secret_codec.moment(token_secret_codec.written(found.expires_at)) == found.expires_at
    assert token_secret_codec.due_at(found) == due.replace(tzinfo=UTC)
