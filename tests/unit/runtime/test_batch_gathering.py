"""How a pod gathers events for a batch."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.harness.session.waiting import eventually_async
from tieline.events.batch import BatchRule
from tieline.events.event import EventTask
from tieline.events.publisher import Publisher
from tieline.events.queue import QueueFullError
from tieline.events.retry import Retry, RetryLater
from tieline.events.run_store import RunTakenOver
from tieline.server.event_attempt import Attempt
from tieline.server.event_batches import EventBatches
from tieline_protocol.events import EventMetadata

pytestmark = pytest.mark.fast

TASK = EventTask(name="changed", handler=print, is_async=False, arguments=2)
LONG = BatchRule(size=3, seconds=600, key="shop")


class Pod:
    """Keeps the batches that it would store."""

    def __init__(self, *, most: int = 100, waits: bool = True, publisher: Publisher | None = None) -> None:
        self.stored: list[list[str]] = []
        self.error: Exception | None = None
        self.joining: dict[str, asyncio.Task[None]] = {}
        self.attempts: dict[str, Attempt] = {}
        stores = publisher or SimpleNamespace(store_batch=self._store)
        turns = SimpleNamespace(active=0, most=most)
        self.batches = EventBatches(cast(Any, stores), cast(Any, turns), clock=lambda: 1.0, waits=waits)

    async def _store(self, metadata: EventMetadata, content: bytes, *, attempts: int) -> None:
        if self.error is not None:
            raise self.error
        self.stored.append([one.run for one in metadata.waiting_runs])

    async def join(self, run: str, rule: BatchRule = LONG, *, shop: str = "de") -> None:
        """Returns once the event is held."""
        metadata = EventMetadata(run=run, kind="event", task="changed", queued_at=float(len(self.joining)))
        payload = json.dumps({"shop": shop}).encode()
        delivery = SimpleNamespace(payload=payload, held=True, key_hash=None)

        async def run_batch(task: str, gather: Any) -> tuple[str, Any]:
            batch = await gather()
            return batch, SimpleNamespace(payload=json.dumps({"child": batch, "status": "succeeded"}))

        attempt = Attempt(
            metadata=metadata, delivery=cast(Any, delivery), number=1, retry=Retry(), started_at=1.0
        )
        attempt.waits = cast(Any, SimpleNamespace(run_batch=run_batch))
        self.attempts[run] = attempt
        self.joining[run] = asyncio.create_task(self.batches.join(attempt, TASK, rule))
        await asyncio.sleep(0)

    async def all_have_run(self) -> None:
        await asyncio.gather(*self.joining.values())


async def test_a_batch_begins_when_it_is_full() -> None:
    pod = Pod()
    for run in ("a", "b", "c"):
        assert pod.stored == []
        await pod.join(run)
    await pod.all_have_run()
    assert pod.stored == [["a", "b", "c"]]


async def test_a_batch_begins_when_its_time_is_over() -> None:
    pod = Pod()
    short = BatchRule(size=3, seconds=0.1, key="shop")
    await pod.join("a", short)
    await pod.join("b", short)
    await pod.all_have_run()
    assert pod.stored == [["a", "b"]]


async def test_a_full_pod_closes_its_batches() -> None:
    pod = Pod(most=3)
    for run, shop in (("a", "de"), ("b", "fr"), ("c", "de")):
        assert pod.stored == []
        await pod.join(run, shop=shop)
    await pod.all_have_run()
    assert sorted(pod.stored) == [["a", "c"], ["b"]]


async def test_a_cancelled_event_is_left_out() -> None:
    pod = Pod()
    for run in ("a", "b"):
        await pod.join(run)
    cancelled = pod.joining.pop("a")
    cancelled.cancel()
    await asyncio.wait((cancelled,))
    await pod.join("c")
    await pod.all_have_run()
    assert pod.stored == [["b", "c"]]


async def test_a_batch_of_cancelled_events_is_given_up() -> None:
    pod = Pod()
    for run in ("a", "b"):
        await pod.join(run)
    cancelled = [pod.joining.pop(run) for run in ("a", "b")]
    for one in cancelled:
        one.cancel()
    await asyncio.wait(cancelled)
    assert all(one.cancelled() for one in cancelled)
    for run in ("c", "d", "e"):
        assert pod.stored == []
        await pod.join(run)
    await pod.all_have_run()
    assert pod.stored == [["c", "d", "e"]]


async def test_an_event_that_another_pod_has_is_left_out() -> None:
    pod = Pod()
    for run in ("a", "b"):
        await pod.join(run)
    cast(Any, pod.attempts["a"].delivery).held = False
    await pod.join("c")
    with pytest.raises(RunTakenOver):
        await pod.joining.pop("a")
    await pod.all_have_run()
    assert pod.stored == [["b", "c"]]


async def test_a_batch_that_cannot_be_stored_is_no_attempt_of_its_events() -> None:
    pod = Pod()
    pod.error = QueueFullError("full")
    for run in ("a", "b", "c"):
        await pod.join(run)
    for joining in pod.joining.values():
        with pytest.raises(RetryLater, match="full"):
            await joining


async def test_a_batch_is_stored_although_no_new_event_may_be() -> None:
    accepted: list[EventMetadata] = []

    async def full(*_event: object, **_more: object) -> bool:
        raise QueueFullError("full")

    async def requeue(metadata: EventMetadata, _payload: bytes) -> None:
        accepted.append(metadata)

    pod = Pod(publisher=Publisher(cast(Any, SimpleNamespace(publish=full, requeue=requeue)), {}))
    for run in ("a", "b", "c"):
        await pod.join(run)
    await pod.all_have_run()
    assert [[one.run for one in batch.waiting_runs] for batch in accepted] == [["a", "b", "c"]]


async def test_events_after_a_full_batch_begin_a_new_one() -> None:
    pod = Pod()
    for run in ("a", "b", "c", "d", "e", "f"):
        await pod.join(run)
    await eventually_async("both are stored", lambda: _both(pod))
    assert sorted(pod.stored) == [["a", "b", "c"], ["d", "e", "f"]]


async def _both(pod: Pod) -> bool:
    return len(pod.stored) == 2
