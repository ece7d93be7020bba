"""The README's way without Kubernetes: the quickstart's integration and its shop on one machine."""

import asyncio
import os
import sys
from pathlib import Path

import aiohttp
from aiohttp.test_utils import unused_port

from tests.unit.cli.commands import Running

QUICKSTART = Path(__file__).parents[3] / "examples" / "quickstart"
ORDER = {
    "number": "S-1",
    "buyer": {"email": "ann@example.org"},
    "items": [{"product": "mug", "count": 2, "price": "9.90"}],
}


async def test_an_order_arrives_in_the_shop() -> None:
    port = unused_port()
    env = {"SHOP_API_KEY": "any-key", "SHOP_URL": f"http://localhost:{port}"}
    shop = await asyncio.create_subprocess_exec(
        sys.executable,
        str(QUICKSTART / "shop" / "shop.py"),
        env={**os.environ, **env, "SHOP_PORT": str(port)},
    )
    try:
        async with Running(QUICKSTART, env=env) as running, aiohttp.ClientSession() as client:
            url = await running.url()
            async with client.post(f"{url}/orders", json=ORDER) as response:
                assert await response.json() == {"created": "1", "totalCents": 1980}
    finally:
        shop.terminate()
        await shop.wait()
