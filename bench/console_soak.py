"""``python -m bench.console_soak [--minutes 60]``: pages of the console that stay open, and what they keep.

An API of its own with the pages of this checkout, an event engine, and the cluster that KUBECONFIG names; runs are
reported as pods report them. Two people have five pages each open in Chromium; one of them is moved to another page
every few seconds. Meanwhile sessions end and people sign in again, the network is cut with and without a reset, and the
API is restarted with SIGTERM and with SIGKILL. At fixed times a marker is written, some during a disturbance: each page
that shows its object must show the marker.
"""

import argparse
import asyncio
import contextlib
import itertools
import random
import shutil
import string
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import Browser, BrowserContext, CDPSession, Page, async_playwright
from playwright.async_api import Error as BrowserError

from bench.figures import load_average, percentile, table
from bench.platform import Platform
from bench.prerequisites import cluster
from bench.processes import resident, running
from tests.harness.console.built import built_console
from tests.harness.console.chromium import OPTIONS, install_chromium, program_options
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.processes.ports import free_port
from tests.integration.api.engine_objects import make_streams
from tests.unit.api.runs.run_records import record
from tieline_core.kubernetes import AlreadyExists, Kube
from tieline_core.kubernetes.resources import NAMESPACES, ROLE_BINDINGS, SERVICE_ACCOUNTS
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.run_records import RunError, RunRecord, encode

MINUTES = 60.0
PEOPLE = 2
_RUN_SECONDS = 2.0
_HOME = "tieline-system"
"""The namespace of the API."""
_EARLIER_RUNS = 300
_MARKER_SECONDS = 30.0
_SAMPLE_SECONDS = 60.0
_WANDER_SECONDS = 5.0
_SHOWN_SECONDS = 150.0
"""A page that has not shown a marker by then has missed it: the longest pause between attempts is 90 s."""
_RESTARTS = (0.13, 0.3)
"""When the API restarts, as shares of the time; afterwards its memory has the rest of it to grow."""
_CYCLE_SECONDS = 240.0
_WANDERED = (
    "overview",
    "issues",
    "runs",
    "projects",
    "logs",
    "dead-letters",
    "schedules",
    "connections",
    "systems",
)


@dataclass
class Relay:
    """The network between the browser and the API, which can be cut."""

    port: int
    target: int
    reachable: bool = True
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    """Not set: it takes connections and passes nothing on, as a network that loses packets."""
    open: set[asyncio.StreamWriter] = field(default_factory=set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self.reachable:
            writer.transport.abort()
            return
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            writer.transport.abort()
            return
        self.open |= {writer, back}
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer), return_exceptions=True)
        finally:
            self.open -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while content := await reader.read(65_536):
                await self.heard.wait()
                writer.write(content)
                await writer.drain()
        finally:
            writer.close()

    def cut(self) -> None:
        self.reachable = False
        for each in list(self.open):
            each.transport.abort()


@dataclass
class Server:
    """The API, which is started again where it was."""

    port: int
    environment: dict[str, str]
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    process: Any = None
    metrics: int = field(default_factory=free_port)

    async def start(self) -> None:
        ready = f"http://127.0.0.1:{self.port}/readyz"
        environment = {**self.environment, "TIELINE_METRICS_PORT": str(self.metrics)}
        self.process, _ = await self.stack.enter_async_context(
            running("bench.api_in_namespace", ready=ready, env=environment)
        )

    async def restart(self, *, kill: bool) -> None:
        (self.process.kill if kill else self.process.terminate)()
        await self.process.wait()
        await self.start()

    async def watchers(self, http: aiohttp.ClientSession) -> int:
        """Open streams of changes, as the API counts them."""
        async with http.get(f"http://127.0.0.1:{self.metrics}/metrics") as answer:
            for line in (await answer.text()).splitlines():
                if line.startswith("tieline_api_watchers "):
                    return int(float(line.split()[1]))
        return 0


