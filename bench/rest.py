"""``python -m bench.rest``: reads and writes through the API, beside the same at the API server.

One organisation of 5,000 Systems, with 1 and with 64 clients in flight. Starts an API of its own in front of
the cluster that KUBECONFIG names; ``make bench`` measures the deployed one.
"""

import asyncio
import contextlib
import itertools
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.figures import load, table
from bench.platform import Platform
from bench.prerequisites import cluster
from bench.processes import running
from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_port
from tieline_core.kubernetes.kubeconfig import connection
from tieline_core.kubernetes.resources import SYSTEMS

COUNT = 5000
IN_FLIGHT = (1, 64)
_READS = {1: 300, 64: 3000}
_WRITES = {1: 150, 64: 1000}
_PATIENCE = 120.0
_SHARED = asyncio.Semaphore(16)

Ask = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, kw_only=True)
class Doors:
    """The two ways in: our API and Kubernetes' own. Each is called with method, path and more."""

    rest: Ask
    server: Ask


def system(namespace: str, number: int) -> dict[str, Any]:
    """A System as kubectl applies it."""
    return {
        "apiVersion": SYSTEMS.api_version,
        "kind": SYSTEMS.kind,
        "metadata": {"name": f"system-{number:05d}", "namespace": namespace},
        "spec": {
            "name": f"System {number}",
            "domain": f"s{number}.example",
            "templateBaseUrl": f"https://s{number}.example/api",
            "authSchemeConfigs": [
                {"id": "key", "type": "api-key", "apiKey": {"name": "X-Key", "in": "header"}}
            ],
        },
    }


async def fill(platform: Platform, namespace: str, *, count: int = COUNT) -> None:
    """Makes Systems until the organisation has ``count``."""
    there = {obj["metadata"]["name"] for obj in await platform.kube.list(SYSTEMS, namespace)}

    async def apply(number: int) -> None:
        async with _SHARED:
            await platform.kube.apply(SYSTEMS, system(namespace, number), field_manager="bench")

    missing = [number for number in range(count) if f"system-{number:05d}" not in there]
    await asyncio.gather(*(apply(number) for number in missing))


async def measure(platform: Platform, organisation: str, namespace: str) -> str:
    """Two tables: reads and writes."""
    await fill(platform, namespace)
    async with _doors(platform, organisation, namespace) as doors:
        await _until_known(doors.rest)
        return f"{await _reads(doors, namespace)}\n{await _writes(doors, namespace)}"


@asynccontextmanager
async def _doors(platform: Platform, organisation: str, namespace: str) -> AsyncIterator[Doors]:
    direct = await connection()
    base = f"{platform.url}/api/v2/o/{organisation}"
    headers = {"Authorization": f"Bearer {await platform.administrator(namespace)}"}
    direct_headers = {"Authorization": await direct.authorization() or "", "Accept": "application/json"}
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=60)) as http:

        async def rest(method: str, path: str, *, parse: bool = False, **more: Any) -> Any:
            async with http.request(method, base + path, headers=headers, **more) as response:
                return await _answer(response, parse=parse)

        async def server(method: str, path: str, *, parse: bool = False, **more: Any) -> Any:
            sent = {**direct_headers, **more.pop("headers", {})}
            async with http.request(
                method, direct.url + path, headers=sent, ssl=direct.tls, **more
            ) as response:
                return await _answer(response, parse=parse)

        yield Doors(rest=rest, server=server)


async def _answer(response: aiohttp.ClientResponse, *, parse: bool) -> Any:
    body = await response.read()
    if response.status >= 300:
        raise AssertionError(f"{response.method} {response.url.path}: {response.status} {body[:500]!r}")
    return await response.json(content_type=None) if parse else None


async def _until_known(rest: Ask) -> None:
    """Until the API has seen the organisation, its Systems and the caller's role."""
    async with asyncio.timeout(_PATIENCE):
        while True:
            with contextlib.suppress(AssertionError, aiohttp.ClientError):
                if (await rest("GET", "/systems?first=1", parse=True))["totalCount"] >= COUNT:
                    return
            await asyncio.sleep(0.5)


