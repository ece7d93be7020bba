"""``python -m bench.wake [--rounds 30]``: a webhook to an environment that sleeps, beside an empty pod that starts.

Needs the platform that ``.tieline/demo.env`` names (``make demo``). In each round one request goes to an environment
without pods, and one Deployment of a server of ten lines, with the same image, is scaled from 0 to 1 and asked until it
answers. The second is the floor: what Kubernetes takes to start a pod, and Python to answer in it.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import aiohttp

from bench.figures import load_average, percentile, table
from bench.platform import Platform, deployed
from tieline_core.kubernetes.resources import DEPLOYMENTS, NAMESPACES, PODS, PROJECTS, SERVICES

ROUNDS = 30
_PATIENCE = 300.0
_NAME = "sleeper"
_CODE = """
from tieline import Context, Integration

integration = Integration()


@integration.webhook("hello", methods=["GET"])
async def hello(ctx: Context) -> str:
    return "hello"
"""
_EMPTY = """
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()

HTTPServer(("", 8080), Handler).serve_forever()
"""
_FLOOR = "floor"


async def _until(what: str, probe: Callable[[], Awaitable[Any]], *, pause: float = 0.2) -> Any:
    end = time.monotonic() + _PATIENCE
    while not (found := await probe()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        await asyncio.sleep(pause)
    return found


async def _environment(platform: Platform, namespace: str) -> dict[str, Any]:
    found = await platform.kube.get(PROJECTS, _NAME, namespace)
    environments: list[dict[str, Any]] = found.get("status", {}).get("environments") or [{}]
    return environments[0]


async def _made(platform: Platform, namespace: str) -> tuple[str, str]:
    """The URL of a project that sleeps while it has no work, and the image of its pods."""
    project = {
        "metadata": {"name": _NAME, "namespace": namespace},
        "spec": {
            "name": "Sleeper",
            "source": {"files": [{"filename": "main.py", "content": _CODE}]},
            "runtime": {"scaling": {"min": 0, "idleAfter": "10s"}},
            "environments": [{"name": "production", "version": "latest"}],
        },
    }
    await platform.kube.apply(PROJECTS, project, field_manager="bench")

    async def running() -> dict[str, Any] | None:
        found = await _environment(platform, namespace)
        return found if found.get("status") == "running" else None

    found = await _until("the environment runs", running)
    (made,) = await platform.kube.list(DEPLOYMENTS, namespace)
    return found["publicUrl"], made["spec"]["template"]["spec"]["containers"][0]["image"]


async def _asleep(platform: Platform, namespace: str) -> None:
    async def asleep() -> bool:
        found = await _environment(platform, namespace)
        return bool(found.get("sleeping")) and not await platform.kube.list(PODS, namespace)

    await _until("the environment sleeps", asleep)


async def _floor(platform: Platform, image: str) -> tuple[str, str]:
    """The namespace of an empty server without pods, and its URL."""
    namespace = f"bench-floor-{int(time.time())}"
    await platform.kube.create(NAMESPACES, {"metadata": {"name": namespace}})
    platform.made.append(namespace)
    labels = {"app": _FLOOR}
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    container = {"name": _FLOOR, "image": image, "command": ["python", "-c", _EMPTY], "readinessProbe": probe}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {
            "metadata": {"labels": labels},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
        },
    }
    place = {"name": _FLOOR, "namespace": namespace}
    await platform.kube.create(DEPLOYMENTS, {"metadata": place, "spec": spec})
    ports = [{"port": 80, "targetPort": 8080}]
    service = await platform.kube.create(
        SERVICES, {"metadata": place, "spec": {"selector": labels, "ports": ports}}
    )
    return namespace, f"http://{service['spec']['clusterIP']}/"


async def _scaled(platform: Platform, namespace: str, replicas: int) -> None:
    patch = {"spec": {"replicas": replicas}}
    await platform.kube.patch(DEPLOYMENTS, _FLOOR, namespace, patch, field_manager="bench")


async def _answered(url: str) -> None:
    """Asks until there is an answer, each time through a connection of its own."""
    timeout = aiohttp.ClientTimeout(total=0.5)

    async def answers() -> bool:
        try:
            async with aiohttp.ClientSession(timeout=timeout) as client, client.get(url) as answer:
                return answer.status == 200
        except (aiohttp.ClientError, TimeoutError):
            return False

    await _until("the empty pod answers", answers, pause=0.02)


async def _empty_pod(platform: Platform, namespace: str, url: str) -> float:
    began = time.perf_counter()
    await _scaled(platform, namespace, 1)
    await _answered(url)
    elapsed = time.perf_counter() - began
    await _scaled(platform, namespace, 0)

    async def gone() -> bool:
        return not await platform.kube.list(PODS, namespace)

    await _until("the empty pod is gone", gone)
    return elapsed


async def _wake(platform: Platform, url: str) -> float:
    began = time.perf_counter()
    async with platform.http.get(f"{url}/hello") as answer:
        assert answer.status == 200, await answer.text()
        assert await answer.text() == "hello"
    return time.perf_counter() - began


def _row(what: str, seconds: list[float]) -> list[str]:
    return [what, *(f"{percentile(seconds, share):.2f}" for share in (0.5, 0.9, 0.99)), f"{max(seconds):.2f}"]


async def main(rounds: int) -> None:
    """Sleeps and wakes, again and again."""
    async with deployed() as platform:
        _, namespace = await platform.organisation()
        url, image = await _made(platform, namespace)
        floor_namespace, floor_url = await _floor(platform, image)
        woken, empty = [], []
        for _ in range(rounds):
            await _asleep(platform, namespace)
            woken.append(await _wake(platform, url))
            empty.append(await _empty_pod(platform, floor_namespace, floor_url))
    rows = [_row("an empty pod, from 0 to its first answer", empty), _row("a webhook that wakes", woken)]
    headings = ["seconds", "p50", "p90", "p99", "most"]
    print(table(f"Environments that sleep ({rounds} times, load {load_average()})", headings, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    asyncio.run(main(parser.parse_args().rounds))
