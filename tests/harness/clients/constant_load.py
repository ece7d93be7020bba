"""Callers that never rest: they keep calling while something is done to what they call, and count what they lose."""

from __future__ import annotations

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

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


@dataclass(kw_only=True)
class Load(ABC):
    """Callers that go on until the ``with`` block ends, none of which repeats a request.

    Each has at most one request under way, and pauses a little after it.
    """

    pause: float = 0.05
    answered: Counter[str] = field(default_factory=Counter)
    """By what the answer says."""
    lost: list[str] = field(default_factory=list)

    def __enter__(self) -> Self:
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

    @abstractmethod
    def _callers(self) -> Iterable[Awaitable[None]]:
        """The callers, by ``_caller``."""

    async def _run(self) -> None:
        await asyncio.gather(*self._callers())

    async def _caller(
        self, call: Callable[[aiohttp.ClientSession], Awaitable[None]], *, keep: bool, **session: Any
    ) -> None:
        """Calls again and again, by one connection that is kept or by a new one each time."""
        connector = aiohttp.TCPConnector(limit=1, force_close=not keep)
        async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT, **session) as client:
            # aiohttp would repeat what is not POST when a connection breaks; there is no public switch.
            client._retry_connection = False
            while not self._ending.is_set():
                await call(client)
                await asyncio.sleep(self.pause)

    async def _call(
        self,
        client: aiohttp.ClientSession,
        method: str,
        url: str,
        *,
        says: str = "",
        good: int = 200,
        **more: Any,
    ) -> str | None:
        """The answer to one request, counted (under ``says``, or what it says); nothing when it is lost."""
        try:
            async with client.request(method, url, **more) as response:
                text = await response.text()
                if response.status != good:
                    self._lose(f"{method} {url}: {response.status} {text[:200]}")
                    return None
                self.answered[says or text] += 1
                return text
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            self._lose(f"{method} {url}: {type(error).__name__} {error}")
            return None

    def _lose(self, what: str) -> None:
        self.lost.append(f"after {time.monotonic() - self._began:.2f} s: {what}")


@dataclass
class ConstantLoad(Load):
    """Calls ``{url}/hello`` and ``{url}/slow`` by POST, which no client repeats by itself.

    Some callers keep their connection, some make a new one for each request, some ask for what takes long.
    """

    url: str
    keeping: int = 6
    connecting: int = 4
    slow: int = 3

    def _callers(self) -> Iterable[Awaitable[None]]:
        hello, slow = partial(self._post, "hello"), partial(self._post, "slow")
        yield from (self._caller(hello, keep=True) for _ in range(self.keeping))
        yield from (self._caller(hello, keep=False) for _ in range(self.connecting))
        yield from (self._caller(slow, keep=True) for _ in range(self.slow))

    async def _post(self, webhook: str, client: aiohttp.ClientSession) -> None:
        await self._call(client, "POST", f"{self.url}/{webhook}", json={"reference": "A-1"})
