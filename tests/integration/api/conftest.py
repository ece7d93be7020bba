"""The REST API in this process, on the session's cluster, with the rights that it has when deployed."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest
from aiohttp import web

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.processes import api_ports, engine_away
from tests.harness.processes.nats_server import NatsServer, running_nats_server
from tests.harness.session.waiting import eventually
from tieline_api.app import make_apps, make_dependencies
from tieline_api.server.http_server import Runner
from tieline_core.kubernetes import Kube
from tieline_protocol.egress import Egress

ORIGIN = "https://app.example"
PUBLIC_URL = "https://tieline.example"
OWN_PAGE = "https://app.example/connected?app=1"
"""Where an application may have its users sent, in place of the platform's page."""


@dataclass(frozen=True)
class Answer:
    """An answer of the API."""

    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.raw)

    @property
    def fields(self) -> list[str]:
        """The fields that an error names."""
        return [item["field"] for item in self.json.get("fields", [])]


@dataclass(frozen=True)
class Client:
    """Calls the API: ``client("GET", "/systems")`` with the path below the organisation's."""

    url: str
    token: str | None
    organisation: str
    headers: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str
    ) -> Answer:
        """The answer. Paths of ``/api`` and the like are taken as they are."""
        return self.at(f"/api/v2/o/{self.organisation}{path}", method=method, body=body, raw=raw, **headers)

    def at(
        self, path: str, *, method: str = "GET", body: Any = None, raw: bytes | None = None, **headers: str
    ) -> Answer:
        """The answer for a whole path, at the port that serves such paths."""
        return self.answered(api_ports.serving(self.url, path) + path, method, body, raw, headers)

    def answered(
        self, url: str, method: str = "GET", body: Any = None, raw: bytes | None = None, headers: Any = None
    ) -> Answer:
        """The answer of a whole URL."""
        data = raw if raw is not None else (json.dumps(body).encode() if body is not None else None)
        sent = {name.replace("_", "-"): value for name, value in {**self.headers, **(headers or {})}.items()}
        if self.token:
            sent.setdefault("Authorization", f"Bearer {self.token}")
        if data is not None:
            sent.setdefault("Content-Type", "application/json")
        request = urllib.request.Request(url, data=data, method=method, headers=sent)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return Answer(response.status, dict(response.headers), response.read())
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def until_known(self) -> None:
        """Returns once the API has heard of the organisation, and of the caller's role in it."""
        eventually("the organisation there", lambda: self("GET", "/projects").status == 200)

    def ok(self, method: str, path: str, body: Any = None, *, status: int = 200) -> Any:
        """The JSON of an answer that must have this status."""
        answer = self(method, path, body)
        assert answer.status == status, answer.raw.decode()
        return answer.json if answer.raw else None


class Server:
    """The application on an event loop of its own."""

    def __init__(self, kubeconfig: Path, *, port: int = 0, **settings: Any) -> None:
        """``port`` of the REST API, where that has to be known before; any free one with 0."""
        self._kubeconfig = kubeconfig
        self._port = port
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(60)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def let_tokens_age(self) -> None:
        """Half a minute passes for new tokens (tests/unit/api/credentials/test_token_ages.py)."""
        self._loop.call_soon_threadsafe(self.platform.token_ages._changed.clear)

    async def _start(self) -> None:
        self._kube = await Kube.connect(kubeconfig=self._kubeconfig)
        chosen = {
            "cors_origins": frozenset({ORIGIN}),
            "access_cache_seconds": 0.5,
            "token_cache_seconds": 60.0,
            "shutdown_seconds": 2.0,
            "public_api_url": PUBLIC_URL,
            "rate_limit": 0,
            "end_user_rate_limit": 0,
            "failed_limit": 0,
            "traces_file": str(self._kubeconfig.with_name("traces.db")),
            **self._settings,
        }
        settings = engine_away.api_settings(**chosen)
        self.platform = make_dependencies(self._kube, settings)
        self.apps = make_apps(self._kube, self.platform)
        self._runners: list[web.AppRunner] = []
        self.url = await self._serve(self.apps.public, self._port)
        api_ports.INTERNAL[self.url] = await self._serve(self.apps.internal)
        api_ports.METRICS[self.url] = await self._serve(self.apps.monitoring)
        await self.platform.cluster.synced()

    async def _serve(self, app: web.Application, port: int = 0) -> str:
        runner = Runner(app, shutdown_timeout=2)
        await runner.setup()
        self._runners.append(runner)
        await web.TCPSite(runner, "127.0.0.1", port).start()
        return f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def _stop(self) -> None:
        for runner in reversed(self._runners):
            await runner.cleanup()
        await self._kube.close()


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """The event engine of all servers here."""
    with running_nats_server(tmp_path_factory.mktemp("engine")) as running:
        yield running


def of_engine(engine: NatsServer, folder: Path) -> dict[str, Any]:
    """The settings of a server with this engine, which keeps its index in ``folder``."""
    return {
        "engine_url": engine.url,
        "engine_credentials_file": str(engine.credentials_file()),
        "engine_signer_file": str(engine.api_seed_file()),
        "runs_file": str(folder / "runs.db"),
    }


@pytest.fixture(scope="session")
def server(
    api_kubeconfig: Path, engine: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with Server(api_kubeconfig, **of_engine(engine, tmp_path_factory.mktemp("runs"))) as started:
        yield started


@pytest.fixture(scope="module")
def reaching(api_kubeconfig: Path) -> Iterator[tuple[Server, Server]]:
    """Two replicas of an API that may reach this machine, where the OAuth servers of the tests are."""
    settings = {"egress": Egress.parse(allowed=["127.0.0.0/8"]), "redirect_urls": frozenset({OWN_PAGE})}
    with Server(api_kubeconfig, **settings) as one, Server(api_kubeconfig, **settings) as two:
        yield one, two


@pytest.fixture(scope="session")
def org(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """One organisation for all tests here; each makes objects of its own in it."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="session")
def client(server: Server, org: Organisation, token_for: Callable[..., str]) -> Client:
    """An administrator of the organisation."""
    return Client(server.url, token_for(org.namespace, "admin", "tieline-admin"), org.id)


@pytest.fixture
def first(reaching: tuple[Server, Server], client: Client) -> Client:
    """The administrator, at the first of the replicas that may reach this machine."""
    return Client(reaching[0].url, client.token, client.organisation)


@pytest.fixture
def second(reaching: tuple[Server, Server], client: Client) -> Client:
    """The administrator, at the other one."""
    return Client(reaching[1].url, client.token, client.organisation)


@pytest.fixture(scope="module")
def other_org(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """Another organisation, where there is nothing."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def neighbour(server: Server, other_org: Organisation, token_for: Callable[..., str]) -> Client:
    """The administrator of the other organisation."""
    made = Client(server.url, token_for(other_org.namespace, "admin", "tieline-admin"), other_org.id)
    made.until_known()
    return made
