"""Callers that never rest: they keep calling while something is done to what they call, and count what they lose."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import aiohttp

_TIMEOUT = aiohttp.ClientTimeout(total=40)
_CODE = """
import asyncio

from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("hello")
async def hello(ctx: Context, request: Request) -> str:
    assert await request.json() == {"reference": "A-1"}
    return "%(says)s"


@integration.webhook("slow")
async def slow(ctx: Context) -> str:
    await asyncio.sleep(4)
    return "slow %(says)s"
"""


def code_for_load(says: str) -> str:
    """An integration with the webhooks that ``ConstantLoad`` calls."""
    return _CODE % {"says": says}


@dataclass
class ConstantLoad:
    """Calls ``{url}/hello`` and ``{url}/slow`` by POST, which no client repeats by itself.

    Some callers keep their connection, some make a new one for each request, some ask for what takes long. Each
    has at most one request under way, and pauses a little after it.
    """

    url: str
    keeping: int = 6
    connecting: int = 4
    slow: int = 3
    pause: float = 0.05
    answered: Counter[str] = field(default_factory=Counter)
    """By what the answer says."""
    lost: list[str] = field(default_factory=list)

    def __enter__(self) -> ConstantLoad:
        self._ending = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ending.set()
        self._thread.join(60)

    @property
    def total(self) -> int:
        """How many requests were answered."""
        return sum(self.answered.values())

    async def _run(self) -> None:
        await asyncio.gather(
            *(self._caller("hello", keep=True) for _ in range(self.keeping)),
            *(self._caller("hello", keep=False) for _ in range(self.connecting)),
            *(self._caller("slow", keep=True) for _ in range(self.slow)),
        )

    async def _caller(self, webhook: str, *, keep: bool) -> None:
        connector = aiohttp.TCPConnector(limit=1, force_close=not keep)
        async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as client:
            while not self._ending.is_set():
                await self._call(client, webhook)
                await asyncio.sleep(self.pause)

    async def _call(self, client: aiohttp.ClientSession, webhook: str) -> None:
        try:
            async with client.post(f"{self.url}/{webhook}", json={"reference": "A-1"}) as response:
                text = await response.text()
                if response.status != 200:
                    self._lose(f"{webhook}: {response.status} {text[:200]}")
                    return
                self.answered[text] += 1
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._lose(f"{webhook}: {type(error).__name__} {error}")

    def _lose(self, what: str) -> None:
        self.lost.append(f"after {time.monotonic() - self._began:.2f} s: {what}")
