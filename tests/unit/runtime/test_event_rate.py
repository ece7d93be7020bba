"""The quota of events a second: pods ask the API for a share, and refuse what exceeds it."""

from __future__ import annotations

from typing import Any, cast

import aiohttp
import pytest

from tests.unit.runtime.test_engine_storage import _Deduplicating, _Engine
from tieline.configuration.pod_api import ApiAnswer, PodApi
from tieline.events.engine.event_rate import EventRate
from tieline.events.engine.queue import EngineQueue
from tieline.events.queue import QueueFullError
from tieline_core.engine.streams import StreamLimits, environment_streams
from tieline_engine.streams import events_quota, publishers_limit
from tieline_protocol.event_rates import RateLease
from tieline_protocol.event_streams import EVENTS_PER_SECOND, EventStreams
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast


class Api:
    """Leases events of a second in parts of four."""

    def __init__(self, quota: int = 10) -> None:
        self.left = quota
        self.asked = 0
        self.status = 200
        self.away = False

    async def request(self, method: str, path: str, *, limits: aiohttp.ClientTimeout) -> ApiAnswer:
        self.asked += 1
        if self.away:
            raise aiohttp.ClientError("away")
        part = min(4, self.left)
        self.left -= part
        body = f'{{"count": {part}, "seconds": 0.5}}'
        return ApiAnswer(self.status, None, body.encode())


class Pods:
    """Pods of one organisation, with a clock that tests turn."""

    def __init__(self, api: Api, count: int = 2) -> None:
        self.now = 100.0
        self.api = api
        self.rates = [EventRate(cast(PodApi, api), clock=lambda: self.now) for _ in range(count)]

    async def published(self, count: int, *, quota: int = 10) -> int:
        accepted = 0
        for number in range(count):
            try:
                await self.rates[number % len(self.rates)].check(quota)
            except QueueFullError:
                continue
            accepted += 1
        return accepted


async def test_pods_share_the_events_of_a_second() -> None:
    pods = Pods(Api())
    assert await pods.published(100) == 10
    assert pods.api.asked <= 5
    pods.now += 0.6
    pods.api.left = 10
    assert await pods.published(100) == 10


async def test_without_a_quota_nobody_is_asked() -> None:
    pods = Pods(Api())
    assert await pods.published(100, quota=0) == 100
    assert pods.api.asked == 0


async def test_what_is_not_used_in_time_is_lost() -> None:
    pods = Pods(Api(quota=4), count=1)
    assert await pods.published(1) == 1
    pods.now += 0.6
    assert await pods.published(1) == 0


@pytest.mark.parametrize("status", [None, 503])
async def test_a_pod_counts_alone_while_the_api_cannot_be_asked(status: int | None) -> None:
    pods = Pods(Api(), count=1)
    pods.api.away, pods.api.status = status is None, status or 200
    assert await pods.published(100) == 10
    assert pods.api.asked == 1
    pods.now += 1
    assert await pods.published(100) == 10


async def test_a_refusal_names_the_quota_and_who_can_raise_it() -> None:
    rate = EventRate(cast(PodApi, Api(quota=0)), clock=lambda: 0.0)
    with pytest.raises(QueueFullError, match=r"10 events a second.*eventsPerSecond.*administrator"):
        await rate.check(10)


async def test_a_queue_refuses_events_beyond_the_quota_of_its_stream() -> None:
    class Limited(_Deduplicating):
        async def api(self, subject: str, **body: Any) -> dict[str, Any]:
            found = await _Engine.api(self, subject, **body)
            found["config"]["metadata"][EVENTS_PER_SECOND] = "1"
            return found

    engine = Limited()
    queue = EngineQueue(engine, api=cast(PodApi, Api(quota=1)))  # type: ignore[arg-type]
    event = EventMetadata(run="run", kind="event", task="ship", queued_at=1)
    assert await queue.publish(event, b"{}")
    with pytest.raises(QueueFullError, match="eventsPerSecond"):
        await queue.publish(EventMetadata(run="next", kind="event", task="ship", queued_at=1), b"{}")
    assert len(engine.messages) == 1


def test_publishers_read_the_quota_from_their_stream() -> None:
    limits = StreamLimits(events_per_second=50)
    later = environment_streams(EventStreams("org", "env"), limits)[1].as_dict()
    assert (events_quota(later), publishers_limit(later)) == (50, limits.later_bytes)
    assert events_quota(environment_streams(EventStreams("org", "env"), StreamLimits())[1].as_dict()) == 0


@pytest.mark.parametrize(
    "content", [{}, {"count": -1, "seconds": 1}, {"count": 1, "seconds": 1e9}, {"count": None}]
)
def test_a_lease_of_another_shape_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no lease of events"):
        RateLease.from_json(content)
