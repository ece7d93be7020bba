"""The loyalty example, with the connections that it brings for your own machine."""

import base64
import hashlib
import hmac
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from pytest_aiohttp import AiohttpClient

from tests.unit.runtime.external_systems import RUN_METADATA, configured
from tieline.server.applications import webhook_application
from tieline.server.code_loader import load
from tieline.server.webhook_runs import Limits, Runner

EXAMPLE = Path(__file__).parents[3] / "examples" / "loyalty"
Client = TestClient[web.Request, web.Application]
Accounts = dict[str, dict[str, int]]


@pytest.fixture
def accounts() -> Accounts:
    return defaultdict(dict)


@pytest.fixture
async def client(
    aiohttp_client: AiohttpClient,
    client: aiohttp.ClientSession,
    accounts: Accounts,
    monkeypatch: pytest.MonkeyPatch,
) -> Client:
    """The example's webhooks, with a loyalty programme that takes only an account's own login."""
    failed: set[str] = set()

    async def credit(request: web.Request) -> web.Response:
        name, number = request.match_info["name"], request.match_info["number"]
        login = base64.b64encode(f"{name}:{name}s-password".encode()).decode()
        assert request.headers["Authorization"] == f"Basic {login}"
        accounts[name][number] = (await request.json())["points"]
        if number not in failed:
            failed.add(number)
            return web.Response(status=503, headers={"Retry-After": "0"})
        return web.json_response({"balance": sum(accounts[name].values())})

    application = web.Application()
    application.router.add_put("/accounts/{name}/credits/{number}", credit)
    server = TestServer(application)
    await server.start_server()
    content = (EXAMPLE / "connections.json").read_text()
    schema = json.loads((EXAMPLE / "variables.schema.json").read_text())
    content = content.replace("http://localhost:9001", str(server.make_url("")).rstrip("/"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    runner = Runner(
        limits=Limits(max_body=1000, max_runs=10, run_timeout=5),
        configuration=configured({**json.loads(content), "variablesSchema": schema}),
        client=client,
        run_metadata=RUN_METADATA,
    )
    webhooks = load(EXAMPLE / "integration").webhooks
    return await aiohttp_client(webhook_application(webhooks, runner, max_body=1000))


async def pay(client: Client, path: str, order: dict[str, Any], key: bytes = b"only-for-local-runs") -> Any:
    body = json.dumps(order).encode()
    signature = hmac.new(key, body, hashlib.sha256).hexdigest()
    return await client.post(path, data=body, headers={"X-Signature": f"sha256={signature}"})


async def test_each_customers_points_go_to_their_own_account_once(client: Client, accounts: Accounts) -> None:
    response = await pay(client, "/paid/users/ann", {"number": "1", "total": "19.90"})
    assert await response.json() == {"credited": 39, "balance": 39}
    response = await pay(client, "/paid/users/ben", {"number": "2", "total": 5})
    assert await response.json() == {"credited": 5, "balance": 5}
    assert dict(accounts) == {"ann": {"1": 39}, "ben": {"2": 5}}


async def test_what_the_storefront_did_not_sign_changes_nothing(client: Client, accounts: Accounts) -> None:
    order = {"number": "1", "total": "19.90"}
    assert (await pay(client, "/paid/users/ann", order, key=b"guessed")).status == 401
    assert (await pay(client, "/paid/users/zoe", order)).status == 404
    assert (await pay(client, "/paid", order)).status == 400
    assert (await pay(client, "/paid/users/ann", {"number": "1", "total": "much"})).status == 422
    assert accounts == {}
