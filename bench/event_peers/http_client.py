"""Sends queued webhooks to BENCH_URL."""

import json
import os

import aiohttp
import uvloop

from bench.event_peers.publishing import arguments, load_of, payload, publish, write_sent


async def _main() -> None:
    chosen = arguments()
    connector = aiohttp.TCPConnector(limit=chosen.in_flight)
    async with aiohttp.ClientSession(connector=connector) as client:

        async def call(number: int) -> None:
            async with client.post(os.environ["BENCH_URL"], data=json.dumps(payload(number))) as response:
                assert response.status == 202, await response.text()
                await response.read()

        write_sent(chosen, await publish(call, **load_of(chosen)))


if __name__ == "__main__":
    uvloop.run(_main())
