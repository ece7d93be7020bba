"""An external system in a process of its own that counts what arrives, by its own clock."""

from __future__ import annotations

import asyncio
import json
import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import uvloop
from aiohttp import web

from tests.harness.cluster.deployed_platform import http
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_process import RunningProcess


@dataclass(frozen=True)
class Counted:
    """What arrived: times in seconds, and who sent it."""

    arrived: Sequence[tuple[float, str]]
    most_at_once: int

    def by_pod(self) -> Counter[str]:
        """Requests by the header X-Pod."""
        return Counter(pod for _, pod in self.arrived)

    def worst(self, seconds: float) -> int:
        """The most requests in any period of this length."""
        times = sorted(at for at, _ in self.arrived)
        return max((bisect_left(times, at + seconds) - index for index, at in enumerate(times)), default=0)

    def between(self, begin: float, end: float) -> int:
        """Requests from ``begin`` to ``end``, in seconds after the first one."""
        first = min((at for at, _ in self.arrived), default=0.0)
        return sum(begin <= at - first < end for at, _ in self.arrived)


@dataclass
class CountingProvider(RunningProcess):
    """Starts and stops it. Each request takes ``seconds``."""

    module = "tests.harness.processes.counting_provider"
    folder: Path
    seconds: float = 0.0
    port: int = field(default_factory=free_port)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "provider.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def environment(self) -> dict[str, str]:
        return {"PROVIDER_PORT": str(self.port), "PROVIDER_SECONDS": str(self.seconds)}

    def ready(self) -> bool:
        try:
            return http("GET", f"{self.url}/~counted", timeout=5).status == 200
        except OSError:
            return False

    def counted(self) -> Counted:
        """What has arrived since the last reset."""
        found = json.loads(http("GET", f"{self.url}/~counted").body)
        return Counted([(at, pod) for at, pod in found["arrived"]], found["mostAtOnce"])

    def reset(self) -> None:
        """Forget what has arrived."""
        http("POST", f"{self.url}/~reset", body=b"")

    def refuse(self, retry_after: int) -> None:
        """Answer the next request with 429."""
        http("POST", f"{self.url}/~refuse/{retry_after}", body=b"")


class _Provider:
    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._arrived: list[tuple[float, str]] = []
        self._busy = self._most = 0
        self._refusals: list[str] = []

    def application(self) -> web.Application:
        application = web.Application()
        application.router.add_get("/~counted", self._counted)
        application.router.add_post("/~reset", self._reset)
        application.router.add_post("/~refuse/{seconds}", self._refuse)
        application.router.add_route("*", "/{path:.*}", self._answer)
        return application

    async def _counted(self, _request: web.Request) -> web.Response:
        return web.json_response({"arrived": self._arrived, "mostAtOnce": self._most})

    async def _reset(self, _request: web.Request) -> web.Response:
        self._arrived, self._most = [], self._busy
        return web.Response()

    async def _refuse(self, request: web.Request) -> web.Response:
        self._refusals.append(request.match_info["seconds"])
        return web.Response()

    async def _answer(self, request: web.Request) -> web.Response:
        self._arrived.append((time.monotonic(), request.headers.get("X-Pod", "")))
        self._busy += 1
        self._most = max(self._most, self._busy)
        try:
            await asyncio.sleep(self._seconds)
        finally:
            self._busy -= 1
        if self._refusals:
            return web.Response(status=429, headers={"Retry-After": self._refusals.pop()})
        return web.Response(text="ok")


async def _serve() -> None:
    provider = _Provider(float(os.environ["PROVIDER_SECONDS"]))
    runner = web.AppRunner(provider.application(), access_log=None, handle_signals=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(os.environ["PROVIDER_PORT"])).start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(_serve())
