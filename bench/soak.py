"""``python -m bench.soak [--minutes 30]``: constant mixed work, and whether memory stays flat.

Operator, API and the process of one pod on this machine, on the API server that KUBECONFIG names. What is made is
removed again, so what there is stays the same; what grows all the same is a leak. So that it stays the same from the
beginning, each project is deployed first as often as versions are kept. With the first work heaps get their holes, and
what is remembered of the latest objects its full size: half an hour's is done three times as fast before memory is
looked at ("before" and "start" show what that took). All work goes on at fixed rates, by kubectl's way, by REST and by
webhooks; a failure of any of it is counted and shown.
"""

import argparse
import asyncio
import itertools
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from bench.activations import CODE, Place, place
from bench.figures import load_average, table
from bench.local_platform import api, operator
from bench.platform import Platform
from bench.prerequisites import cluster
from bench.processes import pod_variables, processor_time, resident, running
from bench.rest import system
from bench.scale import project
from tests.harness.processes.ports import free_port
from tieline_core.kubernetes import Kube, KubeError
from tieline_core.kubernetes.resources import (
    ACTIVATIONS,
    CONNECTIONS,
    END_USERS,
    NAMESPACES,
    PROJECTS,
    SECRETS,
    SYSTEMS,
)

MINUTES = 30.0
USERS = 50
DEPLOYED = 20
KEPT = 20
"""Versions that a project keeps."""
WARM_UP = 10.0
"""Minutes of work at ``HASTE`` times its rate before memory is looked at."""
HASTE = 3.0
_EVERY = 10.0
_TIMEOUT = aiohttp.ClientTimeout(total=60)
_SHOP = "shop"


@dataclass(frozen=True)
class Sample:
    """Memory at one moment."""

    seconds: float
    mebibytes: float


