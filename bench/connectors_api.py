"""What other callers of the API notice while descriptions are imported: GETs at a steady pace.

The uploads come from a process of their own, as they would. Beside them, what a process that only counts costs the
same callers: that much is the machine's, not the import's.
"""

import asyncio
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import orjson

from bench.figures import percentile, table
from bench.platform import Platform, deployed
from tieline_core.identity.ids import new_id

_PACE = 0.02
_IDLE_SECONDS = 10.0
_TIME_OUT = aiohttp.ClientTimeout(total=180)
_COUNTING = "import os, time\nos.nice(10)\nend = time.monotonic() + 10\nwhile time.monotonic() < end: pass"
_TOKEN = "BENCH_TOKEN"


async def latency(paths: dict[str, Path]) -> str:
    """GETs while nothing else happens, and while each description is imported over and over."""
    async with deployed() as platform:
        organisation, namespace = await platform.organisation()
        headers = {"Authorization": f"Bearer {await platform.administrator(namespace)}"}
        place = f"{platform.url}/api/v2/o/{organisation}"
        await _until_known(platform, f"{place}/systems", headers)
        body = {"domain": "shop.example", "templateBaseUrl": "https://shop.example", "authSchemeConfigs": []}
        for number in range(20):
            made = {"name": f"System {number}", **body}
            async with platform.http.post(f"{place}/systems", json=made, headers=headers) as response:
                response.raise_for_status()
        url = f"{place}/systems"
        idle = asyncio.create_task(asyncio.sleep(_IDLE_SECONDS))
        rows = [["nothing", "", *_cells(await _reads(platform, url, headers, idle))]]
        counting = asyncio.create_task(_process("-c", _COUNTING))
        rows.append(["a process that counts", "", *_cells(await _reads(platform, url, headers, counting))])
        for name, path in paths.items():
            runs = 2 if path.stat().st_size > 30_000_000 else 10
            address = f"{platform.url}/api/connect/v1/o/{organisation}/connector"
            arguments = ("-m", __name__, address, str(path), str(runs))
            work = asyncio.create_task(_process(*arguments, token=headers["Authorization"]))
            found = await _reads(platform, url, headers, work)
            rows.append([name, f"{float(work.result()):.2f} s", *_cells(found)])
    headings = ["imported meanwhile", "an import over REST", "GETs", "p50 ms", "p99 ms", "slowest ms"]
    return table("GET /systems while descriptions are imported", headings, rows)


async def _until_known(platform: Platform, url: str, headers: dict[str, str]) -> None:
    for _ in range(100):
        async with platform.http.get(url, headers=headers) as response:
            if response.status == 200:
                return
        await asyncio.sleep(0.1)
    raise RuntimeError("The API does not know the new organisation: is it there?")


async def _process(*arguments: str, token: str = "") -> str:
    """What a Python process prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=asyncio.subprocess.PIPE, env={**os.environ, _TOKEN: token}
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"python {' '.join(arguments[:2])} ended with {process.returncode}")
    return output.decode()


async def _reads(
    platform: Platform, url: str, headers: dict[str, str], until: "asyncio.Task[str] | asyncio.Task[None]"
) -> list[float]:
    """Seconds of GETs at a steady pace, each counted from when it was due."""
    found: list[float] = []
    due = time.perf_counter()
    while not until.done():
        async with platform.http.get(url, headers=headers) as response:
            await response.read()
            response.raise_for_status()
        found.append(time.perf_counter() - due)
        due += _PACE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
    await until
    return found


async def imports(address: str, path: Path, *, runs: int, token: str) -> list[float]:
    """Imports a description some times, each into a new connector; the seconds that each took."""
    metadata = orjson.dumps({"format": "openapi", "version": "one"}).decode()
    seconds = []
    async with aiohttp.ClientSession(headers={"Authorization": token}, timeout=_TIME_OUT) as client:
        for _ in range(runs):
            with path.open("rb") as file:
                form = aiohttp.FormData()
                form.add_field("metadata", metadata, content_type="application/json")
                form.add_field("file", file, filename="openapi.json")
                began = time.perf_counter()
                async with client.post(f"{address}/{new_id()}/http/import", data=form) as response:
                    answer = await response.read()
                    if response.status != 201:
                        raise RuntimeError(f"{path.name}: {response.status} {answer[:300]!r}")
            seconds.append(time.perf_counter() - began)
    return seconds


def _cells(found: Sequence[float]) -> list[str]:
    figures = (percentile(list(found), 0.5), percentile(list(found), 0.99), max(found))
    return [str(len(found)), *(f"{figure * 1000:.1f}" for figure in figures)]


if __name__ == "__main__":
    to, description, times = sys.argv[1:]
    print(min(asyncio.run(imports(to, Path(description), runs=int(times), token=os.environ[_TOKEN]))))