@dataclass
class Tab:
    """An open page, and what it takes."""

    name: str
    page: Page
    cdp: CDPSession
    shows: str = ""
    """Which marker it shows."""
    heaps: list[float] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    listeners: list[int] = field(default_factory=list)

    async def sample(self) -> None:
        await self.cdp.send("HeapProfiler.collectGarbage")
        found = await self.cdp.send("Performance.getMetrics")
        metrics = {one["name"]: one["value"] for one in found["metrics"]}
        self.heaps.append(metrics["JSHeapUsedSize"] / 2**20)
        self.nodes.append(int(metrics["Nodes"]))
        self.listeners.append(int(metrics["JSEventListeners"]))


@dataclass
class Person:
    """A browser with its own session."""

    context: BrowserContext
    token: str
    tabs: list[Tab] = field(default_factory=list)

    async def session_ends(self) -> None:
        """Returns once the person has signed in again, and all pages are usable."""
        await self.context.clear_cookies()
        dialogs = [tab.page.get_by_role("dialog", name="Your session has ended") for tab in self.tabs]
        await asyncio.gather(*(dialog.wait_for(timeout=_SHOWN_SECONDS * 1000) for dialog in dialogs))
        await dialogs[0].get_by_label("Token or API key").fill(self.token)
        await dialogs[0].get_by_role("button", name="Sign in").click()
        await asyncio.gather(
            *(dialog.wait_for(state="hidden", timeout=_SHOWN_SECONDS * 1000) for dialog in dialogs)
        )


