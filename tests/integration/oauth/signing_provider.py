"""The provider of OAuth 1.0 on a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from aiohttp import web

from tests.unit.oauth.oauth1_provider import OAuth1Provider


@contextmanager
def running() -> Iterator[OAuth1Provider]:
    """Serves on this machine until the end of the block."""
    found, app, loop = OAuth1Provider(), web.Application(), asyncio.new_event_loop()
    found.add_to(app)
    runner = web.AppRunner(app)

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        found.url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield found
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
