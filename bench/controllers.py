"""``python -m bench.controllers``: the operator beside a controller of Systems written with controller-runtime.

Both run as processes of this machine against the cluster that KUBECONFIG names, in turn, each in a namespace of
its own, with the same work: Systems are applied at once and then changed at once. Writes are counted by whoever
watches: changes of an object beyond those that the benchmark made itself.
"""

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.figures import load_average, percentile, table
from bench.local_platform import operator
from bench.prerequisites import cluster
from bench.processes import processor_time, resident
from bench.rest import system
from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.progress import Lines
from tieline_core.identity.ids import ORGANISATION_LABEL, new_id
from tieline_core.kubernetes import Informer, Kube
from tieline_core.kubernetes.resources import NAMESPACES, SYSTEMS

_MODULE = Path(__file__).parent / "controller_runtime"
_PATIENCE = 300
_WORKERS = "10"
_IN_FLIGHT = 20


@dataclass
class Seen:
    """What a watcher has seen of one round."""

    wanted: int
    done: asyncio.Event
    at: dict[str, float]
    changes: Counter[str]


@asynccontextmanager
async def _operator(_: Path, namespace: str) -> AsyncIterator[int]:
    """The operator, from when it has listed and works: its process id."""
    async with operator(namespace, TIELINE_WORKERS=_WORKERS) as running:
        yield running.process.pid


@asynccontextmanager
async def _go(program: Path, namespace: str) -> AsyncIterator[int]:
    """The other one, which has listed after a moment: its process id."""
    process = await asyncio.create_subprocess_exec(
        str(program),
        *("--namespace", namespace, "--workers", _WORKERS),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await asyncio.sleep(3)
        if process.returncode is not None:
            raise RuntimeError(f"{program} ended at once, with {process.returncode}")
        yield process.pid
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


async def measured(kube: Kube, start: Any, program: Path, title: str, count: int) -> list[list[str]]:
    """The rows of one controller."""
    namespace = f"bench-{new_id().lower()}"
    labels = {ORGANISATION_LABEL: new_id()}
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    await kube.create(NAMESPACES, manifest)
    rows = []
    try:
        async with start(program, namespace) as pid:
            idle = resident(pid)
            for what, generation in (("created", 1), ("changed", 2)):
                before = processor_time(pid)
                latencies, elapsed, writes = await _round(kube, namespace, count, generation)
                processor = (processor_time(pid) - before) / count
                rows.append(
                    [
                        title,
                        what,
                        f"{count / elapsed:.0f}",
                        f"{percentile(latencies, 0.5) * 1000:.0f}",
                        f"{percentile(latencies, 0.99) * 1000:.0f}",
                        f"{writes:.2f}",
                        f"{processor * 1e6:.0f}",
                        f"{idle:.0f} → {resident(pid):.0f} MiB",
                        load_average(),
                    ]
                )
    finally:
        await kube.delete(NAMESPACES, namespace)
    return rows


async def _round(kube: Kube, namespace: str, count: int, generation: int) -> tuple[list[float], float, float]:
    """Applies all objects; latencies until each is Ready for this generation, seconds for all, writes each."""
    seen = Seen(wanted=count, done=asyncio.Event(), at={}, changes=Counter())
    applied: dict[str, float] = {}

    def note(change: Any) -> None:
        if change.new is None:
            return
        name = change.new["metadata"]["name"]
        seen.changes[name] += 1
        status = change.new.get("status", {})
        ready = status.get("observedGeneration") == generation and status.get("conditions")
        if name in applied and name not in seen.at and ready:
            seen.at[name] = time.perf_counter()
            if len(seen.at) == seen.wanted:
                seen.done.set()

    cache = Informer(kube, SYSTEMS, namespace=namespace)
    await cache.start()
    await cache.synced()
    cache.subscribe(note)
    slots = asyncio.Semaphore(_IN_FLIGHT)

    async def apply(number: int) -> None:
        async with slots:
            manifest = system(namespace, number)
            manifest["spec"]["domain"] = f"g{generation}.s{number}.example"
            applied[manifest["metadata"]["name"]] = time.perf_counter()
            await kube.apply(SYSTEMS, manifest, field_manager="bench")

    began = time.perf_counter()
    await asyncio.gather(*(apply(number) for number in range(count)))
    await asyncio.wait_for(seen.done.wait(), _PATIENCE)
    elapsed = time.perf_counter() - began
    await asyncio.sleep(1)
    await cache.stop()
    writes = sum(seen.changes.values()) / count - 1
    return [seen.at[name] - applied[name] for name in applied], elapsed, writes


async def main() -> None:
    """Measures both, in turn, and prints the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--systems", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    folder = ensure_built(_MODULE, Lines(), name="controller-runtime", what="the controller to compare with")
    rows = []
    async with cluster() as kube:
        turns = [("operator", _operator), ("controller-runtime", _go)]
        for _ in range(arguments.rounds):
            for title, start in turns:
                rows += await measured(kube, start, folder / "controller", title, arguments.systems)
            # Whoever comes second finds a fuller etcd.
            turns.reverse()
    heads = [
        "controller",
        "Systems",
        "a second",
        "p50 ms",
        "p99 ms",
        "writes each",
        "processor µs each",
        "memory",
        "load average",
    ]
    print(table(f"{arguments.systems} Systems at once, {_WORKERS} workers", heads, rows))


if __name__ == "__main__":
    asyncio.run(main())
