"""The quickstart's code does what its page promises, against its real shop."""

import importlib.util
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer
from pytest_aiohttp import AiohttpClient, AiohttpServer

from tests.unit.runtime.external_systems import RUN_METADATA, api_key, configured, environment
from tieline.integration import Webhook
from tieline.server.applications import webhook_application
from tieline.server.code_loader import load
from tieline.server.webhook_runs import Limits, Runner

QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart"
ORDER = {
    "number": "S-1",
    "buyer": {"email": "ann@example.org"},
    "items": [{"product": "mug", "count": 2, "price": "9.90"}],
}


@pytest.fixture
async def shop(aiohttp_server: AiohttpServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("SHOP_API_KEY", "the-right-key")
    spec = importlib.util.spec_from_file_location("quickstart_shop", QUICKSTART / "shop" / "shop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return await aiohttp_server(module.application())


@pytest.fixture
def webhooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, Webhook]]:
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield load(QUICKSTART / "integration").webhooks
    for name in ("main", "storefront"):
        sys.modules.pop(name, None)


async def send(
    order: object,
    *,
    key: str,
    shop: TestServer,
    webhooks: Mapping[str, Webhook],
    client: aiohttp.ClientSession,
    aiohttp_client: AiohttpClient,
) -> tuple[int, Any]:
    runner = Runner(
        limits=Limits(max_body=10_000, max_runs=10, run_timeout=5),
        configuration=configured(environment(str(shop.make_url("")), api_key("header", key))),
        client=client,
        run_metadata=RUN_METADATA,
    )
    storefront = await aiohttp_client(webhook_application(webhooks, runner, max_body=10_000))
    response = await storefront.post("/orders", json=order)
    return response.status, await response.json()


async def test_a_storefronts_order_arrives_in_the_shop(
    shop: TestServer,
    webhooks: Mapping[str, Webhook],
    client: aiohttp.ClientSession,
    aiohttp_client: AiohttpClient,
) -> None:
    answer = await send(
        ORDER,
        key="the-right-key",
        shop=shop,
        webhooks=webhooks,
        client=client,
        aiohttp_client=aiohttp_client,
    )
    assert answer == (201, {"created": "1", "totalCents": 1980})
    headers = {"X-API-Key": "the-right-key"}
    async with client.get(shop.make_url("/orders"), headers=headers) as response:
        (stored,) = (await response.json())["orders"]
    assert stored["customer"] == "ann@example.org"
    assert stored["lines"] == [{"sku": "mug", "quantity": 2, "unitPriceCents": 990}]


@pytest.mark.parametrize(
    ("order", "key", "status"),
    [(ORDER, "a-wrong-key", 502), ({"number": "S-2"}, "the-right-key", 422), ([], "the-right-key", 422)],
)
async def test_what_the_shop_or_the_code_refuses_is_told_to_the_storefront(
    shop: TestServer,
    webhooks: Mapping[str, Webhook],
    client: aiohttp.ClientSession,
    aiohttp_client: AiohttpClient,
    order: object,
    key: str,
    status: int,
) -> None:
    answer = await send(
        order, key=key, shop=shop, webhooks=webhooks, client=client, aiohttp_client=aiohttp_client
    )
    assert answer[0] == status


async def test_the_shop_tells_nothing_without_its_key(
    shop: TestServer, client: aiohttp.ClientSession
) -> None:
    for headers in ({}, {"X-API-Key": "ä"}, {"X-API-Key": "the-right-ke"}):
        async with client.get(shop.make_url("/orders"), headers=headers) as response:
            assert response.status == 401
