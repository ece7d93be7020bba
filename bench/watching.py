"""``python -m bench.watching [--pages 200 --seconds 60]``: what open pages of the console cost the API.

It starts an API for the cluster that KUBECONFIG names, an event engine, and an organisation with projects. Pages show
the overview: first they poll every few seconds, as the console did; then they subscribe to changes, and read only what
changed. Both are measured in one run, first while nothing changes and then while a project changes.
"""

import argparse
import asyncio
import json
import os
import random
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from bench.figures import load_average, table
from bench.platform import Platform
from bench.prerequisites import cluster
from bench.processes import processor_time, resident, running
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.processes.ports import free_port
from tests.integration.api.engine_objects import make_streams
from tieline_api.watching.feed import MOST_OF_CALLER
from tieline_core.identity.ids import new_id
from tieline_core.kubernetes.resources import PROJECTS, ROLE_BINDINGS, SERVICE_ACCOUNTS

_PROJECTS = 50
_CHANGE_SECONDS = 5.0
_SETTLED_SECONDS = 120.0


@dataclass(frozen=True)
class Query:
    """A request of the page: how often it was polled, and which changes make the page send it again."""

    path: str
    poll_seconds: float
    kinds: frozenset[str]
    spacing_seconds: float


OVERVIEW = (
    Query("/projects", 5, frozenset({"project"}), 2),
    Query("/runs?status=dead&first=100", 4, frozenset({"run"}), 4),
    Query("/runs?status=failed&first=100", 4, frozenset({"run"}), 4),
    Query(
        "/metricssummary?start=2026-11-25T00:00:00Z&end=2026-11-26T00:00:00Z&buckets=24",
        15,
        frozenset({"run"}),
        5,
    ),
    Query("/connections?first=200", 15, frozenset({"connection", "connectionTemplate", "system"}), 2),
    Query("/schedulers/late", 15, frozenset({"project"}), 2),
)
"""The queries of the console's overview, with the intervals at which pages polled."""


@dataclass
class Pages:
    """Open pages of some people."""

    http: aiohttp.ClientSession
    url: str
    tokens: Sequence[str]
    statuses: Counter[int] = field(default_factory=Counter)
    events: int = 0
    unanswered: int = 0
    refused: bytes = b""
    """The last answer with another status than 200."""

    async def read(self, token: str, query: Query) -> None:
        headers = {"Authorization": f"Bearer {token}", "Accept-Encoding": "gzip"}
        try:
            async with self.http.get(self.url + query.path, headers=headers) as answer:
                content = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            self.unanswered += 1  # the page asks again at the next turn
            return
        self.statuses[answer.status] += 1
        if answer.status != 200:
            self.refused = content[:300]

    async def _every(self, token: str, query: Query, seconds: float) -> None:
        await asyncio.sleep(random.uniform(0, seconds))
        while True:
            await self.read(token, query)
            await asyncio.sleep(seconds)

    async def polling(self, token: str) -> None:
        """A page that polls."""
        async with asyncio.TaskGroup() as tasks:
            for query in OVERVIEW:
                tasks.create_task(self._every(token, query, query.poll_seconds))

    async def subscribed(self, token: str) -> None:
        """A page that receives changes."""
        async with asyncio.TaskGroup() as tasks:
            for query in OVERVIEW:
                # There is no event for a late schedule: pages poll.
                is_late = query.path == "/schedulers/late"
                tasks.create_task(
                    self._every(token, query, query.poll_seconds if is_late else _SETTLED_SECONDS)
                )
            tasks.create_task(self._listen(token, tasks))

    async def _listen(self, token: str, tasks: asyncio.TaskGroup) -> None:
        await asyncio.sleep(random.uniform(0, 2))
        due: dict[Query, float] = {}

        async def again(query: Query) -> None:
            await asyncio.sleep(max(due[query] - time.monotonic(), 0))
            due[query] = time.monotonic() + query.spacing_seconds
            waiting.discard(query)
            await self.read(token, query)

        waiting: set[Query] = set()
        headers = {"Authorization": f"Bearer {token}"}
        async with self.http.get(
            self.url + "/watch", headers=headers, timeout=aiohttp.ClientTimeout()
        ) as answer:
            self.statuses[answer.status] += 1
            async for line in answer.content:
                if not line.startswith(b"data: "):
                    continue
                self.events += 1
                kinds = {one["kind"] for one in json.loads(line[6:]).get("changes", ())}
                for query in OVERVIEW:
                    if kinds & query.kinds and query not in waiting:
                        waiting.add(query)
                        due.setdefault(query, 0.0)
                        tasks.create_task(again(query))


async def _changing(platform: Platform, namespace: str) -> None:
    """Changes a project every few seconds."""
    while True:
        await asyncio.sleep(_CHANGE_SECONDS)
        await platform.kube.apply(
            PROJECTS, _project(namespace, random.randrange(_PROJECTS)), field_manager="bench"
        )


