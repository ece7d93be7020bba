"""examples/order-pipeline on a real engine: its ERP is away, a pod is killed, and a new version is deployed."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
import sys
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.harness.processes.event_pods import EventEnvironment, event_environment
from tests.harness.processes.nats_server import NatsServer
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_runtime import RunningRuntime
from tests.harness.session.waiting import eventually_async

EXAMPLE = Path(__file__).parents[3] / "examples" / "order-pipeline"
MAIN = (EXAMPLE / "integration" / "main.py").read_text()
KEY = "only-for-local-runs"
CUSTOMERS = ("ann", "ben", "cat", "eve")


class Erp:
    """The example's ERP and storefront as a process."""

    def __init__(self, url: str, http: aiohttp.ClientSession) -> None:
        self.url = url
        self._http = http

    async def get(self, path: str) -> Any:
        async with self._http.get(f"{self.url}{path}", headers={"X-API-Key": KEY}) as response:
            response.raise_for_status()
            return await response.json()

    def books_more_than(self, count: int) -> Callable[[], Awaitable[bool]]:
        async def ask() -> bool:
            return len((await self.get("/orders"))["orders"]) > count

        return ask

    async def switch(self, *, away: bool) -> None:
        async with self._http.post(f"{self.url}/switch", json={"away": away}) as response:
            response.raise_for_status()

    async def is_up(self) -> bool:
        try:
            async with self._http.get(f"{self.url}/healthz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False


class Storefront:
    """Sends signed orders to the pods, a customer's one after the other, each until it is accepted."""

    def __init__(self, environment: EventEnvironment, http: aiohttp.ClientSession) -> None:
        self.environment = environment
        self._http = http
        self.accepted: dict[str, list[str]] = defaultdict(list)
        self._sent = 0

    async def send(self, count: int) -> None:
        """``count`` orders of each customer."""
        for _ in range(count):
            for customer in CUSTOMERS:
                await self._send(customer)

    async def _send(self, customer: str) -> None:
        number = f"{customer}-{len(self.accepted[customer]) + 1:03}"
        body = json.dumps({"number": number, "customer": customer, "lines": [{"sku": "mug", "quantity": 1}]})
        signature = hmac.new(KEY.encode(), body.encode(), hashlib.sha256).hexdigest()
        headers = {
            "X-Signature": f"sha256={signature}",
            "Content-Type": "application/json",
            "Webhook-Id": number,
        }
        async with asyncio.timeout(30):
            while True:
                pods = [pod for pod in self.environment.pods if pod.pid is not None]
                self._sent += 1
                url = f"{pods[self._sent % len(pods)].url}/orders"
                try:
                    async with self._http.post(url, data=body, headers=headers) as response:
                        assert response.status in (202, 503), await response.text()
                        if response.status == 202:
                            self.accepted[customer].append(number)
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.05)


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


@pytest.fixture
async def erp(http: aiohttp.ClientSession) -> AsyncIterator[Erp]:
    port = free_port()
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(EXAMPLE / "erp" / "erp.py"),
        env={**os.environ, "PORT": str(port), "API_KEY": KEY, "SIGNING_KEY": KEY},
    )
    try:
        found = Erp(f"http://127.0.0.1:{port}", http)
        await eventually_async("the ERP is up", found.is_up, within=30)
        yield found
    finally:
        process.terminate()
        await process.wait()


@pytest.fixture
async def environment(engine: NatsServer, erp: Erp, tmp_path: Path) -> AsyncIterator[EventEnvironment]:
    admin = await engine.admin()
    found = await event_environment(engine, admin, tmp_path, MAIN)
    connections = yaml.safe_load((EXAMPLE / "connections.yaml").read_text())
    for connection in connections["connections"].values():
        connection["baseUrl"] = connection["baseUrl"].replace("http://localhost:9000", erp.url)
    found.connections = yaml.safe_dump(connections)
    yield found
    found.stop()
    await found.admin.close()
    await admin.close()


async def test_every_accepted_order_is_booked_once_and_in_order_by_customer(
    environment: EventEnvironment, erp: Erp, http: aiohttp.ClientSession
) -> None:
    first, second = await start(environment), await start(environment)
    storefront = Storefront(environment, http)
    await storefront.send(2)
    await erp.switch(away=True)
    await storefront.send(3)
    second.signal(signal.SIGKILL)
    await storefront.send(2)
    environment.code = MAIN.replace('"Booked an order"', '"Booked an order, in the new version"')
    third = await start(environment, version="v2")
    stopping = asyncio.create_task(asyncio.to_thread(first.stop))
    await storefront.send(3)
    await stopping
    await start(environment, version="v2")
    await erp.switch(away=False)
    await eventually_async("the ERP books again", erp.books_more_than(2 * len(CUSTOMERS)), within=60)
    third.signal(signal.SIGKILL)
    await storefront.send(2)

    async def all_told() -> bool:
        return len(await erp.get("/storefront/orders")) == 12 * len(CUSTOMERS)

    async def seen() -> object:
        logs = [pod.log.read_text()[-3000:] for pod in environment.pods]
        return await erp.get("/orders"), "\n".join(logs)

    await eventually_async("every order is confirmed", all_told, within=90, seen=seen)
    book = await erp.get("/orders")
    for customer in CUSTOMERS:
        bookings = [order["number"] for order in book["orders"] if order["customer"] == customer]
        assert bookings == storefront.accepted[customer]
    assert book["refused"] > 0
    assert {one["status"] for one in (await erp.get("/storefront/orders")).values()} == {"booked"}
    assert "Booked an order, in the new version" in environment.pods[-1].log.read_text()

    async def none_waits() -> bool:
        return await environment.waits() == 0

    await eventually_async("nothing is queued", none_waits, within=10, seen=environment.waits)
    assert not [record for record in await environment.history() if record.status == "dead"]


async def start(environment: EventEnvironment, version: str = "v1") -> RunningRuntime:
    """One more pod. The ERP and the storefront are answered meanwhile."""
    return await asyncio.to_thread(environment.pod, version=version)
