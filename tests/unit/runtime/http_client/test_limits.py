"""Requests through a connection with limits wait for their turn, and all that ends a request makes room for others."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.harness.session.waiting import eventually_async
from tieline import LimitReachedError
from tieline.configuration.snapshot import Connection
from tieline.http_client.limit_sources import LimitsUnavailableError, OwnLimits
from tieline.http_client.request_gate import LimitGate
from tieline.http_client.session import Session, fetch, new_client
from tieline.run_deadline import begin_deadline
from tieline_protocol.limit_answers import LimitAnswers
from tieline_protocol.request_limits import RequestLimits, SlotAnswer, SlotQuestion


@dataclass
class Shop:
    """Counts requests by its own clock."""

    arrived: list[float] = field(default_factory=list)
    busy: int = 0
    most_busy: int = 0
    seconds: float = 0.0
    answers: list[tuple[int, dict[str, str]]] = field(default_factory=list)
    body: bytes = b"x" * 200_000
    server: TestServer = field(init=False)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.arrived.append(time.monotonic())
        self.busy += 1
        self.most_busy = max(self.most_busy, self.busy)
        try:
            await asyncio.sleep(self.seconds)
            status, headers = self.answers.pop(0) if self.answers else (200, {})
            if request.path == "/moved":
                raise web.HTTPFound("/orders")
            if request.path == "/long":
                response = web.StreamResponse()
                await response.prepare(request)
                await response.write(b"x" * 100)
                await asyncio.sleep(self.seconds or 5)
                return response
            return web.Response(status=status, headers=headers, body=self.body)
        finally:
            self.busy -= 1

    def worst(self, seconds: float) -> int:
        times = sorted(self.arrived)
        return max(bisect_left(times, at + seconds) - index for index, at in enumerate(times))


@dataclass
class Source:
    """The coordinator, which can be away."""

    own: OwnLimits = field(default_factory=OwnLimits)
    away: bool = False
    questions: list[SlotQuestion] = field(default_factory=list)

    async def ask(self, connection: str, limits: RequestLimits, question: SlotQuestion) -> SlotAnswer:
        self.questions.append(question)
        if self.away:
            raise LimitsUnavailableError("it is away")
        return await self.own.ask(connection, limits, question)


@dataclass
class There:
    shop: Shop
    client: aiohttp.ClientSession
    source: Source
    connection: Connection
    gates: list[LimitGate] = field(default_factory=list)

    def session(self, pod: str = "pod", **limits: Any) -> Session:
        """A pod's session."""
        gate = LimitGate(self.source, pod=pod)
        self.gates.append(gate)
        connection = replace(
            self.connection,
            limits=RequestLimits.parse(limits) if limits else None,
            limit_answers=LimitAnswers.parse(limits),
        )
        return Session(self.client, lambda: connection, gate=gate)


@pytest.fixture
async def there() -> AsyncIterator[There]:
    shop = Shop()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", shop.handle)
    shop.server = TestServer(application)
    await shop.server.start_server()
    connection = Connection(
        id="C", name="Shop", template="shop", base_url=str(shop.server.make_url("")), credentials=()
    )
    async with new_client() as client:
        yield There(shop, client, Source(), connection)
    await shop.server.close()


async def get(session: Session, path: str = "/orders", **options: Any) -> int:
    return (await fetch(session, path, method=options.pop("method", "GET"), **options)).status


async def eventually(what: Callable[[], bool]) -> None:
    async def is_so() -> bool:
        return what()

    await eventually_async("it to be so", is_so)


async def test_requests_without_limits_ask_nobody(there: There) -> None:
    assert await get(there.session()) == 200
    assert there.source.questions == []


async def test_pods_together_stay_below_the_limit_and_all_requests_are_sent(there: There) -> None:
    sessions = [there.session(f"pod-{number}", requests=40, per="1s") for number in range(3)]
    found = await asyncio.gather(*(get(session) for session in sessions for _ in range(40)))
    assert found == [200] * 120
    assert there.shop.worst(1.0) <= 42


@pytest.mark.parametrize("limits", [{"concurrent": 3}, {"concurrent": 3, "requests": 500, "per": "1s"}])
async def test_no_more_requests_than_the_limit_are_under_way(there: There, limits: dict[str, Any]) -> None:
    there.shop.seconds = 0.02
    sessions = [there.session(f"pod-{number}", **limits) for number in range(3)]
    found = await asyncio.gather(*(get(session) for session in sessions for _ in range(12)))
    assert found == [200] * 36
    assert there.shop.most_busy <= 3
    await eventually(lambda: there.gates[0]._queues["C"].in_use == 0)


async def test_an_answer_that_is_still_read_counts_as_under_way(there: There) -> None:
    session = there.session(concurrent=1)
    async with session.get("/long") as response:
        assert await response.content.read(10) == b"x" * 10
        other = asyncio.create_task(get(session))
        await asyncio.sleep(0.3)
        assert len(there.shop.arrived) == 1
    assert await other == 200