async def _reads(doors: Doors, namespace: str) -> str:
    many = SYSTEMS.path(namespace=namespace)
    middle = await doors.rest("GET", "/systems?first=200", parse=True)
    for _ in range(11):
        middle = await doors.rest("GET", f"/systems?first=200&after={middle['next']}", parse=True)
    one = middle["items"][0]["id"]
    page = (await doors.server("GET", f"{many}?limit={COUNT // 2}", parse=True))["metadata"]["continue"]
    calls: dict[str, Callable[[], Awaitable[Any]]] = {
        "get, API": lambda: doors.rest("GET", f"/systems/{one}"),
        "get, API server": lambda: doors.server("GET", f"{many}/system-00042"),
        "first 20, API": lambda: doors.rest("GET", "/systems"),
        "first 20, API server": lambda: doors.server("GET", f"{many}?limit=20"),
        "20 from the middle, API": lambda: doors.rest("GET", f"/systems?after={middle['next']}"),
        "20 from the middle, API server": lambda: doors.server("GET", many, params=_from(page)),
        "20 of 1,110 that a search finds, API": lambda: doors.rest("GET", "/systems?search=SYSTEM+4"),
    }
    return await _measured(f"Reads, of {COUNT:,} Systems", calls, _READS)


def _from(page: str) -> dict[str, str]:
    return {"limit": "20", "continue": page}


async def _writes(doors: Doors, namespace: str) -> str:
    many = SYSTEMS.path(namespace=namespace)
    numbers = itertools.count()
    made: list[str] = []
    apply = {"headers": {"Content-Type": "application/apply-patch+yaml"}}
    spec = {"name": "Written", "domain": "w.example", "templateBaseUrl": "https://w.example"}

    async def create() -> None:
        body = {**spec, "authSchemeConfigs": []}
        made.append((await doors.rest("POST", "/systems", json=body, parse=True))["id"])

    async def create_directly() -> None:
        obj = system(namespace, 0)
        obj["metadata"]["name"] = f"direct-{next(numbers)}"
        path = f"{many}/{obj['metadata']['name']}?fieldManager=bench"
        await doors.server("PATCH", path, json=obj, **apply)

    async def update() -> None:
        number = next(numbers)
        await doors.rest("PUT", f"/systems/{made[number % len(made)]}", json={"name": f"Again {number}"})

    async def update_directly() -> None:
        number = next(numbers)
        obj = system(namespace, number % COUNT)
        obj["spec"]["name"] = f"Again {number}"
        path = f"{many}/{obj['metadata']['name']}?fieldManager=bench"
        await doors.server("PATCH", path, json=obj, **apply)

    calls = {
        "create, API": create,
        "create, API server (apply)": create_directly,
        "update, API": update,
        "update, API server (apply)": update_directly,
    }
    return await _measured(f"Writes, into {COUNT:,} Systems", calls, _WRITES)


async def _measured(
    title: str, calls: Mapping[str, Callable[[], Awaitable[Any]]], counts: dict[int, int]
) -> str:
    rows = []
    for what, call in calls.items():
        for in_flight in IN_FLIGHT:
            found = await load(call, requests=counts[in_flight], in_flight=in_flight)
            rows.append([what, str(in_flight), *found.cells()])
    return table(title, ["what", "in flight", "a second", "p50 ms", "p99 ms"], rows)


@asynccontextmanager
async def _own_api() -> AsyncIterator[str]:
    """An API process on this machine; gives its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **engine_away.VARIABLES,
            "TIELINE_LISTEN_HOST": "127.0.0.1",
            "TIELINE_LISTEN_PORT": str(port),
            "TIELINE_INTERNAL_PORT": str(free_port()),
            "TIELINE_METRICS_PORT": str(free_port()),
            "TIELINE_RATE_LIMIT": "0",
            "TIELINE_TRACES_FILE": str(Path(folder) / "traces.db"),
        }
        async with running("tieline_api.main", ready=f"{url}/readyz", env=environment):
            yield url


async def main() -> None:
    """Measures an API of its own and prints."""
    async with (
        cluster() as kube,
        aiohttp.ClientSession() as http,
        _own_api() as url,
    ):
        platform = Platform(kube=kube, http=http, url=url)
        try:
            organisation, namespace = await platform.organisation()
            print(await measure(platform, organisation, namespace))
        finally:
            await platform.clean()


if __name__ == "__main__":
    asyncio.run(main())
