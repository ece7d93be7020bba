"""Each organisation has a turn of its own: what is wrong with one neither ends nor delays the others'."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress

import pytest

from tieline_operator.queues import organisation_turns
from tieline_operator.queues.organisation_turns import STALLED_FAILURES, OrganisationTurns

ALL = [f"organisation-{number}" for number in range(10)]
BAD = ALL[0]


class Cluster:
    def __init__(self, *, seconds: float = 60.0, total_seconds: float = 60.0, at_once: int = 2) -> None:
        self.now = 0.0
        self.done: Counter[str] = Counter()
        self.tried: Counter[str] = Counter()
        self.bad: set[str] = set()
        self.hanging: set[str] = set()
        self.turns = OrganisationTurns(
            "Work fails",
            seconds=seconds,
            total_seconds=total_seconds,
            at_once=at_once,
            clock=lambda: self.now,
        )

    async def work(self, name: str) -> None:
        self.tried[name] += 1
        if name in self.hanging:
            await asyncio.Event().wait()
        if name in self.bad:
            raise ValueError("cannot be read")
        self.done[name] += 1


async def test_an_organisation_that_fails_or_hangs_costs_the_others_nothing() -> None:
    cluster = Cluster(seconds=0.01)
    cluster.bad, cluster.hanging = {BAD}, {ALL[1]}
    await cluster.turns.take(ALL, cluster.work)
    assert cluster.done == dict.fromkeys(ALL[2:], 1)
    assert cluster.turns.stalled == 0


async def test_what_fails_again_is_tried_less_often_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster()
    cluster.bad = {BAD}
    for _ in range(60):
        await cluster.turns.take(ALL, cluster.work)
        cluster.now += 60
    assert cluster.done == dict.fromkeys(ALL[1:], 60)
    assert STALLED_FAILURES < cluster.tried[BAD] < 20
    assert cluster.turns.stalled == 1
    warnings = [one for one in caplog.records if one.levelname == "WARNING"]
    assert [one.__dict__["organisation"] for one in warnings] == [BAD, BAD]
    cluster.bad.clear()
    cluster.now += 2 * organisation_turns._LONGEST_PAUSE
    await cluster.turns.take(ALL, cluster.work)
    assert (cluster.turns.stalled, cluster.done[BAD]) == (0, 1)


async def test_those_that_had_no_turn_come_first_in_the_next_round() -> None:
    cluster = Cluster(total_seconds=0.0, at_once=1)
    for _ in ALL:
        await cluster.turns.take(ALL, cluster.work)
        cluster.now += 1
    assert cluster.done == dict.fromkeys(ALL, 1)


async def test_a_lost_connection_ends_the_round_and_stalls_nobody() -> None:
    cluster = Cluster()
    cluster.bad = set(ALL)
    with pytest.raises(ValueError, match="cannot be read"):
        await cluster.turns.take(ALL, cluster.work, usable=lambda: False)
    assert cluster.tried.total() <= 2
    cluster.bad.clear()
    cluster.now += 60
    await cluster.turns.take(ALL, cluster.work)
    assert (cluster.done, cluster.turns.stalled) == (dict.fromkeys(ALL, 1), 0)


async def test_an_organisation_that_ends_the_connection_each_time_is_counted() -> None:
    """For example by an answer that is larger than the engine keeps for a client."""
    cluster, lost = Cluster(), asyncio.Event()

    async def work(name: str) -> None:
        await asyncio.sleep(0)
        if name == BAD:
            lost.set()
        await asyncio.sleep(0)
        if lost.is_set():
            raise ConnectionError
        await cluster.work(name)

    for _ in range(30):
        lost.clear()
        with suppress(ConnectionError):
            await cluster.turns.take(ALL, work, usable=lambda: not lost.is_set())
        cluster.now += 300
    assert cluster.turns.stalled == 1
    assert min(cluster.done[name] for name in ALL[1:]) >= 28
    await cluster.turns.take(ALL[1:], cluster.work)
    assert cluster.turns.stalled == 0
