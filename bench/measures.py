"""The measurements, each a table."""

import asyncio
import time
from typing import Any

from bench.figures import percentile, table
from bench.platform import Platform, memory_of
from bench.rest import system
from tieline_core.kubernetes import Informer
from tieline_core.kubernetes.resources import DEPLOYMENTS, PODS, PROJECTS, SYSTEMS

SYSTEM_COUNT = 1000
_PATIENCE = 180

CODE = """
from tieline import Integration
integration = Integration()

@integration.webhook("hello", methods=["GET"])
async def hello(ctx, request):
    return {"hello": "world"}
"""


def is_ready(obj: dict[str, Any]) -> bool:
    conditions = obj.get("status", {}).get("conditions", ())
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


async def systems_to_ready(platform: Platform, namespace: str) -> str:
    """1,000 Systems, 20 a second (the rate planned for), then as fast as the API server takes them."""
    rows = []
    for title, first, rate in (("20 a second", 0, 20.0), ("at once", SYSTEM_COUNT, None)):
        count = 200 if rate else SYSTEM_COUNT
        rows.append([title, str(count), *await _to_ready(platform, namespace, first, count, rate)])
    return table(
        "From `kubectl apply` of a System to Ready",
        ["applied", "Systems", "p50 ms", "p99 ms", "all Ready after s", "operator's writes an object"],
        rows,
    )


async def _to_ready(
    platform: Platform, namespace: str, first: int, count: int, rate: float | None
) -> list[str]:
    applied: dict[str, float] = {}
    ready: dict[str, float] = {}
    done = asyncio.Event()
    cache = Informer(platform.kube, SYSTEMS, namespace=namespace)

    def note(change: Any) -> None:
        name = change.object["metadata"]["name"]
        if name in applied and name not in ready and is_ready(change.object):
            ready[name] = time.perf_counter()
            if len(ready) == count:
                done.set()

    cache.subscribe(note)
    await cache.start()
    await cache.synced()
    before = await platform.operator_writes()
    began = time.perf_counter()
    slots = asyncio.Semaphore(10)

    async def apply(number: int) -> None:
        async with slots:
            obj = system(namespace, number)
            applied[obj["metadata"]["name"]] = time.perf_counter()
            await platform.kube.apply(SYSTEMS, obj, field_manager="bench")

    tasks = []
    for number in range(first, first + count):
        tasks.append(asyncio.create_task(apply(number)))
        if rate:
            await asyncio.sleep(max(0.0, began + (number - first + 1) / rate - time.perf_counter()))
    await asyncio.gather(*tasks)
    await asyncio.wait_for(done.wait(), _PATIENCE)
    elapsed = time.perf_counter() - began
    await cache.stop()
    latencies = [ready[name] - applied[name] for name in applied]
    writes = (await platform.operator_writes() - before) / count
    return [
        f"{percentile(latencies, 0.5) * 1000:.0f}",
        f"{percentile(latencies, 0.99) * 1000:.0f}",
        f"{elapsed:.1f}",
        f"{writes:.2f}",
    ]


async def restart(platform: Platform) -> str:
    """A new operator pod in front of what is there already."""
    pods = await platform.kube.list(
        PODS, "tieline-system", label_selector="app.kubernetes.io/name=tieline-operator"
    )
    objects = len(await platform.kube.list(SYSTEMS))
    for pod in pods:
        await platform.kube.delete(PODS, pod["metadata"]["name"], "tieline-system")
    began = time.perf_counter()
    gone = {pod["metadata"]["uid"] for pod in pods}
    while not await _settled(platform, gone, objects):
        if time.perf_counter() - began > _PATIENCE:
            raise TimeoutError("The new operator did not look at all objects in time")
        await asyncio.sleep(1)
    elapsed = time.perf_counter() - began
    await asyncio.sleep(5)
    writes = await platform.operator_writes()
    return table(
        "A restart of the operator",
        ["Systems there", "all looked at again after s (pod start included)", "writes"],
        [[str(objects), f"{elapsed:.1f}", str(writes)]],
    )


async def _settled(platform: Platform, gone: set[str], objects: int) -> bool:
    pods = await platform.kube.list(
        PODS, "tieline-system", label_selector="app.kubernetes.io/name=tieline-operator"
    )
    if any(pod["metadata"]["uid"] in gone for pod in pods) or not pods:
        return False
    if not pods[0].get("status", {}).get("podIP"):
        return False
    try:
        page = await platform.operator_metrics()
    except OSError:
        return False
    total = 0.0
    for line in page.splitlines():
        if line.startswith("tieline_operator_reconciles_total{") and 'kind="System"' in line:
            total += float(line.rsplit(" ", 1)[1])
    return total >= objects


async def deploy_to_running(platform: Platform, namespace: str) -> str:
    """From applying a Project to a pod that serves, five times, one after the other."""
    durations = []
    for number in range(5):
        name = f"deploy-{number}"
        began = time.perf_counter()
        await platform.kube.apply(
            PROJECTS,
            {
                "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "name": name,
                    "source": {"files": [{"filename": "main.py", "content": CODE}]},
                    "environments": [{"name": "production", "version": "latest"}],
                },
            },
            field_manager="bench",
        )
        while True:
            found = await platform.kube.get(PROJECTS, name, namespace)
            environments = found.get("status", {}).get("environments") or [{}]
            if environments[0].get("status") == "running":
                break
            if time.perf_counter() - began > _PATIENCE:
                raise TimeoutError(f"{name} is not running: {environments[0]}")
            await asyncio.sleep(0.05)
        durations.append(time.perf_counter() - began)
    assert len(await platform.kube.list(DEPLOYMENTS, namespace)) == len(durations)
    return table(
        "From applying a Project to `running`",
        ["deploys", "fastest s", "median s", "slowest s"],
        [
            [
                str(len(durations)),
                f"{min(durations):.1f}",
                f"{percentile(durations, 0.5):.1f}",
                f"{max(durations):.1f}",
            ]
        ],
    )


async def memory(platform: Platform) -> str:
    """Resident memory after all of the above."""
    return table(
        "Memory, after all of the above",
        ["process", "resident"],
        [
            ["operator", await memory_of(platform, "tieline-operator")],
            ["API", await memory_of(platform, "tieline-api")],
        ],
    )
