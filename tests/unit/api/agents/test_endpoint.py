"""The endpoint before the protocol: whose pages may speak with it, how many at once, and what it costs while unused."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from tieline_api import errors
from tieline_api.agents import endpoint
from tieline_api.agents.endpoint import MOST, MOST_EACH, Endpoint
from tieline_api.auth.authentication import Caller
from tieline_api.auth.end_users import EndUserScope
from tieline_api.cluster.organisations import Organisation
from tieline_api.http.operation import Call, ProxyRequest
from tieline_core.identity.ids import new_id

SETTINGS = SimpleNamespace(
    own_origins=frozenset({"https://tieline.example"}), cors_origins=frozenset({"https://app.example"})
)


def call_of(
    *, origin: str | None = None, scope: EndUserScope | None = None, organisation: str = ""
) -> Call[Any, Any]:
    headers = {} if origin is None else {"Origin": origin}
    return Call(
        platform=SimpleNamespace(settings=SETTINGS),  # type: ignore[arg-type]
        organisation=Organisation(id=organisation or new_id(), namespace="acme"),
        caller=Caller(username="ann", end_user=scope),
        path={},
        query=None,
        body=None,
        proxied=ProxyRequest(method="POST", path="", headers=CIMultiDictProxy(CIMultiDict(headers))),
    )


@pytest.fixture
def finish(monkeypatch: pytest.MonkeyPatch) -> asyncio.Event:
    """Messages are answered once it is set."""
    event = asyncio.Event()

    async def answer(_call: Any, _tools: Any) -> web.Response:
        await event.wait()
        return web.Response()

    monkeypatch.setattr(endpoint, "_with_the_sdk", lambda: answer)
    return event


@pytest.mark.parametrize(
    ("origin", "scope"),
    [
        (None, None),
        ("https://tieline.example", None),
        ("https://APP.example", None),
        ("https://shop.example", EndUserScope(external_id="a", origins=frozenset({"https://shop.example"}))),
    ],
)
async def test_programs_and_pages_that_may_call_the_api_are_answered(
    finish: asyncio.Event, origin: str | None, scope: EndUserScope | None
) -> None:
    finish.set()
    assert (await Endpoint().speak(call_of(origin=origin, scope=scope))).response is not None


@pytest.mark.parametrize("scope", [None, EndUserScope(external_id="a")])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "", "http://127.0.0.1:8080", "https://tieline.example.evil"]
)
async def test_pages_of_other_origins_are_refused(origin: str, scope: EndUserScope | None) -> None:
    with pytest.raises(errors.ApiError) as caught:
        await Endpoint().speak(call_of(origin=origin, scope=scope))
    assert caught.value.status == 403


async def ended(tasks: list[asyncio.Task[Any]], count: int) -> None:
    """Returns once so many have ended, and makes sure that no more do."""
    async with asyncio.timeout(20):
        pending = set(tasks)
        while len(tasks) - len(pending) < count:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    for _ in range(100):
        await asyncio.sleep(0)
    assert sum(task.done() for task in tasks) == count


async def test_of_hundreds_of_messages_at_once_a_bounded_number_is_answered(finish: asyncio.Event) -> None:
    made, ours = Endpoint(), new_id()
    under_way = [asyncio.create_task(made.speak(call_of(organisation=ours))) for _ in range(300)]
    await ended(under_way, 300 - MOST_EACH)
    problems = [task.exception() for task in under_way if task.done()]
    assert {problem.status for problem in problems if isinstance(problem, errors.ApiError)} == {429}
    others = [asyncio.create_task(made.speak(call_of())) for _ in range(300)]
    await ended(others, 300 - (MOST - MOST_EACH))  # others have room, and all together a bound
    finish.set()
    await asyncio.wait([*under_way, *others])
    assert (await made.speak(call_of(organisation=ours))).response is not None


def test_the_sdk_is_not_imported_before_somebody_speaks_with_it() -> None:
    code = (
        "import sys, tieline_api.main, tieline_api.app;"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'mcp', 'mcp_types', 'starlette', 'uvicorn'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"
