"""``python -m bench.connectors``: what an import costs, beside the floor of parsing and validating alone."""

import asyncio
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import orjson

from bench.figures import percentile, table
from tests.harness import descriptions
from tieline_core.connectors.limits import Importer, ImportLimits

_FLOOR = """
import sys, time
from pathlib import Path
import jsonschema_rs, orjson
from tieline_core.connectors.validation import _meta_schema
data = Path(sys.argv[1]).read_bytes()
began = time.perf_counter()
value = orjson.loads(data)
version = "2.0" if "swagger" in value else value["openapi"][:3]
for _ in jsonschema_rs.validator_for(_meta_schema(version), offline=True).iter_errors(value):
    pass
print(time.perf_counter() - began, int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024)
"""
_IMPORT = """
import sys, time
from pathlib import Path
from tieline_core.connectors.importing import import_description
from tieline_core.connectors.packing import pack
data = Path(sys.argv[1]).read_bytes()
began = time.perf_counter()
result = import_description(data)
maps = pack(result)
print(time.perf_counter() - began, int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024,
      len(result.actions), sum(len(part) for content in maps for part in content.values()) / 1048576)
"""
_RUNS = 3


def large() -> bytes:
    """22,000 operations in some 47 MB: GitHub's, and copies of them until there are as many."""
    root = orjson.loads(descriptions.github())
    originals = list(root["paths"].items())
    schemas = orjson.dumps(root["components"]["schemas"])
    for number in range(1, 18):
        for path, item in originals:
            root["paths"][f"/copy{number}{path}"] = {
                key: _slim(operation) for key, operation in item.items() if isinstance(operation, dict)
            }
        if number % 4 == 0:
            own = schemas.replace(b'"#/components/schemas/', f'"#/components/schemas/copy{number}-'.encode())
            for name, schema in orjson.loads(own).items():
                root["components"]["schemas"][f"copy{number}-{name}"] = schema
    return orjson.dumps(root)


def _slim(operation: dict[str, Any]) -> dict[str, Any]:
    """An operation without its examples, which are most of GitHub's bytes."""
    text = orjson.dumps({**operation, "description": operation.get("description", "")[:200]})
    slim: dict[str, Any] = orjson.loads(text)
    slim.pop("operationId", None)
    for response in slim.get("responses", {}).values():
        for media in response.get("content", {}).values():
            media.pop("examples", None)
    return slim


def measured(script: str, path: Path) -> list[float]:
    """The figures that the script prints, of the fastest of some runs in processes of their own."""
    runs = []
    for _ in range(_RUNS):
        output = subprocess.run(
            [sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=300
        )
        runs.append([float(word) for word in output.stdout.split()])
    return min(runs)


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
    """Measures and prints."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        sources = {
            "GitHub": descriptions.github(),
            "Kubernetes": descriptions.kubernetes(),
            "Large": large(),
        }
        for name, data in sources.items():
            path = Path(folder) / name
            path.write_bytes(data)
            floor, floor_memory = measured(_FLOOR, path)
            seconds, memory, actions, stored = measured(_IMPORT, path)
            child = await as_children(path)
            rows.append(
                [
                    f"{name}, {len(data) / 1e6:.1f} MB, {actions:,.0f} actions",
                    f"{floor:.2f} s, {floor_memory:.0f} MiB",
                    f"{seconds:.2f} s, {memory:.0f} MiB",
                    f"{child:.2f} s",
                    f"{stored:.1f} MiB",
                ]
            )
        headings = ["description", "parse and validate", "import and pack", "in a limited child", "stored"]
        print(table("Imports", headings, rows))
        idle, busy = await stillness(Path(folder) / "GitHub")
        print(f"Event loop late by (p99): {idle * 1000:.1f} ms idle, {busy * 1000:.1f} ms during imports")
        print(f"This process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    asyncio.run(main())