def _project(namespace: str, number: int) -> dict[str, Any]:
    spec = {"name": f"Project {number} {random.randrange(10**6)}", "environments": [{"name": "production"}]}
    return {
        "apiVersion": PROJECTS.api_version,
        "kind": PROJECTS.kind,
        "metadata": {"name": f"project-{number:03d}", "namespace": namespace},
        "spec": {**spec, "source": {"files": [{"filename": "main.py", "content": "print()\n"}]}},
    }


async def _people(platform: Platform, namespace: str, count: int) -> list[str]:
    """Tokens of viewers."""
    tokens = []
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tieline-viewer"}
    for number in range(count):
        place = {"name": f"person-{number}", "namespace": namespace}
        await platform.kube.create(SERVICE_ACCOUNTS, {"metadata": place})
        subject = {"kind": "ServiceAccount", **place}
        await platform.kube.create(ROLE_BINDINGS, {"metadata": place, "roleRef": role, "subjects": [subject]})
        request = {"metadata": place, "spec": {"expirationSeconds": 3600}}
        answer = await platform.kube.create(
            SERVICE_ACCOUNTS, request, name=place["name"], subresource="token"
        )
        tokens.append(str(answer["status"]["token"]))
    return tokens


@asynccontextmanager
async def _own_api(engine: NatsServer, folder: Path) -> AsyncIterator[tuple[str, int]]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        "TIELINE_ENGINE_URL": engine.url,
        "TIELINE_ENGINE_CREDENTIALS_FILE": str(engine.credentials_file()),
        "TIELINE_ENGINE_SIGNER_FILE": str(engine.api_seed_file()),
        "TIELINE_LISTEN_HOST": "127.0.0.1",
        "TIELINE_LISTEN_PORT": str(port),
        "TIELINE_INTERNAL_PORT": str(free_port()),
        "TIELINE_METRICS_PORT": str(free_port()),
        "TIELINE_RATE_LIMIT": "0",
        "TIELINE_TRACES_FILE": str(folder / "traces.db"),
        "TIELINE_RUNS_FILE": str(folder / "runs.db"),
        "TIELINE_LOG_LEVEL": "WARNING",
    }
    async with running("tieline_api.main", ready=f"{url}/readyz", env=environment) as (process, _):
        yield url, process.pid


async def _measured(pages: Pages, count: int, seconds: float, pid: int, *, subscribes: bool) -> list[str]:
    """A row: the API's share of a core, answers, missing answers and events a second, and memory."""
    page = pages.subscribed if subscribes else pages.polling
    tasks = [asyncio.create_task(page(pages.tokens[number % len(pages.tokens)])) for number in range(count)]
    await asyncio.sleep(15)  # all are open, and each has read once what it needs at first
    pages.statuses.clear()
    pages.events = pages.unanswered = 0
    began, used = time.perf_counter(), processor_time(pid)
    await asyncio.sleep(seconds)
    passed, took = time.perf_counter() - began, processor_time(pid) - used
    failed = [task for task in tasks if task.done()]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    if failed or set(pages.statuses) - {200}:
        why = {repr(task.exception())[:300] for task in failed if not task.cancelled()}
        raise SystemExit(
            f"{len(failed)} pages have failed; answers by status: {pages.statuses}; {pages.refused!r}; {why}"
        )
    return [
        f"{100 * took / passed:.1f} %",
        f"{pages.statuses.total() / passed:.0f}",
        f"{pages.unanswered / passed:.0f}",
        f"{pages.events / passed:.0f}",
        f"{resident(pid):.0f} MiB",
    ]


async def _main(count: int, seconds: float) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    with tempfile.TemporaryDirectory() as folder, running_nats_server(Path(folder)) as engine:
        async with (
            cluster() as kube,
            aiohttp.ClientSession(connector=connector) as http,
            _own_api(engine, Path(folder)) as (url, pid),
        ):
            platform = Platform(kube=kube, http=http, url=url)
            try:
                identifier, namespace = await platform.organisation()
                await asyncio.to_thread(make_streams, engine, identifier, new_id())
                for number in range(_PROJECTS):
                    await kube.apply(PROJECTS, _project(namespace, number), field_manager="bench")
                tokens = await _people(platform, namespace, -(-count // MOST_OF_CALLER))
                pages = Pages(http, f"{url}/api/v2/o/{identifier}", tokens)
                await asyncio.sleep(3)
                rows: list[list[str]] = []
                for what in ("nothing changes", f"a project changes every {_CHANGE_SECONDS:g} s"):
                    changing = [] if not rows else [asyncio.create_task(_changing(platform, namespace))]
                    for subscribes in (False, True):
                        figures = await _measured(pages, count, seconds, pid, subscribes=subscribes)
                        rows.append([what, "events" if subscribes else "polling", *figures])
                    for task in changing:
                        task.cancel()
            finally:
                await platform.clean()
    headings = [
        "organisation",
        "pages use",
        "of one core",
        "answers a second",
        "unanswered",
        "events a second",
        "memory",
    ]
    print(table(f"The API with {count} open pages", headings, rows))
    print(f"Load average {load_average()}, {os.cpu_count()} cores.")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--pages", type=int, default=200)
    arguments.add_argument("--seconds", type=float, default=60)
    given = arguments.parse_args()
    asyncio.run(_main(given.pages, given.seconds))