@dataclass
class Soak:
    """What goes on."""

    http: aiohttp.ClientSession
    server: Server
    relay: Relay
    rest: str
    namespace: str
    project: str
    streams: EventStreams
    engine: NatsServer
    people: list[Person] = field(default_factory=list)
    did: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    """Exceptions of the pages' scripts, and errors in the console that are not of the network."""
    missed: list[str] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    watchers: list[int] = field(default_factory=list)
    numbers: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))
    undisturbed: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def tabs(self) -> list[Tab]:
        return [tab for person in self.people for tab in person.tabs]

    async def report_earlier_runs(self) -> None:
        """So that the lists of the pages are full from the beginning."""
        client = await self.engine.pod(self.streams)
        try:
            for _ in range(_EARLIER_RUNS):
                run = _run(f"orders.{random.randrange(5)}", failing=0.2)
                await client.jetstream(timeout=30).publish(self.streams.history, encode([run]))
        finally:
            await client.close()

    async def report_runs(self) -> None:
        """Runs of a pod: most succeed."""
        client = await self.engine.pod(self.streams)
        stream = client.jetstream(timeout=30)
        try:
            while True:
                await stream.publish(self.streams.history, encode([_run(f"orders.{random.randrange(5)}")]))
                self.did["runs"] += 1
                await asyncio.sleep(_RUN_SECONDS)
        finally:
            await client.close()

    async def wander(self, tab: Tab) -> None:
        """Opens another page of the navigation again and again."""
        while True:
            path = random.choice(_WANDERED)
            with contextlib.suppress(BrowserError):
                await tab.page.evaluate(
                    "path => document.querySelector(`nav a[href$='/${path}']`)?.click()", path
                )
                self.did["pages opened"] += 1
            await asyncio.sleep(_WANDER_SECONDS)

    async def mark(self, when: str) -> None:
        """Changes a project and reports a run; notes the pages that do not show it."""
        number = next(self.numbers)
        name, task = f"Soaked {number} times", f"marker.n{number}.end"
        client = await self.engine.pod(self.streams)
        try:
            await client.jetstream(timeout=30).publish(
                self.streams.history, encode([_run(task, failing=0.0)])
            )
        finally:
            await client.close()
        async with self.http.put(f"{self.rest}/projects/{self.project}", json={"name": name}) as answer:
            assert answer.status == 200, await answer.text()
        began = time.monotonic()
        texts = {"project": name, "run": task}
        await asyncio.gather(
            *(
                self._shows(tab, texts[tab.shows], began, f"{when}, marker {number}")
                for tab in self.tabs
                if tab.shows
            )
        )
        self.did["markers"] += 1

    async def _shows(self, tab: Tab, text: str, began: float, when: str) -> None:
        try:
            await tab.page.get_by_role("main").get_by_text(text).first.wait_for(timeout=_SHOWN_SECONDS * 1000)
            self.delays.append(time.monotonic() - began)
        except BrowserError as error:
            self.missed.append(f"{tab.name}: {when}: {str(error)[:200]}")

    async def markers(self) -> None:
        """One after the other, while nothing is disturbed."""
        while True:
            async with self.undisturbed:
                await self.mark("undisturbed")
            await asyncio.sleep(_MARKER_SECONDS)

    async def disturbances(self) -> None:
        """In turn: a session that ends, a network that refuses, one that is silent."""
        kinds: list[tuple[str, Callable[[], Awaitable[None]]]] = [
            ("sessions ended", self._session),
            ("network cut", self._cut),
            ("network silent", self._silent),
        ]
        for number in itertools.count():
            await asyncio.sleep(_CYCLE_SECONDS)
            what, disturb = kinds[number % len(kinds)]
            async with self.undisturbed:
                _log(what)
                await disturb()
                self.did[what] += 1

    async def _session(self) -> None:
        person = self.people[self.did["sessions ended"] % len(self.people)]
        marking = asyncio.create_task(self.mark("a session ended"))
        await person.session_ends()
        await marking

    async def _cut(self) -> None:
        self.relay.cut()
        await asyncio.sleep(15)
        marking = asyncio.create_task(self.mark("the network was cut"))
        await asyncio.sleep(30)
        self.relay.reachable = True
        await marking

    async def _silent(self) -> None:
        self.relay.heard.clear()
        await asyncio.sleep(15)
        marking = asyncio.create_task(self.mark("the network was silent"))
        await asyncio.sleep(50)
        self.relay.cut()  # what was on its way is lost
        self.relay.heard.set()
        self.relay.reachable = True
        await marking

    async def restarts(self, seconds: float) -> None:
        """Restarts the API: once it may end its requests, once it may not."""
        began = time.monotonic()
        for number, share in enumerate(_RESTARTS):
            await asyncio.sleep(max(0.0, began + share * seconds - time.monotonic()))
            async with self.undisturbed:
                kill = number % 2 == 1
                _log(f"API restarts, kill={kill}; it has {resident(self.server.process.pid):.0f} MiB")
                await self.server.restart(kill=kill)
                self.did["API restarted"] += 1
                await self.mark("the API restarted")

    async def sample(self, seconds: float) -> None:
        """Samples until the time is over."""
        began = time.monotonic()
        while time.monotonic() - began < seconds:
            await asyncio.gather(*(tab.sample() for tab in self.tabs))
            with contextlib.suppress(aiohttp.ClientError, ProcessLookupError, FileNotFoundError):
                self.memory.append(resident(self.server.process.pid))
                self.watchers.append(await self.server.watchers(self.http))
            heaps = " ".join(f"{tab.heaps[-1]:.1f}/{tab.nodes[-1]}" for tab in self.tabs)
            _log(f"{self.memory[-1:]} MiB, {self.watchers[-1:]} streams, heaps/nodes {heaps}")
            _log(f"{dict(self.did)} missed {self.missed} errors {dict(self.errors)}")
            await asyncio.sleep(_SAMPLE_SECONDS)


def _log(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)


def _run(task: str, *, failing: float = 0.05) -> RunRecord:
    now = time.time()
    times = {"queued_at": now - 1, "started_at": now - 0.6, "ended_at": now, "at": now}
    common: dict[str, Any] = {"attempts": 3, "version": "v1", "task": task, **times}
    if random.random() >= failing:
        return record("", "succeeded", 1, **common)
    system = random.choice(string.ascii_lowercase[:5])
    error = RunError(type="UpstreamError", message=f"system {system} answered 503")
    return record("", "failed", 1, **{**common, "attempts": 1}, kind="webhook", error=error)


async def _signed_in(browser: Browser, url: str, token: str) -> BrowserContext:
    context = await browser.new_context(viewport={"width": 1360, "height": 860})
    page = await context.new_page()
    await page.goto(f"{url}/console/")
    await page.get_by_label("Token or API key").fill(token)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("heading", level=1, name="Overview").wait_for()
    await page.close()
    return context


