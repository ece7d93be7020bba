"""Pods report whether they work, where the platform wants to know."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from tieline.configuration.pod_api import ApiAnswer, PodApi
from tieline.configuration.snapshot import parse
from tieline.server import activity_reports
from tieline.server.activity_reports import ActivityReports
from tieline_common.cancellation import cancel_and_wait


class Platform:
    """Notes reports, and refuses the first ``failures``."""

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.registered = 0
        self.reports: list[bool] = []
        self.arrived = asyncio.Event()

    async def request(self, _method: str, _path: str, *, body: dict[str, Any], **_options: Any) -> ApiAnswer:
        self.reports.append(body["working"])
        self.arrived.set()
        if self.failures:
            self.failures -= 1
            raise OSError("away")
        return ApiAnswer(204, None, b"")

    async def next(self) -> bool:
        self.arrived.clear()
        await self.arrived.wait()
        return self.reports[-1]

    async def register(self) -> None:
        """Schedules are registered before the first report, also where the platform asks for reports later."""
        assert not self.reports
        self.registered += 1


def reporting(
    platform: Platform,
    *,
    seconds: Callable[[], float | None],
    busy: Callable[[], bool],
    ended: Callable[[], int],
) -> ActivityReports:
    return ActivityReports(
        cast(PodApi, platform), seconds=seconds, busy=busy, ended=ended, begin=platform.register
    )


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activity_reports, "_FIRST_PAUSE", 0.001)


async def test_a_pod_reports_that_it_works_and_that_it_does_not() -> None:
    platform, state = Platform(), {"busy": False, "ended": 0}
    reports = reporting(
        platform,
        seconds=lambda: 0.001,
        busy=lambda: bool(state["busy"]),
        ended=lambda: int(state["ended"]),
    )
    running = asyncio.create_task(reports.run())
    assert not await platform.next()
    state["busy"] = True
    await platform.next()
    assert await platform.next()
    state["busy"] = False
    await platform.next()
    assert not await platform.next()
    before = len(platform.reports)
    state["ended"] = 1
    await platform.next()
    await platform.next()
    assert platform.reports[before:].count(True) == 1, "a run that began and ended in between counts once"
    await cancel_and_wait(running)


async def test_work_that_could_not_be_reported_is_reported_later() -> None:
    platform, ended = Platform(failures=2), [0]
    reports = reporting(platform, seconds=lambda: 0.001, busy=lambda: False, ended=lambda: ended[0])
    ended[0] = 1
    running = asyncio.create_task(reports.run())
    while len(platform.reports) < 4:
        await platform.next()
    assert platform.reports[:4] == [True, True, True, False]
    await cancel_and_wait(running)


async def test_nothing_is_reported_until_the_platform_asks_for_it() -> None:
    platform, seconds = Platform(), cast("list[float | None]", [None])
    reports = reporting(platform, seconds=lambda: seconds[0], busy=lambda: False, ended=lambda: 0)
    running = asyncio.create_task(reports.run())
    await asyncio.sleep(0)
    reports.configured()
    await asyncio.sleep(0)
    assert not platform.reports
    assert not platform.registered
    seconds[0] = 60.0
    reports.configured()
    await platform.next()
    assert platform.registered == 1
    await cancel_and_wait(running)


def test_the_configuration_says_how_often() -> None:
    assert parse({"settings": {"activitySeconds": 2.5}}).activity_seconds == 2.5
    for value in (None, 0, -1, "2", []):
        assert parse({"settings": {"activitySeconds": value}}).activity_seconds is None
