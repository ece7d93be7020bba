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
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from bench.figures import load_average, percentile, table
from bench.local_platform import api, operator, stored_bytes
from bench.platform import Platform
from bench.prerequisites import cluster
from tieline_core.identity.names import PROJECT_LABEL
from tieline_core.kubernetes import Change, Informer
from tieline_core.kubernetes.resources import DEPLOYMENTS, PROJECTS

PROJECTS_THERE = (500, 2000)
RATE = 20.0
SECONDS = 30
_AT_ONCE = 16
_PATIENCE = 3600.0
_QUIET = 5.0
_STEADY = 60.0
"""After so many seconds of nothing new, memory is what it stays."""
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
        cache = Informer(self.platform.kube, PROJECTS, namespace=self.namespace)
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
        spent, most = running.processor_time(), running.resident()
        writes = await running.writes()
        async with api(folder, there.namespace) as served:
            start, idle = served.started, served.resident()
            await _read_all(there, served.url, count)
            listed = served.processor_time()
            await asyncio.sleep(_STEADY)
            read, memory = served.resident(), running.resident()
    return [
        f"{count:,}",
        f"{elapsed:.1f}",
        f"{spent:.1f}",
        f"{writes}",
        f"{most:.0f} → {memory:.0f}",
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


@dataclass(frozen=True)
class Stream:
    """A constant stream of changes to projects: their memory limit, which reaches their Deployments."""

    there: Organisation
    projects: int
    rate: float
    """A second."""
    seconds: int

    @property
    def total(self) -> int:
        """How many changes there are."""
        return int(self.rate * self.seconds)

    async def run(self, first: int) -> list[float]:
        """Seconds from sending each until its Deployment is seen to have it; limits begin with ``first`` MiB."""
        kube, namespace = self.there.platform.kube, self.there.namespace
        sent: dict[str, tuple[str, float]] = {}
        latencies: list[float] = []
        arrived = asyncio.Event()

        def note(change: Change) -> None:
            if change.new is None:
                return
            name = change.new["metadata"]["labels"][PROJECT_LABEL]
            wanted = sent.get(name)
            if wanted and _limit(change.new) == wanted[0]:
                del sent[name]
                latencies.append(time.perf_counter() - wanted[1])
                if len(latencies) == self.total:
                    arrived.set()

        cache = Informer(kube, DEPLOYMENTS, namespace=namespace)
        await cache.start()
        await cache.synced()
        cache.subscribe(note)
        began = time.perf_counter()
        async with asyncio.TaskGroup() as sending:
            for number in range(self.total):
                name = f"project-{number % self.projects:05d}"
                amount = f"{first + number // self.projects}Mi"
                patch = {"spec": {"runtime": {"resources": {"limits": {"memory": amount}}}}}
                sent[name] = (amount, time.perf_counter())
                sending.create_task(kube.patch(PROJECTS, name, namespace, patch, field_manager="bench"))
                await asyncio.sleep(max(0.0, began + (number + 1) / self.rate - time.perf_counter()))
        await asyncio.wait_for(arrived.wait(), _PATIENCE)
        await cache.stop()
        return latencies


def _limit(deployment: dict[str, Any]) -> str:
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    return str(container["resources"].get("limits", {}).get("memory"))


@asynccontextmanager
async def _nothing_but_writes(there: Organisation) -> AsyncIterator[None]:
    """Carries changes over by writing a Deployment and a project's status for each, without looking at anything."""
    kube, namespace = there.platform.kube, there.namespace
    found = await kube.list(DEPLOYMENTS, namespace)
    names = {one["metadata"]["labels"][PROJECT_LABEL]: one["metadata"]["name"] for one in found}
    limits = {one["metadata"]["labels"][PROJECT_LABEL]: _limit(one) for one in found}
    projects = Informer(kube, PROJECTS, namespace=namespace)

    async def write(name: str, limit: str, generation: int) -> None:
        path = "/spec/template/spec/containers/0/resources/limits/memory"
        patch = [{"op": "replace", "path": path, "value": limit}]
        await kube.patch(DEPLOYMENTS, names[name], namespace, patch, kind="json")
        status = {"status": {"observedGeneration": generation}}
        await kube.patch(PROJECTS, name, namespace, status, subresource="status")

    async with asyncio.TaskGroup() as writing:

        def see(change: Change) -> None:
            if change.new is None:
                return
            name, spec = change.new["metadata"]["name"], change.new["spec"]
            limit = spec["runtime"]["resources"]["limits"]["memory"]
            if limits[name] != limit:
                limits[name] = limit
                writing.create_task(write(name, limit, change.new["metadata"]["generation"]))

        await projects.start()
        await projects.synced()
        projects.subscribe(see)
        yield
        await projects.stop()


async def changed(
    there: Organisation, count: int, folder: Path, *, rate: float, seconds: int
) -> list[list[str]]:
    """Rows: what the bare writes take that a change is carried over with, and what the operator takes."""
    stream = Stream(there, count, rate, seconds)
    async with api(folder, there.namespace):
        async with _nothing_but_writes(there):
            floor = await stream.run(2000)
        async with operator(there.namespace) as running:
            # It puts the status right that the bare writes have left.
            await running.quiet(_QUIET)
    async with operator(there.namespace) as running, api(folder, there.namespace) as served:
        await running.quiet(_QUIET)
        spent, writes = running.processor_time(), await running.writes()
        latencies = await stream.run(1000)
        await running.quiet(_QUIET)
        writes, spent = await running.writes() - writes, running.processor_time() - spent
        memory, api_memory = running.resident(), served.resident()
    what = f"{stream.total} at {rate:g} a second"
    more = [f"{writes / stream.total:.2f}", f"{spent / stream.total * 1000:.1f}"]
    return [
        [f"{count:,}", what, "bare writes", *_milliseconds(floor), "2.00", "", "", load_average()],
        [
            f"{count:,}",
            what,
            "the operator",
            *_milliseconds(latencies),
            *more,
            f"{memory:.0f}, {api_memory:.0f}",
            load_average(),
        ],
    ]


def _milliseconds(latencies: list[float]) -> list[str]:
    found = (percentile(latencies, 0.5), percentile(latencies, 0.99), max(latencies))
    return [f"{seconds * 1000:.0f}" for seconds in found]


async def main(steps: Sequence[int], rate: float, seconds: int) -> None:
    """Few, then many; then the changes."""
    async with (
        cluster() as kube,
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
    print(table("From a change of a project to its Deployment", CHANGES, changes))


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
    "its MiB, then → steady",
    "API: ready after s",
    "its processor s, with reads",
    "its MiB, then → steady, after reads",
    "etcd MiB",
    "load average",
)
CHANGES = (
    "projects",
    "changes",
    "carried out by",
    "p50 ms",
    "p99 ms",
    "longest ms",
    "writes each",
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
