"""Probes, metrics and the OpenAPI document."""

import asyncio
from collections.abc import Callable
from typing import Any

import orjson
from aiohttp import web

from tieline_api.dependencies import Dependencies
from tieline_api.http.metrics import CONTENT_TYPE, Metrics
from tieline_api.http.request_keys import OPERATION
from tieline_common.single_flight import SingleFlight


def add_probes(app: web.Application, platform: Dependencies) -> None:
    """Adds ``/healthz`` and ``/readyz``."""

    async def healthz(request: web.Request) -> web.Response:
        request[OPERATION] = "healthz"
        # Silence alone is no fault of this process, and its caches still answer: only what can never come back.
        ended = platform.cluster.ended
        problem = f"The watch of {', '.join(ended)} has ended" if ended else None
        return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)

    async def readyz(request: web.Request) -> web.Response:
        request[OPERATION] = "readyz"
        problem = _not_ready(platform)
        return web.Response(text=f"{problem or 'ok'}\n", status=503 if problem else 200)

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)


def add_metrics(app: web.Application, platform: Dependencies, metrics: Metrics) -> None:
    """Adds ``/metrics``."""

    async def show_metrics(request: web.Request) -> web.Response:
        request[OPERATION] = "metrics"
        metrics.silence.set(platform.cluster.silence)
        return web.Response(body=metrics.render(), headers={"Content-Type": CONTENT_TYPE})

    app.router.add_get("/metrics", show_metrics)


def add_openapi(app: web.Application, describe: Callable[[], dict[str, Any]]) -> None:
    """Adds ``/openapi.json``, which needs no token. It is made when it is first asked for, which takes a second."""
    made = SingleFlight[None, bytes]()
    described = b""

    async def make() -> bytes:
        return await asyncio.to_thread(lambda: orjson.dumps(describe()))

    async def show_openapi(request: web.Request) -> web.Response:
        nonlocal described
        request[OPERATION] = "openapi"
        if not described:
            described = await made.run(None, make)
        return web.Response(body=described, content_type="application/json", charset="utf-8")

    app.router.add_get("/openapi.json", show_openapi)


def _not_ready(platform: Dependencies) -> str | None:
    if platform.stopping.is_set():
        return "stopping"
    if not platform.cluster.ready:
        return "still reading the cluster"
    # Reads go on from what is known while Kubernetes is away, so that alone takes no replica out of service:
    # all would be out at once. Twice the limit means that this one's watches are dead.
    if platform.cluster.silence > 2 * platform.settings.stale_seconds:
        return "Kubernetes has not been heard from for too long"
    return None
