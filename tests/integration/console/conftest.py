"""An API with a console on the session's cluster, and browsers that sign in there."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.identity.browser import Browser, chromium
from tests.harness.processes.running_api import RunningApi
from tests.integration.api.conftest import Answer, Server

OURS = {"X-Tieline-Console": "1"}


@dataclass
class Visitor:
    """A browser, as far as cookies and the headers of its page are concerned."""

    url: str
    cookies: dict[str, str] = field(default_factory=dict)
    set_cookies: list[str] = field(default_factory=list)
    """The headers of the last answer."""

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """The answer to a request of the page."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body).encode()
        return self.send(method, path, data, {"Content-Type": "application/json", **named})

    def send(self, method: str, path: str, data: bytes | None, headers: dict[str, str]) -> Answer:
        """The answer to any request; cookies are kept."""
        request = urllib.request.Request(f"{self.url}{path}", data=data, method=method, headers=headers)
        if self.cookies:
            request.add_header("Cookie", "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        try:
            with _OPENER.open(request, timeout=60) as response:
                answer = Answer(response.status, dict(response.headers), response.read())
                self._keep(response.headers.get_all("Set-Cookie") or [])
        except urllib.error.HTTPError as error:
            answer = Answer(error.code, dict(error.headers), error.read())
            self._keep(error.headers.get_all("Set-Cookie") or [])
        return answer

    def sign_in(self, token: str) -> Answer:
        """Pastes a token."""
        return self("POST", "/console/session", {"token": token})

    def api(self, path: str, method: str = "GET", body: Any = None, **headers: str) -> Answer:
        """A call as the page makes it."""
        return self(method, path, body, **{"X_Tieline_Console": "1", **headers})

    def session(self) -> Any:
        """What the page is told of its session."""
        answer = self("GET", "/console/session")
        assert answer.status == 200, answer.raw
        return answer.json

    def _keep(self, headers: list[str]) -> None:
        self.set_cookies = headers
        for header in headers:
            pair, *attributes = header.split("; ")
            name, _, value = pair.partition("=")
            if "Max-Age=0" in attributes:
                self.cookies.pop(name, None)
            else:
                self.cookies[name] = value


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Answers are looked at, not followed."""


_OPENER = urllib.request.build_opener(_NoRedirects(), urllib.request.ProxyHandler({}))


@pytest.fixture(scope="session")
def console_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a console that does nothing."""
    folder = tmp_path_factory.mktemp("console")
    (folder / "assets").mkdir()
    (folder / "index.html").write_text(
        '<!doctype html><meta charset="utf-8"><title>Console</title><h1>Console</h1>'
        '<script src="/console/assets/page-1a2b.js"></script>'
    )
    (folder / "assets" / "page-1a2b.js").write_text('document.title = "Console runs";')
    return folder


@pytest.fixture(scope="session")
def org(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """The organisation of the tests here."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="session")
def keys_namespace(kubectl: Kubectl) -> Iterator[str]:
    """Where the replicas share the keys of sessions."""
    name = "console-keys-of-a-test"
    kubectl("create", "namespace", name, check=False)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture(scope="session")
def replicas(
    api_kubeconfig: Path, console_folder: Path, keys_namespace: str
) -> Iterator[tuple[Server, Server]]:
    """Two replicas."""
    settings = {
        "console_folder": console_folder,
        "console_keys_namespace": keys_namespace,
        "public_api_url": "",
    }
    with Server(api_kubeconfig, **settings) as one, Server(api_kubeconfig, **settings) as two:
        yield one, two


@pytest.fixture
def visitor(replicas: tuple[Server, Server]) -> Visitor:
    """A browser at the first replica."""
    return Visitor(replicas[0].url)


@pytest.fixture(scope="session")
def token_of(org: Organisation, token_for: Callable[..., str]) -> Callable[[str], str]:
    """A token of a ServiceAccount with a role: viewer, editor or admin."""
    return lambda role: token_for(org.namespace, role, f"tieline-{role}")


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A real one."""
    async with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def start_api(
    api_kubeconfig: Path, console_folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., RunningApi]]:
    """Starts an API as a process with these variables."""
    running: list[RunningApi] = []

    def start(**variables: str) -> RunningApi:
        made = RunningApi(
            kubeconfig=api_kubeconfig,
            log=tmp_path_factory.mktemp("console-api") / "log",
            variables={"TIELINE_CONSOLE_FOLDER": str(console_folder), **variables},
        )
        made.start()
        running.append(made)
        return made

    yield start
    for one in running:
        one.stop()
