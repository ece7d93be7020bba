"""Events are posted behind the work that they tell of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from tests.harness.session.waiting import until
from tieline_core.kubernetes import Resource, Unavailable
from tieline_core.kubernetes.resources import SYSTEMS
from tieline_operator.apply.event_recorder import QueuedEventRecorder

OBJECT = {"metadata": {"name": "shop", "namespace": "acme", "uid": "u", "resourceVersion": "1"}}


class Server:
    """Takes events, when it is let."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.took: list[str] = []
        self.refused = 0

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> object:
        await self.open.wait()
        if self.refused:
            self.refused -= 1
            raise Unavailable("away")
        self.took.append(obj["note"])
        return obj


def told(message: str) -> dict[str, str]:
    return {"status": "True", "reason": "Valid", "message": message}


async def test_work_does_not_wait_for_its_events_and_they_keep_their_order() -> None:
    server = Server()
    events = QueuedEventRecorder(server)
    events.start()

    await events.post(SYSTEMS, OBJECT, told("first"))
    await events.post(SYSTEMS, OBJECT, told("second"))
    assert server.took == []

    server.open.set()
    await events.stop()
    assert server.took == ["first", "second"]


async def test_an_event_that_cannot_be_posted_does_not_stop_the_next() -> None:
    server = Server()
    server.refused = 1
    server.open.set()
    events = QueuedEventRecorder(server)
    events.start()

    await events.post(SYSTEMS, OBJECT, told("lost"))
    await events.post(SYSTEMS, OBJECT, told("kept"))
    await events.stop()

    assert server.took == ["kept"]


async def test_more_events_than_can_wait_are_left_out() -> None:
    server = Server()
    events = QueuedEventRecorder(server)

    for number in range(1100):
        await events.post(SYSTEMS, OBJECT, told(str(number)))
    server.open.set()
    events.start()
    await events.stop()

    assert server.took == [str(number) for number in range(1000)]


async def test_work_that_waits_comes_first_and_a_full_queue_does_not_wait_for_it() -> None:
    server = Server()
    server.open.set()
    work = ["much"]
    events = QueuedEventRecorder(server, busy=lambda: bool(work))
    events.start()

    await events.post(SYSTEMS, OBJECT, told("0"))
    await asyncio.sleep(0.2)
    assert server.took == []

    for number in range(1, 700):
        await events.post(SYSTEMS, OBJECT, told(str(number)))
    await until(lambda: len(server.took) >= 200)
    await asyncio.sleep(0.2)
    assert len(server.took) < 300, "more than half of the queue was free: events could have waited"

    work.clear()
    await until(lambda: len(server.took) == 700)
    assert server.took == [str(number) for number in range(700)]
    await events.stop()


async def test_events_do_not_wait_for_work_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tieline_operator.apply.event_recorder._MAX_DELAY", 0.1)
    server = Server()
    server.open.set()
    events = QueuedEventRecorder(server, busy=lambda: True)
    events.start()

    await events.post(SYSTEMS, OBJECT, told("told"))
    await until(lambda: server.took == ["told"])
    await events.stop()


async def test_what_still_waits_behind_work_is_told_when_it_stops() -> None:
    server = Server()
    server.open.set()
    events = QueuedEventRecorder(server, busy=lambda: True)
    events.start()

    await events.post(SYSTEMS, OBJECT, told("last"))
    await events.stop()

    assert server.took == ["last"]


async def test_stopping_without_having_started_is_fine() -> None:
    await QueuedEventRecorder(Server()).stop()