async def _opened(soak: Soak, context: BrowserContext, url: str, name: str, path: str, shows: str) -> Tab:
    page = await context.new_page()

    def note(text: str) -> None:
        soak.errors[f"{name}: {text[:300]}"] += 1

    page.on("pageerror", lambda error: note(str(error)))
    page.on(
        "console",
        lambda said: (
            note(said.text) if said.type == "error" and "Failed to load resource" not in said.text else None
        ),
    )
    page.on("crash", lambda _: note("the page crashed"))
    await page.goto(f"{url}/console/{soak.namespace}{path}")
    await page.get_by_role("heading", level=1).wait_for()
    cdp = await context.new_cdp_session(page)
    await cdp.send("Performance.enable")
    return Tab(name, page, cdp, shows)


async def _person(soak: Soak, browser: Browser, url: str, number: int, token: str) -> Person:
    person = Person(await _signed_in(browser, url, token), token)
    for name, path, shows in (
        ("overview", "/overview", ""),
        ("runs", "/runs", "run"),
        ("projects", "/projects", "project"),
        ("project", f"/projects/{soak.project}", "project"),
        ("all in turn", "/issues", ""),
    ):
        label = f"{name} ({number + 1})"
        person.tabs.append(await _opened(soak, person.context, url, label, path, shows))
    return person


async def _tokens(kube: Kube, namespace: str, count: int) -> list[str]:
    """Tokens of administrators that outlive the soak."""
    tokens = []
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tieline-admin"}
    for number in range(count):
        place = {"name": f"person-{number}", "namespace": namespace}
        await kube.create(SERVICE_ACCOUNTS, {"metadata": place})
        subject = {"kind": "ServiceAccount", **place}
        await kube.create(ROLE_BINDINGS, {"metadata": place, "roleRef": role, "subjects": [subject]})
        request = {"metadata": place, "spec": {"expirationSeconds": 6 * 3600}}
        made = await kube.create(SERVICE_ACCOUNTS, request, name=place["name"], subresource="token")
        tokens.append(str(made["status"]["token"]))
    return tokens


def _variables(engine: NatsServer, folder: Path, port: int) -> dict[str, str]:
    namespace = folder / "namespace"
    namespace.write_text(_HOME)
    return {
        "TIELINE_BENCH_NAMESPACE_FILE": str(namespace),
        "TIELINE_ENGINE_URL": engine.url,
        "TIELINE_ENGINE_CREDENTIALS_FILE": str(engine.credentials_file()),
        "TIELINE_ENGINE_SIGNER_FILE": str(engine.api_seed_file()),
        "TIELINE_LISTEN_HOST": "127.0.0.1",
        "TIELINE_LISTEN_PORT": str(port),
        "TIELINE_INTERNAL_PORT": str(free_port()),
        "TIELINE_RATE_LIMIT": "0",
        "TIELINE_TRACES_FILE": str(folder / "traces.db"),
        "TIELINE_RUNS_FILE": str(folder / "runs.db"),
        # A copy: another build of the checkout does not reload the pages.
        "TIELINE_CONSOLE_FOLDER": str(shutil.copytree(built_console(), folder / "console")),
        "TIELINE_LOG_LEVEL": "WARNING",
    }