@dataclass
class Work:
    """What goes on: each kind of it at its rate, for as long as the soak lasts."""

    there: Place
    client: aiohttp.ClientSession
    rest: str
    pod: str
    done: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    problems: dict[str, str] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def kinds(self) -> Mapping[str, tuple[float, Callable[[], Awaitable[None]]]]:
        """Work by what it is: how often a second, and how."""
        return {
            "deploy of new files": (0.5, self.deploy),
            "suspend or resume": (0.5, self.suspend),
            "system by REST: create, get, list, change, delete": (0.5, self.system),
            "connection with credentials: create, list, change, delete": (0.2, self.connection),
            "user with activation: create, change, delete": (0.5, self.user),
            "variables of all users": (0.2, self.variables),
            "webhook for a user": (20.0, self.webhook),
        }

    async def forever(self, what: str, rate: float, work: Callable[[], Awaitable[None]]) -> None:
        """Does it at its rate; what comes late is done later, one after the other."""
        due = time.monotonic()
        while True:
            due += 1 / rate
            try:
                await work()
                self.done[what] += 1
            except (KubeError, aiohttp.ClientError, TimeoutError, AssertionError) as error:
                self.failed[what] += 1
                self.problems[what] = f"{type(error).__name__}: {error}"
            await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def deploy(self) -> None:
        number = next(self.numbers)
        spec = project(self.there.namespace, number)["spec"]
        await self._project(number, {"source": spec["source"]})

    async def suspend(self) -> None:
        number = next(self.numbers)
        suspended = number // DEPLOYED % 2 == 0
        environment = {"name": "production", "version": "latest", "suspended": suspended}
        await self._project(number, {"environments": [environment]})

    async def _project(self, number: int, spec: Mapping[str, Any]) -> None:
        name = f"project-{number % DEPLOYED:05d}"
        await self.there.kube.patch(PROJECTS, name, self.there.namespace, {"spec": spec})

    async def system(self) -> None:
        made = await self._rest("POST", "/systems", _system(next(self.numbers)))
        path = f"/systems/{made['id']}"
        await self._rest("GET", path)
        await self._rest("GET", "/systems")
        await self._rest("PUT", path, {"name": "Again"})
        await self._rest("DELETE", path)

    async def connection(self) -> None:
        kube, namespace = self.there.kube, self.there.namespace
        name = f"soak-{next(self.numbers)}"
        metadata = {"name": name, "namespace": namespace}
        value = {"type": "tieline.dev/credential", "stringData": {"value": name}}
        await kube.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **value})
        credential = {"id": "key", "authSchemeConfigId": "key", "type": "string", "secretRef": {"name": name}}
        spec = {"name": name, "systemRef": {"name": _SHOP}, "credentials": [credential]}
        await kube.apply(CONNECTIONS, {"metadata": metadata, "spec": spec}, field_manager="bench")
        await self._rest("GET", "/connections")
        await kube.patch(SECRETS, name, namespace, {"stringData": {"value": f"{name}-again"}})
        await kube.delete(CONNECTIONS, name, namespace)
        await kube.delete(SECRETS, name, namespace)

    async def user(self) -> None:
        number = 1_000_000 + next(self.numbers)
        await self.there.fill(range(number, number + 1))
        await self.there.change(number, "us")
        for resource in (ACTIVATIONS, END_USERS):
            await self.there.kube.delete(resource, f"user-{number}", self.there.namespace)

    async def variables(self) -> None:
        number = next(self.numbers)
        await self.there.change(number % USERS, f"r-{number % 7}")

    async def webhook(self) -> None:
        url = f"{self.pod}/region/users/customer-{next(self.numbers) % USERS}"
        async with self.client.get(url) as response:
            assert response.status == 200, await response.text()
            await response.read()

    async def _rest(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        async with self.client.request(method, self.rest + path, json=body) as response:
            assert response.status < 300, f"{method} {path}: {response.status} {await response.text()}"
            return await response.json(content_type=None) if response.status != 204 else None


def _system(number: int) -> dict[str, Any]:
    return {
        "name": f"Soak {number}",
        "domain": f"s{number}.example",
        "templateBaseUrl": f"https://s{number}.example",
        "authSchemeConfigs": [{"type": "api-key", "apiKey": {"id": "key", "name": "X-Key", "in": "header"}}],
    }


def slope(samples: Sequence[Sample]) -> float:
    """MiB an hour by least squares."""
    count = len(samples)
    seconds = sum(sample.seconds for sample in samples) / count
    mebibytes = sum(sample.mebibytes for sample in samples) / count
    spread = sum((sample.seconds - seconds) ** 2 for sample in samples)
    if not spread:
        return 0.0
    risen = sum((one.seconds - seconds) * (one.mebibytes - mebibytes) for one in samples)
    return 3600 * risen / spread


def judged(name: str, cold: float, samples: Sequence[Sample], processor: float) -> list[str]:
    """A row: the memory of a process before all work and while it goes on, its slope in each half."""
    half = len(samples) // 2
    minutes = samples[-1].seconds / 60
    marks = [samples[round(share * (len(samples) - 1))].mebibytes for share in (0, 0.25, 0.5, 0.75, 1)]
    return [
        name,
        f"{cold:.1f}",
        *(f"{mark:.1f}" for mark in marks),
        f"{max(sample.mebibytes for sample in samples):.1f}",
        f"{slope(samples[:half]):+.1f}",
        f"{slope(samples[half:]):+.1f}",
        f"{processor / minutes / 60:.1%}",
    ]


async def soak(kube: Kube, folder: Path, minutes: float) -> str:
    """Does the work, and gives the tables."""
    there = await place(kube)
    (folder / "main.py").write_text(CODE)
    (folder / "token").write_text(there.token)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(kube.delete, NAMESPACES, there.namespace)
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=_TIMEOUT))
        token = await Platform(kube=kube, http=http, url="").administrator(there.namespace)
        worker = await stack.enter_async_context(operator(there.namespace))
        served = await stack.enter_async_context(api(folder, there.namespace))
        port, health = free_port(), free_port()
        variables = pod_variables(folder, api=served.url, port=port, health=health)
        pod, _ = await stack.enter_async_context(
            running("tieline.server", ready=f"http://127.0.0.1:{health}/readyz", env=variables)
        )
        headers = {"Authorization": f"Bearer {token}"}
        client = await stack.enter_async_context(aiohttp.ClientSession(timeout=_TIMEOUT, headers=headers))
        organisation = (await kube.get(NAMESPACES, there.namespace))["metadata"]["labels"]
        rest = f"{served.url}/api/v2/o/{organisation['tieline.dev/organisation']}"
        work = Work(there, client, rest, f"http://127.0.0.1:{port}")
        shop = system(there.namespace, 0)
        shop["metadata"]["name"] = _SHOP
        await kube.apply(SYSTEMS, shop, field_manager="bench")
        await there.fill(range(USERS))
        for number in range(DEPLOYED):
            await kube.apply(PROJECTS, project(there.namespace, number), field_manager="bench")
        for _ in range(KEPT + 1):
            for _ in range(DEPLOYED):
                await work.deploy()
            await worker.quiet(1)
        processes = {"operator": worker.process.pid, "API": served.process.pid, "a pod": pod.pid}
        cold = {name: resident(pid) for name, pid in processes.items()}
        await _sampled(work, processes, WARM_UP, HASTE)
        before = {name: processor_time(pid) for name, pid in processes.items()}
        samples = await _sampled(work, processes, minutes)
        rows = [
            judged(name, cold[name], samples[name], processor_time(pid) - before[name])
            for name, pid in processes.items()
        ]
    return _tables(work, rows, minutes)


async def _sampled(
    work: Work, processes: Mapping[str, int], minutes: float, haste: float = 1.0
) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in processes}
    began = time.monotonic()
    async with asyncio.TaskGroup() as group:
        tasks = [
            group.create_task(work.forever(what, rate * haste, act))
            for what, (rate, act) in work.kinds().items()
        ]
        while (elapsed := time.monotonic() - began) < minutes * 60:
            for name, pid in processes.items():
                samples[name].append(Sample(elapsed, resident(pid)))
            await asyncio.sleep(_EVERY)
        for task in tasks:
            task.cancel()
    return samples


def _tables(work: Work, rows: Sequence[Sequence[str]], minutes: float) -> str:
    marks = ["start", "25 %", "50 %", "75 %", "end"]
    headings = ["MiB of", "before", *marks, "most", "MiB an hour, 1st half", "2nd half", "processor"]
    did = [[what, str(work.done[what]), str(work.failed[what])] for what in work.kinds()]
    told = "\n".join(f"{what}: {problem}" for what, problem in work.problems.items())
    title = f"Memory over {minutes:g} minutes of mixed work, load average {load_average()} at its end"
    return f"{table(title, headings, rows)}\n{table('Work', ['what', 'done', 'failed'], did)}\n{told}"


async def main(minutes: float) -> None:
    """Runs and prints."""
    async with cluster() as kube:
        with tempfile.TemporaryDirectory() as name:
            print(await soak(kube, Path(name), minutes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    asyncio.run(main(parser.parse_args().minutes))
