"""``python -m bench.connectors``: what an import costs, beside the floor of parsing and validating alone."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench import connectors_api
from bench.__main__ import DEMO, read_environment
from bench.figures import percentile, table
from tests.harness.inputs import api_descriptions
from tieline_core.connectors.import_process import Importer, ImportLimits

_PEAK = 'int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024'
_FLOOR = f"""
import gc, sys, time
from pathlib import Path
gc.disable()
import jsonschema_rs, orjson
from tieline_core.connectors.descriptions.validation import _meta_schema
data = Path(sys.argv[1]).read_bytes()
began = time.process_time()
value = orjson.loads(data)
version = "2.0" if "swagger" in value else value["openapi"][:3]
for _ in jsonschema_rs.validator_for(_meta_schema(version), offline=True).iter_errors(value):
    pass
print(time.process_time() - began, {_PEAK})
"""
_IMPORT = f"""
import gc, sys, time
from pathlib import Path
gc.disable()
from tieline_core.connectors.descriptions.importer import import_description
from tieline_core.connectors.packing import pack
data = Path(sys.argv[1]).read_bytes()
began = time.process_time()
result = import_description(data)
maps = pack(result)
print(time.process_time() - began, {_PEAK},
      len(result.actions), sum(len(part) for content in maps for part in content.values()) / 1048576)
"""
_RUNS = 5


@dataclass(frozen=True)
class Measured:
    """The fastest of some runs of a script, each in a process of its own."""

    figures: list[float]
    """What the script prints: first its seconds, then its peak memory."""
    whole: float
    """Seconds from the start of the process to its end."""


def measured(script: str, path: Path) -> Measured:
    """Runs a script with a description."""
    runs = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        output = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=300
        )
        whole = time.perf_counter() - began
        runs.append((whole, [float(word) for word in output.stdout.split()]))
    figures = min(figures for _, figures in runs)
    return Measured(figures=figures, whole=min(whole for whole, _ in runs))


async def as_children(path: Path) -> float:
    """Seconds from start to result of an import as it really runs, in a limited child."""
    importer = Importer(ImportLimits())
    times = []
    for _ in range(_RUNS):
        with path.open("rb") as file:
            began = time.perf_counter()
            await importer.run(file)
            times.append(time.perf_counter() - began)
    return min(times)


async def import_times(paths: dict[str, Path]) -> str:
    """What imports take, beside the floor: parse with orjson, validate with jsonschema-rs, nothing else."""
    rows = []
    for name, path in paths.items():
        floor, full = measured(_FLOOR, path), measured(_IMPORT, path)
        child = await as_children(path)
        seconds, memory, actions, stored = full.figures
        rows.append(
            [
                f"{name}, {path.stat().st_size / 1e6:.1f} MB, {actions:,.0f} actions",
                f"{floor.figures[0]:.2f} s, {floor.figures[1]:.0f} MiB",
                f"{seconds:.2f} s, {memory:.0f} MiB",
                f"{seconds / floor.figures[0]:.1f}",
                f"{floor.whole:.2f} s",
                f"{child:.2f} s",
                f"{child / floor.whole:.1f}",
                f"{stored:.1f} MiB",
            ]
        )
    headings = [
        "description",
        "parse and validate (processor time)",
        "import and pack",
        "times",
        "a process that parses and validates",
        "a limited child that imports",
        "times",
        "stored",
    ]
    return table("Imports", headings, rows)


async def stillness(path: Path) -> tuple[float, float]:
    """How late this process' event loop is (p99, seconds): idle, and while imports run."""

    async def lateness(until: asyncio.Future[None] | None) -> float:
        late = []
        ends = time.perf_counter() + 3
        while not until.done() if until else time.perf_counter() < ends:
            began = time.perf_counter()
            await asyncio.sleep(0.002)
            late.append(time.perf_counter() - began - 0.002)
        return percentile(late, 0.99)

    async def imports() -> None:
        for _ in range(_RUNS):
            with path.open("rb") as file:
                await importer.run(file)

    importer = Importer(ImportLimits())
    idle = await lateness(None)
    return idle, await lateness(asyncio.ensure_future(imports()))


async def main() -> None:
    """Measures and prints; with TIELINE_URL (or the demo) also what others notice of imports."""
    with tempfile.TemporaryDirectory() as folder:
        sources: dict[str, Callable[[], bytes]] = {
            "GitHub": api_descriptions.github,
            "Kubernetes": api_descriptions.kubernetes,
            "Large": api_descriptions.large,
        }
        paths = {name: Path(folder) / name for name in sources}
        for name, source in sources.items():
            paths[name].write_bytes(source())
        print(await import_times(paths))
        idle, busy = await stillness(paths["GitHub"])
        print(f"Event loop late by (p99): {idle * 1000:.1f} ms idle, {busy * 1000:.1f} ms during imports\n")
        if "TIELINE_URL" in os.environ or DEMO.exists():
            read_environment()
            print(await connectors_api.latency(paths))


if __name__ == "__main__":
    asyncio.run(main())
