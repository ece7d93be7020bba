"""``python -m bench.scale [--projects 2000]``: an organisation with many projects that run no pods (replicas 0).

Operator and API as processes on this machine, on the API server that KUBECONFIG names. For each number of projects:
what it takes to make them, what a start of the operator takes in front of them (and that it writes nothing), and the
memory of both. At the end, with all of them there: how long a change of a project takes to reach its Deployment.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.figures import load_average, percentile, table
from bench.local import api, operator, stored_bytes
from bench.platform import Platform
from tieline_core.kube import Cache, Change, Kube
from tieline_core.kube.resources import DEPLOYMENTS, PROJECTS
from tieline_core.names import PROJECT_LABEL

PROJECTS_THERE = (500, 2000)
RATE = 20.0
SECONDS = 30
_AT_ONCE = 16
_PATIENCE = 3600.0
_QUIET = 5.0
_CODE = """
from tieline import Context, Integration, Request

integration = Integration()


@integration.webhook("orders", methods=["POST"])
async def orders(ctx: Context, request: Request) -> dict[str, int]:
    return {"taken": len(await request.json()), "project": NUMBER}
"""


def project(namespace: str, number: int) -> dict[str, Any]:
    """A project whose one environment is deployed, with no pods."""
    return {
        "metadata": {"name": f"project-{number:05d}", "namespace": namespace},
        "spec": {
            "name": f"Project {number}",
            "source": {"files": [{"filename": "main.py", "content": _CODE.replace("NUMBER", str(number))}]},
            "runtime": {"replicas": 0, "resources": {"limits": {"memory": "128Mi"}}},
            "environments": [{"name": "production", "version": "latest"}],
        },
    }


@dataclass(frozen=True)
class Organisation:
    """Where the projects are."""

    platform: Platform
    identifier: str
    namespace: str
    token: str

    async def fill(self, numbers: range) -> None:
        """Makes projects and waits until the operator has brought each to its end."""
        slots = asyncio.Semaphore(_AT_ONCE)
        cache = Cache(self.platform.kube, PROJECTS, namespace=self.namespace)
        await cache.start()
        await cache.synced()

        async def create(number: int) -> None:
            async with slots:
                await self.platform.kube.apply(
                    PROJECTS, project(self.namespace, number), field_manager="bench"
                )

        await asyncio.gather(*(create(number) for number in numbers))
        deployed = asyncio.Event()

        def look(_: Change | None = None) -> None:
            if sum(map(_deployed, cache.list())) >= numbers.stop:
                deployed.set()

        cache.subscribe(look)
        look()
        await asyncio.wait_for(deployed.wait(), _PATIENCE)
        await cache.stop()


def _deployed(obj: dict[str, Any]) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in obj.get("status", {}).get("conditions", ())
    )


async def made(there: Organisation, numbers: range) -> list[str]:
    """A row: from nothing to all deployed."""
    before = await stored_bytes()
    async with operator(there.namespace) as running:
        spent, began = running.processor_time(), time.perf_counter()
        await there.fill(numbers)
        elapsed = time.perf_counter() - began
        await running.quiet(_QUIET)
        writes = await running.writes()
        spent = running.processor_time() - spent
    return [
        f"{numbers.start:,} → {numbers.stop:,}",
        f"{elapsed:.0f}",
        f"{len(numbers) / elapsed:.1f}",
        f"{writes / len(numbers):.2f}",
        f"{spent / len(numbers) * 1000:.1f}",
        f"{(await stored_bytes() - before) / len(numbers) / 1024:.1f}",
        load_average(),
    ]


async def cold(there: Organisation, count: int, folder: Path) -> list[str]:
    """A row: operator and API started anew in front of what is there."""
    began = time.perf_counter()
    async with operator(there.namespace) as running:
        await running.quiet(_QUIET)
        looked = await running.metric("tieline_operator_reconciles_total", kind="Project")
        assert looked >= count, f"The operator looked at {looked:g} projects, and there are {count}"
        elapsed = time.perf_counter() - began - _QUIET
        spent, memory = running.processor_time(), running.resident()
        writes = await running.writes()
        async with api(folder, there.namespace) as served:
            start, idle = served.started, served.resident()
            await _read_all(there, served.url, count)
            read = served.resident()
            listed = served.processor_time()
    return [
        f"{count:,}",
        f"{elapsed:.1f}",
        f"{spent:.1f}",
        f"{writes}",
        f"{memory:.0f}",
        f"{start:.1f}",
        f"{listed:.1f}",
        f"{idle:.0f} → {read:.0f}",
        f"{await stored_bytes() / 1024 / 1024:.0f}",
        load_average(),
    ]


async def _read_all(there: Organisation, url: str, count: int) -> None:
    """Each project by REST, and twenty times the list of them all: what the API's memory is worth knowing after."""
    headers = {"Authorization": f"Bearer {there.token}"}
    base = f"{url}/api/v2/o/{there.identifier}/projects"
    async with aiohttp.ClientSession(headers=headers, timeout=aiohttp.ClientTimeout(total=60)) as client:
        found: list[dict[str, Any]] = []
        for _ in range(20):
            async with client.get(base) as response:
                assert response.status == 200, await response.text()
                found = (await response.json())["projects"]
        assert len(found) == count, f"REST shows {len(found)} projects, and there are {count}"
        for one in found:
            async with client.get(f"{base}/{one['id']}") as response:
                assert response.status == 200, await response.text()


