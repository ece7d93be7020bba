"""Requests of an organisation in a second, over all replicas of the API."""

from __future__ import annotations

from typing import cast

import pytest

from tieline_api.engine.errors import EngineFullError, EngineUnavailableError
from tieline_api.engine.limit_store import LimitStore, SharedState
from tieline_api.engine.rate_quotas import REQUESTS, RateQuotas
from tieline_api.errors import ApiError

ACME, GLOBEX = "01ARZ3NDEKTSV4RRFFQ69G5FAV", "01BX5ZZKBKACTAV9WEVGEMMVRZ"


class Store:
    """The engine's memory, which replicas share."""

    def __init__(self) -> None:
        self.states: dict[str, SharedState] = {}
        self.away = False
        self.full = False
        self.asked = 0

    async def read(self, subject: str) -> SharedState:
        self._ask()
        return self.states.get(subject, SharedState(b"", 0))

    async def store(self, subject: str, content: bytes, sequence: int) -> int:
        self._ask()
        if self.full:
            raise EngineFullError
        if sequence != self.states.get(subject, SharedState(b"", 0)).sequence:
            return 0
        self.states[subject] = SharedState(content, sequence + 1)
        return sequence + 1

    def _ask(self) -> None:
        self.asked += 1
        if self.away:
            raise EngineUnavailableError


class Replicas:
    """Replicas with a clock that tests turn."""

    def __init__(self, count: int = 2) -> None:
        self.now = 100.0
        self.store = Store()
        self.refusals: set[tuple[int, str]] = set()
        self.all = [
            RateQuotas(
                cast(LimitStore, self.store),
                REQUESTS,
                clock=lambda: self.now,
                wall_clock=lambda: 1_800_000_000.0 + self.now,
            )
            for _ in range(count)
        ]

    async def sent(self, count: int, *, quota: int | None = 40, organisation: str = ACME) -> int:
        """How many of so many requests are accepted, in turns by the replicas."""
        accepted = 0
        for number in range(count):
            try:
                await self.all[number % len(self.all)].hit(organisation, quota)
            except ApiError as error:
                self.refusals.add((error.status, error.headers["Retry-After"]))
            else:
                accepted += 1
        return accepted


async def test_replicas_share_the_quota_of_a_second() -> None:
    replicas = Replicas()
    assert 36 <= await replicas.sent(200) <= 40
    assert await replicas.sent(50) == 0
    assert replicas.refusals == {(429, "1")}


async def test_the_next_second_has_the_whole_quota_again() -> None:
    replicas = Replicas()
    await replicas.sent(200)
    replicas.now += 1
    assert 36 <= await replicas.sent(200) <= 40


async def test_other_organisations_notice_nothing() -> None:
    replicas = Replicas()
    await replicas.sent(200)
    assert await replicas.sent(30, organisation=GLOBEX) == 30


async def test_without_a_quota_nobody_is_asked() -> None:
    replicas = Replicas()
    assert await replicas.sent(500, quota=None) == 500
    assert replicas.store.asked == 0


async def test_most_requests_ask_nobody() -> None:
    replicas = Replicas(1)
    assert await replicas.sent(1000, quota=1000) == 1000
    assert replicas.store.asked <= 25
    await replicas.sent(1000, quota=1000)
    assert replicas.store.asked <= 25


async def test_a_refusal_names_the_quota_and_who_can_raise_it() -> None:
    replicas = Replicas(1)
    await replicas.sent(1, quota=1)
    with pytest.raises(ApiError, match=r"1 requests a second .*requestsPerSecond.*tieline\.dev/quotas"):
        await replicas.all[0].hit(ACME, 1)


async def test_each_replica_counts_alone_while_the_engine_is_away() -> None:
    replicas = Replicas()
    replicas.store.away = True
    assert await replicas.sent(200) == 80
    asked = replicas.store.asked
    replicas.now += 1
    assert await replicas.sent(200) == 80
    assert replicas.store.asked == asked
    replicas.store.away = False
    replicas.now += 10
    assert 36 <= await replicas.sent(200) <= 40


async def test_the_last_second_of_another_replica_is_over_after_a_pause() -> None:
    replicas = Replicas()
    for _ in range(40):
        await replicas.all[0].hit(ACME, 40)
    with pytest.raises(ApiError):
        await replicas.all[1].hit(ACME, 40)
    replicas.now += 600
    await replicas.all[1].hit(ACME, 40)
    assert 36 <= 1 + await replicas.sent(200) <= 40


async def test_each_replica_counts_alone_while_the_engine_is_full() -> None:
    replicas = Replicas()
    replicas.store.full = True
    assert await replicas.sent(200) == 80
    assert replicas.refusals == {(429, "1")}


async def test_what_is_used_is_known_for_a_second() -> None:
    replicas = Replicas()
    await replicas.sent(10)
    assert 10 <= await replicas.all[0].used(ACME) <= 12
    replicas.now += 1
    assert await replicas.all[0].used(ACME) == 0


async def test_what_pods_lease_is_counted_with_the_rest() -> None:
    replicas = Replicas()
    first, second = replicas.all
    leased = [await first.lease(ACME, 40) for _ in range(15)]
    assert sum(one.count for one in leased) == 30
    assert all(0 < one.seconds <= 1 for one in leased)
    assert await replicas.sent(100) <= 10
    assert (await second.lease(ACME, 40)).count == 0
    replicas.now += 1
    assert (await second.lease(ACME, 40)).count == 2