@pytest.mark.parametrize("how", ["close", "release", "cancel", "lose", "drop"])
async def test_whatever_ends_a_request_gives_its_permit_back(there: There, how: str) -> None:
    session = there.session(concurrent=1)
    if how == "cancel":
        there.shop.seconds = 5
        task = asyncio.create_task(get(session))
        await eventually(lambda: bool(there.shop.arrived))
        task.cancel()
        there.shop.seconds = 0
    elif how == "lose":
        with pytest.raises(ValueError, match="header"):
            await get(session, "/orders", headers={"Bad": "a\nb"}, retries=0)
    else:
        response = await session.get("/long")
        if how == "close":
            response.close()
        elif how == "release":
            response.release()
        else:
            del response
    assert await get(session) == 200


async def test_one_who_stops_waiting_makes_room_for_the_next(there: There) -> None:
    there.shop.seconds = 0.3
    session = there.session(concurrent=1)
    first, second, third = (asyncio.create_task(get(session)) for _ in range(3))
    await eventually(lambda: bool(there.shop.arrived))
    second.cancel()
    assert await asyncio.gather(first, third) == [200, 200]
    assert len(there.shop.arrived) == 2


async def test_a_redirect_counts_as_a_request(there: There) -> None:
    session = there.session(requests=30, per="1h", concurrent=1)
    assert await get(session, "/moved") == 200
    assert await get(session) == 200
    assert len(there.shop.arrived) == 3
    assert sum(group.count for group in there.source.own._states["C"].groups) == 3


async def test_waiting_ends_before_the_run_with_what_it_waited_for(there: There) -> None:
    session = there.session(requests=1, per="1h")
    assert await get(session) == 200
    begin_deadline(asyncio.get_running_loop().time(), 0.5)
    with pytest.raises(LimitReachedError, match=r"'shop' \(1 requests in 1h\) left no room.* was not sent"):
        await get(session)
    assert 'tieline_limit_reached_total{template="shop"} 1' in there.gates[0].metrics.text()


async def test_the_time_out_of_a_request_does_not_count_the_waiting(there: There) -> None:
    session = there.session(requests=1, per="1s")
    assert await asyncio.gather(*(get(session, timeout=0.7) for _ in range(3))) == [200] * 3


async def test_429_with_retry_after_holds_the_requests_of_all_pods(there: There) -> None:
    one, two = there.session("one", requests=1000, per="1s"), there.session("two", requests=1000, per="1s")
    there.shop.answers = [(429, {"Retry-After": "2"})]
    assert await get(one, method="POST") == 429
    held = time.monotonic()
    # It is not told on the same connection, but asks.
    assert await asyncio.gather(get(one), get(two)) == [200, 200]
    assert min(there.shop.arrived[1:]) - held >= 1.8
    assert 'tieline_limit_pauses_total{template="shop"} 1' in there.gates[0].metrics.text()


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"Retry-After": "1"}, b""),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}, b""),
        (429, {"X-RateLimit-Reset": "1"}, b""),
        (200, {"Retry-After": "1"}, b'{"ok": false, "error": "ratelimited"}'),
        (200, {"X-Shopify-Shop-Api-Call-Limit": "40/40"}, b""),
        (
            200,
            {},
            b'{"extensions": {"cost": {"requestedQueryCost": 50,'
            b' "throttleStatus": {"currentlyAvailable": 0, "restoreRate": 50}}}}',
        ),
    ],
)
async def test_every_form_of_a_limit_holds_the_requests_of_all_pods(
    there: There, answer: tuple[int, dict[str, str], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    status, headers, there.shop.body = answer
    answers = [{"status": 420}]
    one, two = there.session("one", concurrent=9, answers=answers), there.session("two", answers=answers)
    there.shop.answers = [(status, {**headers, "Content-Type": "application/json"})]
    assert await get(one, method="POST") == status
    held = time.monotonic()
    assert await asyncio.gather(get(one), get(two)) == [200, 200]
    assert min(there.shop.arrived[1:]) - held >= 0.8
    assert "send requests again at 20" in caplog.text


async def test_a_request_that_is_safe_to_repeat_waits_for_the_pause_and_is_sent_again(there: There) -> None:
    session = there.session(concurrent=1)
    there.shop.answers = [(503, {"Retry-After": "1"})]
    assert await get(session) == 200
    assert there.shop.arrived[1] - there.shop.arrived[0] >= 0.9


async def test_while_nobody_coordinates_each_pod_keeps_to_its_share(there: There) -> None:
    there.source.away = True
    sessions = [there.session(f"pod-{number}", requests=20, per="1s", pods=2) for number in range(2)]
    found = await asyncio.gather(*(get(session) for session in sessions for _ in range(15)))
    assert found == [200] * 30
    assert there.shop.worst(1.0) <= 21
    there.source.away = False
    await eventually(lambda: there.source.questions[-1].spent > 0)
    assert await get(sessions[0]) == 200


async def test_while_nobody_coordinates_permits_are_shared(there: There) -> None:
    there.source.away, there.shop.seconds = True, 0.05
    sessions = [there.session(f"pod-{number}", concurrent=5, pods=2) for number in range(2)]
    assert await asyncio.gather(*(get(one) for one in sessions for _ in range(8))) == [200] * 16
    assert there.shop.most_busy == 4
