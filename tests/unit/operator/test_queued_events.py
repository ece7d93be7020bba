"""Events are posted behind the work that they tell of."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tieline_core.kube import Resource, Unavailable
from tieline_core.kube.resources import SYSTEMS
from tieline_operator.events import QueuedEvents

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
    events = QueuedEvents(server)
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
    events = QueuedEvents(server)
    events.start()

    await events.post(SYSTEMS, OBJECT, told("lost"))
    await events.post(SYSTEMS, OBJECT, told("kept"))
    await events.stop()

    assert server.took == ["kept"]


async def test_more_events_than_can_wait_are_left_out() -> None:
    server = Server()
    events = QueuedEvents(server)

    for number in range(1100):
        await events.post(SYSTEMS, OBJECT, told(str(number)))
    server.open.set()
    events.start()
    await events.stop()

    assert server.took == [str(number) for number in range(1000)]


async def test_stopping_without_having_started_is_fine() -> None:
    await QueuedEvents(Server()).stop()
