"""``python -m bench.console [--projects 2000]``: how soon the console shows something, in a real Chromium.

An API of its own, with the pages of this checkout, in front of the cluster that KUBECONFIG names, and an organisation
with many projects. Somebody signs in with a token and opens pages; the times are the browser's own.
"""

import argparse
import asyncio
import gzip
import os
import statistics
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from bench.figures import load_average, table
from bench.platform import Platform
from bench.prerequisites import cluster
from bench.processes import running
from tests.harness.console.built import built_console
from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_port
from tieline_core.kubernetes.resources import PROJECTS

_REPETITIONS = 7
_AT_ONCE = 16
_PATIENCE_MS = 60_000
_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
# Until the browser has drawn the frame with the rows.
_SHOWN = """async ([click]) => {
    const began = click ? performance.now() : 0;
    if (click) document.querySelector(click).click();
    const rows = () => document.querySelectorAll('main a.tr').length;
    while (rows() < 10) await new Promise(requestAnimationFrame);
    await new Promise(requestAnimationFrame);
    return performance.now() - began;
}"""


async def _fill(platform: Platform, namespace: str, count: int) -> None:
    """Makes projects that no operator looks at."""
    room = asyncio.Semaphore(_AT_ONCE)

    async def make(number: int) -> None:
        spec = {"name": f"Project {number}", "environments": [{"name": "production"}]}
        project = {
            "apiVersion": PROJECTS.api_version,
            "kind": PROJECTS.kind,
            "metadata": {"name": f"project-{number:05d}", "namespace": namespace},
            "spec": {**spec, "source": {"files": [{"filename": "main.py", "content": "print()\n"}]}},
        }
        async with room:
            await platform.kube.apply(PROJECTS, project, field_manager="bench")

    await asyncio.gather(*(make(number) for number in range(count)))


async def _signed_in(browser: Browser, url: str, token: str) -> BrowserContext:
    context = await browser.new_context(viewport={"width": 1360, "height": 860})
    context.set_default_timeout(_PATIENCE_MS)
    # With a stream open, the network is never idle.
    await context.route("**/watch", lambda route: route.fulfill(status=404))
    page = await context.new_page()
    await page.goto(f"{url}/console/")
    await page.get_by_label("Token or API key").fill(token)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", level=1, name="Overview").wait_for()
    await page.close()
    return context


async def _scripts(context: BrowserContext, address: str) -> list[bytes]:
    """The scripts that a page loads."""
    page = await context.new_page()
    loaded: list[Any] = []
    page.on("response", lambda answer: loaded.append(answer) if answer.url.endswith(".js") else None)
    await page.goto(address)
    await page.get_by_role("heading", level=1).wait_for()
    await page.wait_for_load_state("networkidle")
    bodies = [await answer.body() for answer in loaded]
    await page.close()
    return bodies


async def _opened(browser: Browser, url: str, token: str, path: str, wait: str) -> tuple[float, float]:
    """Milliseconds until something is painted, and until ``wait`` gives, in a browser that has nothing cached."""
    context = await _signed_in(browser, url, token)
    state = await context.storage_state()
    await context.close()
    fresh = await browser.new_context(viewport={"width": 1360, "height": 860}, storage_state=state)
    page = await fresh.new_page()
    await page.goto(f"{url}{path}", wait_until="commit")
    shown = await page.evaluate(wait, [None])
    paint = await page.evaluate(_PAINT)
    await fresh.close()
    return float(paint), float(shown)


async def _clicked(page: Page, overview: str, link: str) -> float:
    """Milliseconds from a click in the navigation until the list is drawn, at its first opening."""
    await page.goto(overview)
    await page.get_by_role("heading", level=1, name="Overview").wait_for()
    await page.wait_for_load_state("networkidle")
    return float(await page.evaluate(_SHOWN, [link]))


async def measure(url: str, token: str, namespace: str, count: int) -> str:
    """Two tables."""
    async with async_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        context = await _signed_in(browser, url, token)
        projects = f"/console/{namespace}/projects"
        sizes = [
            [what, f"{sum(map(len, bodies)) / 1000:.0f}", f"{_zipped(bodies):.0f}"]
            for what, bodies in (
                ("overview", await _scripts(context, f"{url}/console/{namespace}/overview")),
                ("list of projects", await _scripts(context, f"{url}{projects}")),
            )
        ]
        opened = [await _opened(browser, url, token, projects, _SHOWN) for _ in range(_REPETITIONS)]
        page = await context.new_page()
        overview = f"{url}/console/{namespace}/overview"
        link = f"nav a[href='{projects}']"
        clicked = [await _clicked(page, overview, link) for _ in range(_REPETITIONS)]
        await browser.close()
    rows = [
        ["first paint, nothing cached", *_spread([paint for paint, _ in opened])],
        [f"list of {count:,} projects drawn, nothing cached", *_spread([shown for _, shown in opened])],
        [f"list of {count:,} projects drawn after a click in the overview", *_spread(clicked)],
    ]
    return "\n\n".join(
        (
            table("Script of a page", ["page", "kB", "kB, gzip"], sizes),
            table("Until something is seen, in ms", ["what", "median", "most"], rows),
        )
    )


def _zipped(bodies: Sequence[bytes]) -> float:
    return sum(len(gzip.compress(each)) for each in bodies) / 1000


def _spread(times: Sequence[float]) -> list[str]:
    return [f"{statistics.median(times):.0f}", f"{max(times):.0f}"]


@asynccontextmanager
async def _own_api() -> AsyncIterator[str]:
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
            "TIELINE_CONSOLE_FOLDER": str(built_console()),
        }
        async with running("tieline_api.main", ready=f"{url}/readyz", env=environment):
            yield url


async def _main(count: int) -> None:
    async with cluster() as kube, aiohttp.ClientSession() as http, _own_api() as url:
        platform = Platform(kube=kube, http=http, url=url)
        try:
            _, namespace = await platform.organisation()
            token = await platform.administrator(namespace)
            await _fill(platform, namespace, count)
            print(await measure(url, token, namespace, count))
            print(f"\nLoad average {load_average()}, {os.cpu_count()} cores.")
        finally:
            await platform.clean()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--projects", type=int, default=2000)
    asyncio.run(_main(arguments.parse_args().projects))