@contextlib.asynccontextmanager
async def _soak(stack: AsyncExitStack, kube: Kube, folder: Path, engine: NatsServer) -> AsyncIterator[Soak]:
    """The API, an organisation with projects, and pages in a browser."""
    with contextlib.suppress(AlreadyExists):
        # Where the API has the keys of its sessions.
        await kube.create(NAMESPACES, {"metadata": {"name": _HOME}})
    port = free_port()
    server = Server(port, await asyncio.to_thread(_variables, engine, folder, port))
    await stack.enter_async_context(server.stack)
    await server.start()
    relay = Relay(free_port(), port)
    relay.heard.set()
    await stack.enter_async_context(await asyncio.start_server(relay.serve, "127.0.0.1", relay.port))
    http = await stack.enter_async_context(aiohttp.ClientSession())
    platform = Platform(kube=kube, http=http, url=f"http://127.0.0.1:{port}")
    stack.push_async_callback(platform.clean)
    organisation, namespace = await platform.organisation()
    tokens = await _tokens(kube, namespace, PEOPLE)
    client = aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {tokens[0]}"}, timeout=aiohttp.ClientTimeout(total=60)
    )
    await stack.enter_async_context(client)
    rest = f"http://127.0.0.1:{port}/api/v2/o/{organisation}"
    project = await _made(client, rest)
    streams = await asyncio.to_thread(make_streams, engine, organisation, project["environments"][0]["id"])
    soak = Soak(client, server, relay, rest, namespace, project["id"], streams, engine)
    await soak.report_earlier_runs()
    playwright = await stack.enter_async_context(async_playwright())
    browser = await playwright.chromium.launch(**program_options(), args=OPTIONS)
    stack.push_async_callback(browser.close)
    url = f"http://127.0.0.1:{relay.port}"
    for number, token in enumerate(tokens):
        soak.people.append(await _person(soak, browser, url, number, token))
    yield soak


async def _made(client: aiohttp.ClientSession, rest: str) -> Any:
    """The project that is marked, among others."""
    async with asyncio.timeout(60):
        while True:
            async with client.get(f"{rest}/projects") as answer:
                if answer.status == 200:
                    break
            await asyncio.sleep(0.5)
    made = None
    for name in ("Soaked", *(f"Project {number}" for number in range(20))):
        async with client.post(f"{rest}/projects", json={"name": name}) as answer:
            assert answer.status < 300, await answer.text()
            made = made or await answer.json()
    return made


def _marks(values: Sequence[float], form: str) -> list[str]:
    return [format(values[round(share * (len(values) - 1))], form) for share in (0, 0.25, 0.5, 0.75, 1)]


def _tables(soak: Soak, minutes: float) -> str:
    marks = ["start", "25 %", "50 %", "75 %", "end"]
    heaps = [[tab.name, *_marks(tab.heaps, ".1f")] for tab in soak.tabs]
    nodes = [[tab.name, *_marks(tab.nodes, "d")] for tab in soak.tabs]
    listeners = [[tab.name, *_marks(tab.listeners, "d")] for tab in soak.tabs]
    rest = [["API, MiB", *_marks(soak.memory, ".0f")], ["open streams", *_marks(soak.watchers, "d")]]
    did = [[what, f"{count:,}"] for what, count in soak.did.items()]
    did += [
        ["updates shown by a page", str(len(soak.delays))],
        ["updates missed by a page", str(len(soak.missed))],
        ["seconds until an update was shown, median", f"{percentile(soak.delays, 0.5):.1f}"],
        ["seconds until an update was shown, most", f"{max(soak.delays):.1f}"],
        ["errors of scripts", str(soak.errors.total())],
    ]
    return "\n".join(
        (
            table(
                f"{len(soak.tabs)} pages over {minutes:g} minutes, load average {load_average()}",
                ["what", "count"],
                did,
            ),
            table("Heap of a page after garbage collection, MiB", ["page", *marks], heaps),
            table("DOM nodes", ["page", *marks], nodes),
            table("Event listeners", ["page", *marks], listeners),
            table("API", ["what", *marks], rest),
            *soak.missed,
            *(f"{count} x {text}" for text, count in soak.errors.items()),
        )
    )


async def _main(minutes: float) -> None:
    await asyncio.to_thread(install_chromium)
    with tempfile.TemporaryDirectory() as folder, running_nats_server(Path(folder)) as engine:
        async with (
            cluster() as kube,
            AsyncExitStack() as stack,
            _soak(stack, kube, Path(folder), engine) as soak,
        ):
            work = [soak.report_runs(), soak.markers(), soak.disturbances(), soak.restarts(minutes * 60)]
            work += [soak.wander(person.tabs[-1]) for person in soak.people]
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(each) for each in work]
                await soak.sample(minutes * 60)
                for task in tasks:
                    task.cancel()
            print(_tables(soak, minutes))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=MINUTES)
    asyncio.run(_main(parser.parse_args().minutes))