async def changed(there: Organisation, count: int, folder: Path, *, rate: float, seconds: int) -> list[str]:
    """A row: a constant stream of changes; from sending each until its Deployment is seen to have it."""
    sent: dict[str, tuple[str, float]] = {}
    latencies: list[float] = []
    total = int(rate * seconds)
    arrived = asyncio.Event()

    def note(change: Change) -> None:
        if change.new is None:
            return
        wanted = sent.get(change.new["metadata"]["labels"][PROJECT_LABEL])
        limits = change.new["spec"]["template"]["spec"]["containers"][0]["resources"].get("limits", {})
        if wanted and limits.get("memory") == wanted[0]:
            del sent[change.new["metadata"]["labels"][PROJECT_LABEL]]
            latencies.append(time.perf_counter() - wanted[1])
            if len(latencies) == total:
                arrived.set()

    async with operator(there.namespace) as running, api(folder, there.namespace) as served:
        await running.quiet(_QUIET)
        cache = Cache(there.platform.kube, DEPLOYMENTS, namespace=there.namespace)
        await cache.start()
        await cache.synced()
        cache.subscribe(note)
        spent, writes = running.processor_time(), await running.writes()
        began = time.perf_counter()
        tasks = []
        for number in range(total):
            name, amount = f"project-{number % count:05d}", f"{129 + number // count}Mi"
            patch = {"spec": {"runtime": {"resources": {"limits": {"memory": amount}}}}}
            sent[name] = (amount, time.perf_counter())
            tasks.append(
                asyncio.create_task(
                    there.platform.kube.patch(PROJECTS, name, there.namespace, patch, field_manager="bench")
                )
            )
            await asyncio.sleep(max(0.0, began + (number + 1) / rate - time.perf_counter()))
        await asyncio.gather(*tasks)
        await asyncio.wait_for(arrived.wait(), _PATIENCE)
        await cache.stop()
        await running.quiet(_QUIET)
        writes, spent = await running.writes() - writes, running.processor_time() - spent
        memory, api_memory = running.resident(), served.resident()
    return [
        f"{count:,}",
        f"{total} at {rate:g} a second",
        f"{percentile(latencies, 0.5) * 1000:.0f}",
        f"{percentile(latencies, 0.99) * 1000:.0f}",
        f"{max(latencies) * 1000:.0f}",
        f"{writes / total:.2f}",
        f"{spent / total * 1000:.1f}",
        f"{memory:.0f}, {api_memory:.0f}",
        load_average(),
    ]


async def main(steps: Sequence[int], rate: float, seconds: int) -> None:
    """Few, then many; then the changes."""
    async with (
        await Kube.connect() as kube,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as http,
    ):
        platform = Platform(kube=kube, http=http, url="")
        identifier, namespace = await platform.organisation()
        there = Organisation(platform, identifier, namespace, await platform.administrator(namespace))
        growth, starts = [], []
        try:
            with tempfile.TemporaryDirectory() as name:
                for before, count in zip((0, *steps), steps, strict=False):
                    growth.append(await made(there, range(before, count)))
                    print("so far:", *growth[-1], sep=" | ", file=sys.stderr)
                    starts.append(await cold(there, count, Path(name)))
                    print("so far:", *starts[-1], sep=" | ", file=sys.stderr)
                changes = await changed(there, steps[-1], Path(name), rate=rate, seconds=seconds)
        finally:
            await platform.clean()
    print(table("Projects made at once until all are deployed", GROWTH, growth))
    print(table("Operator and API started in front of projects", STARTS, starts))
    print(table("From a change of a project to its Deployment", CHANGES, [changes]))


GROWTH = (
    "projects",
    "all deployed after s",
    "a second",
    "operator's writes each",
    "operator's processor ms each",
    "etcd KiB each",
    "load average",
)
STARTS = (
    "projects",
    "operator: all looked at after s",
    "its processor s",
    "its writes",
    "its MiB",
    "API: ready after s",
    "its processor s, with reads",
    "its MiB, idle → after reads",
    "etcd MiB",
    "load average",
)
CHANGES = (
    "projects",
    "changes",
    "p50 ms",
    "p99 ms",
    "longest ms",
    "operator's writes each",
    "operator's processor ms each",
    "MiB of operator, API",
    "load average",
)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=int, nargs="+", default=PROJECTS_THERE)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    chosen = parser.parse_args()
    asyncio.run(main(chosen.projects, chosen.rate, chosen.seconds))
