"""``python -m bench.packages``: deploys with packages and without, and how long pods take to start.

It serves the wheels in a folder as an index on this machine. The platform of ``.tieline/demo.env`` has to be set to it:
``TIELINE_PACKAGES_INDEX_URL=http://<an address of this machine that pods reach>:<port>/simple``.

    pip download pandas --only-binary :all: --python-version 3.13 -d wheels
    python -m bench.packages wheels --port 8799
"""

import argparse
import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from bench.__main__ import read_environment
from bench.figures import load_average, percentile, table
from bench.platform import Platform, deployed
from tieline_core.kubernetes.resources import PODS, PROJECTS
from tieline_protocol.package_lock import normalised

_PATIENCE = 600.0
_POLL = 0.05
_CODE = """
from tieline import Integration
{imports}
integration = Integration()


@integration.webhook("hello")
async def hello(ctx, request):
    return {number}
"""


@asynccontextmanager
async def _index(wheels: Sequence[Path], port: int) -> AsyncIterator[None]:
    """Serves wheels as an index."""
    by_name = {normalised(wheel.name.split("-")[0]): wheel for wheel in wheels}

    async def page(request: web.Request) -> web.Response:
        wheel = by_name.get(request.match_info["name"])
        if wheel is None:
            return web.Response(status=404)
        text = f'<a href="/files/{wheel.name}">{wheel.name}</a>'
        return web.Response(text=text, content_type="text/html")

    app = web.Application()
    app.router.add_get("/simple/{name}/", page)
    app.router.add_static("/files", wheels[0].parent)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, port=port).start()
    yield
    await runner.cleanup()


def _lock(wheels: Sequence[Path]) -> str:
    lines = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        lines.append(f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}")
    return "\n".join(lines)


class _Project:
    """A project that is deployed over and over."""

    def __init__(self, platform: Platform, namespace: str, name: str, imports: str, lock: str) -> None:
        self._platform, self._namespace, self._name = platform, namespace, name
        self._imports, self._lock = imports, lock
        self._number = 0

    async def deploy(self, *, lock: bool = True) -> float:
        """Seconds from applying other code to the environment that runs it."""
        self._number += 1
        files = {"main.py": _CODE.format(imports=self._imports, number=self._number)}
        if lock and self._lock:
            files["requirements.txt"] = self._lock
        source = [{"filename": path, "content": content} for path, content in files.items()]
        began = time.perf_counter()
        applied = await self._platform.kube.apply(
            PROJECTS,
            {
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": {
                    "name": self._name,
                    "source": {"files": source},
                    "environments": [{"name": "production", "version": "latest"}],
                },
            },
            field_manager="bench",
        )
        generation = applied.object["metadata"]["generation"]

        def runs(found: Mapping[str, Any]) -> bool:
            status = found.get("status", {})
            ready = {one["type"]: one for one in status.get("conditions", ())}.get("Ready", {})
            return bool(status.get("observedGeneration") == generation and ready.get("status") == "True")

        await self._until(lambda: self._platform.kube.get(PROJECTS, self._name, self._namespace), runs)
        return time.perf_counter() - began

    async def restart(self) -> float:
        """Seconds from the deletion of the pod to another one that is ready."""
        known = {pod["metadata"]["uid"] for pod in await self._pods()}
        began = time.perf_counter()
        for pod in await self._pods():
            await self._platform.kube.delete(PODS, pod["metadata"]["name"], self._namespace)

        def is_ready(pods: Sequence[Mapping[str, Any]]) -> bool:
            return any(
                one["type"] == "Ready" and one["status"] == "True"
                for pod in pods
                if pod["metadata"]["uid"] not in known
                for one in pod["status"].get("conditions", ())
            )

        await self._until(self._pods, is_ready)
        return time.perf_counter() - began

    async def _pods(self) -> Sequence[Mapping[str, Any]]:
        selector = f"tieline.dev/project={self._name},app.kubernetes.io/name=tieline-environment"
        return await self._platform.kube.list(PODS, self._namespace, label_selector=selector)

    async def _until(self, look: Callable[[], Any], is_so: Callable[[Any], bool]) -> None:
        until = time.monotonic() + _PATIENCE
        for _ in range(int(_PATIENCE / _POLL)):
            if is_so(await look()):
                return
            if time.monotonic() > until:
                break
            await asyncio.sleep(_POLL)
        raise TimeoutError(f"{self._name} does not get there")


def _row(name: str, seconds: Sequence[float]) -> list[str]:
    figures = (min(seconds), percentile(seconds, 0.5), max(seconds))
    return [name, str(len(seconds)), *(f"{figure:.1f}" for figure in figures)]


async def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("wheels", type=Path)
    parser.add_argument("--port", type=int, default=8799)
    parser.add_argument("--imports", default="import pandas")
    parser.add_argument("--rounds", type=int, default=5)
    wanted = parser.parse_args()
    read_environment()
    wheels = sorted(wanted.wheels.glob("*.whl"))
    rows = []
    async with deployed() as platform, _index(wheels, wanted.port):
        _, namespace = await platform.organisation()
        plain = _Project(platform, namespace, "plain", "", "")
        packed = _Project(platform, namespace, "packed", wanted.imports, _lock(wheels))
        await plain.deploy()
        rows.append(_row("deploy without packages", [await plain.deploy() for _ in range(wanted.rounds)]))
        rows.append(_row("first deploy with the lock", [await packed.deploy()]))
        rows.append(_row("other code, same lock", [await packed.deploy() for _ in range(wanted.rounds)]))
        other = _Project(platform, namespace, "other", wanted.imports, _lock(wheels))
        rows.append(_row("first deploy of another project, same lock", [await other.deploy()]))
        rows.append(_row("pod start without packages", [await plain.restart() for _ in range(wanted.rounds)]))
        rows.append(_row("pod start with packages", [await packed.restart() for _ in range(wanted.rounds)]))
    size = sum(wheel.stat().st_size for wheel in wheels) / (1 << 20)
    title = f"{wanted.imports} ({len(wheels)} wheels of {size:.0f} MiB), load {load_average()}"
    print(table(title, ["", "times", "fastest s", "median s", "slowest s"], rows))


if __name__ == "__main__":
    asyncio.run(main())
