"""What the platform is told of a code's schedules, and for how long a pod tries."""

from __future__ import annotations

import logging
from typing import Any, cast

import aiohttp
import pytest

from tieline import Integration
from tieline.configuration.pod_api import ApiAnswer, PodApi
from tieline.server.schedule_registration import register


class Api:
    """Answers with one status after the other; an exception is no answer."""

    def __init__(self, *answers: int | Exception) -> None:
        self.answers = list(answers)
        self.told: list[Any] = []

    async def request(self, method: str, path: str, *, body: Any, limits: aiohttp.ClientTimeout) -> ApiAnswer:
        assert (method, path) == ("PUT", "/internal/v1/environment/schedules")
        assert limits.total
        self.told.append(body)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ApiAnswer(answer, None, b"")


async def told(api: Api) -> None:
    integration = Integration()
    integration.schedule("sync", "0  9 * * MON", timezone="Europe/Berlin", activations="users")(lambda: None)
    await register(cast(PodApi, api), "v1", integration.schedules.values(), first_backoff=0.001)


async def test_the_platform_is_told_of_every_schedule() -> None:
    api = Api(204)
    await told(api)
    sync = {"name": "sync", "cron": "0 9 * * MON", "timezone": "Europe/Berlin", "activations": "users"}
    assert api.told == [{"version": "v1", "schedules": [sync]}]


async def test_a_pod_tries_until_the_platform_has_taken_it(caplog: pytest.LogCaptureFixture) -> None:
    api = Api(aiohttp.ClientConnectionError("away"), TimeoutError(), 503, 429, 409, 403, 204)
    await told(api)
    assert api.answers == []
    assert len([one for one in caplog.records if one.levelno == logging.WARNING]) == 1


@pytest.mark.parametrize("status", [422, 413, 400])
async def test_a_pod_does_not_repeat_what_cannot_succeed(status: int) -> None:
    api = Api(status)
    await told(api)
    assert len(api.told) == 1
