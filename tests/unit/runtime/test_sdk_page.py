"""The examples of docs/sdk.md do what the page says."""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pytest_aiohttp import AiohttpClient

from tests.unit.runtime.external_systems import SURROUNDINGS, api_key, configured, environment
from tieline import Integration
from tieline.configuration.current import Configuration
from tieline.serving.applications import webhook_application
from tieline.serving.runs import Limits, Runner

PAGE = (Path(__file__).parents[3] / "docs" / "sdk.md").read_text(encoding="utf-8")
ASKED = web.AppKey("asked", list[str])
Client = TestClient[web.Request, web.Application]
Serve = Callable[[str, Configuration], Awaitable[Client]]


def example(marker: str, language: str = "python") -> str:
    """The page's example that has ``marker`` in it."""
    (found,) = [
        block for block in re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL) if marker in block
    ]
    return str(found)


@pytest.fixture
async def shop() -> AsyncIterator[TestServer]:
    """Has orders, and a list of what was asked of it."""
    asked: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        asked.append(f"{request.method} {request.path_qs} {request.headers.get('X-API-Key')}")
        if request.path == "/export":
            return web.Response(body=b"x" * 100_000)
        return web.json_response({"id": "7", "orders": ["A-1"]})

    application = web.Application()
    application[ASKED] = asked
    application.router.add_route("*", "/{path:.*}", handle)
    server = TestServer(application)
    await server.start_server()
    yield server
    await server.close()


@pytest.fixture
def serve(aiohttp_client: AiohttpClient, client: aiohttp.ClientSession) -> Serve:
    async def start(code: str, configuration: Configuration) -> Client:
        module: dict[str, Any] = {}
        exec(compile(code, "docs/sdk.md", "exec"), module)
        integration = module["integration"]
        assert isinstance(integration, Integration)
        runner = Runner(
            limits=Limits(max_body=1000, max_runs=10, run_timeout=5),
            configuration=configuration,
            client=client,
            surroundings=SURROUNDINGS,
        )
        return await aiohttp_client(webhook_application(integration.webhooks, runner, max_body=1000))

    return start


def url_of(shop: TestServer) -> str:
    return str(shop.make_url("")).rstrip("/")


@pytest.mark.parametrize("marker", ["async def orders", "SyncContext"])
async def test_an_order_is_sent_on(serve: Serve, shop: TestServer, marker: str) -> None:
    client = await serve(example(marker), configured(environment(url_of(shop), api_key("header"))))
    response = await client.post("/orders", json={"reference": "A-1"})
    assert await response.json() == {"created": "7"}
    assert shop.app[ASKED] == ["POST /orders key-1234"]


async def test_a_report_is_the_users_with_the_file_of_the_page(serve: Serve, shop: TestServer) -> None:
    file = json.loads(example("key-of-ann", "json").replace("http://localhost:9000", url_of(shop)))
    client = await serve(example("async def report"), configured(file))
    response = await client.get("/report/users/ann")
    assert await response.json() == {"for": "ann", "orders": ["A-1"]}
    assert shop.app[ASKED] == ["GET /orders?region=eu key-of-ann"]
    assert (await client.get("/report/users/ben")).status == 404
    assert "error" in await (await client.get("/report")).json()


async def test_changes_are_taken_from_the_storefront_only(serve: Serve, shop: TestServer) -> None:
    body = environment(url_of(shop), api_key("header"))
    body["connections"]["storefront"] = {
        **body["connections"]["shop"],
        "credentials": [api_key("header", "of-the-storefront")],
    }
    client = await serve(example("async def changes"), configured(body))
    changed = {"changed": ["A-1", "A-2"]}
    assert (await client.post("/changes", json=changed)).status == 401
    assert shop.app[ASKED] == []
    response = await client.post("/changes", json=changed, headers={"X-API-Key": "of-the-storefront"})
    assert response.status == 204
    assert shop.app[ASKED] == ["DELETE /orders/A-1 key-1234", "DELETE /orders/A-2 key-1234"]


async def test_an_export_is_streamed(serve: Serve, shop: TestServer) -> None:
    client = await serve(
        example("async def export"), configured(environment(url_of(shop), api_key("header")))
    )
    assert await (await client.get("/export")).json() == {"bytes": 100_000}
