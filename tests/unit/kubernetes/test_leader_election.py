"""Of several candidates one works; when it falls silent another one takes over, and when it ends at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer, hang, refuse
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.leader_election import LeadershipLostError, Lease, lead
from tieline_core.kubernetes.resources import LEASES

# A machine that is busy stops for some tenths of a second: nobody may lose the lease for that.
DURATIONS = {"lease_duration": 1.0, "renew_deadline": 0.7, "retry_period": 0.02}


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer.running(LEASES) as running:
        yield running


def candidate(kube: Kube, identity: str, **durations: float) -> Lease:
    times: dict[str, Any] = {**DURATIONS, **durations}
    return Lease(kube, name="operator", namespace="tieline", identity=identity, **times)


class Work:
    """Work that goes on until it is cancelled, and remembers who was at it."""

    def __init__(self) -> None:
        self.at_work: set[str] = set()
        self.most = 0
        self.history: list[str] = []

    def of(self, identity: str) -> Callable[[], Awaitable[None]]:
        async def work() -> None:
            self.at_work.add(identity)
            self.history.append(identity)
            self.most = max(self.most, len(self.at_work))
            try:
                await asyncio.Event().wait()
            finally:
                self.at_work.remove(identity)

        return work


def holder(server: FakeApiServer) -> str:
    return str(server.objects["tieline", "operator"]["spec"]["holderIdentity"])


async def cancelled(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_of_many_candidates_one_works(server: FakeApiServer, kube: Kube) -> None:
    work = Work()
    names = ["a", "b", "c", "d"]
    tasks = [asyncio.create_task(lead(candidate(kube, name), work.of(name))) for name in names]
    await until(lambda: work.at_work)
    await asyncio.sleep(0.4)
    assert len(work.history) == 1
    assert {holder(server)} == work.at_work
    assert server.objects["tieline", "operator"]["spec"]["leaseTransitions"] == 0
    await cancelled(*tasks)


async def test_who_ends_hands_over_at_once(server: FakeApiServer, kube: Kube) -> None:
    work = Work()
    patient = {"lease_duration": 60.0, "renew_deadline": 50.0}
    first = asyncio.create_task(lead(candidate(kube, "a", **patient), work.of("a")))
    await until(lambda: work.at_work == {"a"})
    second = asyncio.create_task(lead(candidate(kube, "b", **patient), work.of("b")))
    await asyncio.sleep(0.05)
    await cancelled(first)
    assert holder(server) == ""
    await until(lambda: work.at_work == {"b"}, within=1)
    assert work.most == 1
    assert server.objects["tieline", "operator"]["spec"]["leaseTransitions"] == 1
    await cancelled(second)


async def test_the_lease_is_released_when_the_work_is_done(server: FakeApiServer, kube: Kube) -> None:
    async def work() -> None:
        assert holder(server) == "a"

    await lead(candidate(kube, "a"), work)
    assert holder(server) == ""


async def test_the_lease_is_released_when_the_work_fails(server: FakeApiServer, kube: Kube) -> None:
    async def work() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await lead(candidate(kube, "a"), work)
    assert holder(server) == ""


async def test_who_falls_silent_is_replaced_but_not_sooner(server: FakeApiServer, kube: Kube) -> None:
    await candidate(kube, "silent").acquire()
    work = Work()
    clock = asyncio.get_running_loop().time
    began = clock()
    task = asyncio.create_task(lead(candidate(kube, "b"), work.of("b")))
    await until(lambda: work.at_work == {"b"})
    assert clock() - began >= DURATIONS["lease_duration"]
    await cancelled(task)


async def test_an_expired_lease_is_taken_at_once_and_not_at_the_next_look(
    server: FakeApiServer, kube: Kube
) -> None:
    await candidate(kube, "silent").acquire()
    await asyncio.wait_for(candidate(kube, "b", retry_period=60.0).acquire(), 5)
    assert holder(server) == "b"


async def test_leadership_is_sure_while_it_is_renewed_and_no_longer(
    server: FakeApiServer, kube: Kube
) -> None:
    lease = candidate(kube, "a")
    assert lease.left <= 0
    await lease.acquire()
    assert 0 < lease.left <= DURATIONS["renew_deadline"]
    await until(lambda: lease.left <= 0)
    await lease.acquire()
    assert lease.left > 0
    await lease.release()
    assert lease.left <= 0


async def test_a_leader_that_renews_is_never_replaced(server: FakeApiServer, kube: Kube) -> None:
    work = Work()
    first = asyncio.create_task(lead(candidate(kube, "a"), work.of("a")))
    await until(lambda: work.at_work == {"a"})
    second = asyncio.create_task(lead(candidate(kube, "b"), work.of("b")))
    await asyncio.sleep(3 * DURATIONS["lease_duration"])
    assert work.history == ["a"]
    await cancelled(second, first)


@pytest.mark.parametrize(
    "failure", [refuse(500), refuse(403, "Forbidden"), hang(5)], ids=["500", "403", "silence"]
)
async def test_who_cannot_renew_stops_working_before_another_may_begin(
    failure: Callable[..., Any], server: FakeApiServer, kube: Kube
) -> None:
    work = Work()
    clock = asyncio.get_running_loop().time
    task = asyncio.create_task(lead(candidate(kube, "a"), work.of("a")))
    await until(lambda: work.at_work == {"a"})
    renewed = clock()
    server.answers.extend([failure] * 1000)
    with pytest.raises(LeadershipLostError):
        await task
    assert clock() - renewed < DURATIONS["lease_duration"]
    assert work.at_work == set()
    # Whether somebody else has it by now is unknown: it is left alone.
    assert holder(server) == "a"


async def test_a_short_failure_does_not_end_the_leadership(server: FakeApiServer, kube: Kube) -> None:
    work = Work()
    task = asyncio.create_task(lead(candidate(kube, "a"), work.of("a")))
    await until(lambda: work.at_work == {"a"})
    server.answers.extend([refuse(403, "Forbidden"), refuse(409, "Conflict")])
    await asyncio.sleep(0.3)
    assert work.history == ["a"]
    assert not task.done()
    await cancelled(task)


async def test_who_sees_another_leader_stops_at_once(server: FakeApiServer, kube: Kube) -> None:
    work = Work()
    patient = {"lease_duration": 60.0, "renew_deadline": 50.0}
    task = asyncio.create_task(lead(candidate(kube, "a", **patient), work.of("a")))
    await until(lambda: work.at_work == {"a"})
    spec = {**server.objects["tieline", "operator"]["spec"], "holderIdentity": "b"}
    server.put("operator", "tieline", spec=spec)
    with pytest.raises(LeadershipLostError, match="b"):
        await asyncio.wait_for(task, 2)
    assert work.at_work == set()
    assert holder(server) == "b"


async def test_work_that_fails_while_it_is_stopped_does_not_hide_the_lost_leadership(
    server: FakeApiServer, kube: Kube
) -> None:
    started = asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ZeroDivisionError from None

    task = asyncio.create_task(lead(candidate(kube, "a"), work))
    await asyncio.wait_for(started.wait(), 2)
    server.answers.extend([refuse(403, "Forbidden")] * 1000)
    with pytest.raises(LeadershipLostError):
        await task


async def test_two_that_take_an_expired_lease_at_once_do_not_both_get_it(
    server: FakeApiServer, kube: Kube
) -> None:
    for turn in range(2):
        await candidate(kube, f"silent {turn}", lease_duration=0.0).acquire()
        work = Work()
        tasks = [asyncio.create_task(lead(candidate(kube, name), work.of(name))) for name in "abc"]
        await until(lambda: work.history)  # noqa: B023  (runs at once)
        await asyncio.sleep(0.1)
        assert len(work.history) == 1
        await cancelled(*tasks)


async def test_the_lease_says_what_the_api_server_accepts(server: FakeApiServer, kube: Kube) -> None:
    await candidate(kube, "a").acquire()
    spec = server.objects["tieline", "operator"]["spec"]
    assert spec["leaseDurationSeconds"] == 1
    assert spec["renewTime"].endswith("Z")
