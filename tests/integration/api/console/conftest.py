"""People at the console's pages in a real Chromium, against a real API on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.console.built import built_console
from tests.harness.console.chromium import SIZE, chromium, open_context
from tests.harness.console.watching import watch
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tieline_protocol.egress import Egress


@pytest.fixture(scope="session")
def server(
    api_kubeconfig: Path, engine: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The API with the built pages."""
    folder = tmp_path_factory.mktemp("console")
    settings = {
        "console_folder": built_console(),
        "traces_file": str(folder / "traces.db"),
        "egress": Egress.parse(allowed=["127.0.0.0/8"]),
    }
    with Server(api_kubeconfig, **settings, **of_engine(engine, folder)) as started:
        yield started


@pytest.fixture(scope="module")
def acme(kubectl: Kubectl, crds_installed: None) -> Iterator[Organisation]:
    """The organisation that a module's people work in."""
    with an_organisation(kubectl) as made:
        yield made


@pytest.fixture(scope="module")
def admin(server: Server, acme: Organisation, token_for: Callable[..., str]) -> Client:
    made = Client(server.url, token_for(acme.namespace, "admin", "tieline-admin"), acme.id)
    made.until_known()
    return made


@pytest.fixture(scope="module")
def viewer(server: Server, acme: Organisation, token_for: Callable[..., str]) -> Client:
    made = Client(server.url, token_for(acme.namespace, "viewer", "tieline-viewer"), acme.id)
    made.until_known()
    return made


@pytest.fixture(scope="module")
def scene(admin: Client, kubectl: Kubectl, acme: Organisation, engine: NatsServer, server: Server) -> Scene:
    return Scene(admin, kubectl, acme, engine, server)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture
def person(browser: Browser, server: Server, acme: Organisation) -> Iterator[Callable[..., Person]]:
    """Somebody who has signed in with a client's token. What their browser refuses or throws fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def sign_in(client: Client, **options: str) -> Person:
        context = open_context(browser, viewport=SIZE, timezone_id="Europe/Berlin", locale="en-GB")
        contexts.append(context)
        watch(context, complaints, allowed=("http://127.0.0.1:",))
        page = context.new_page()
        someone = Person(page, server.url, acme.namespace)
        someone.sign_in(str(client.token), **options)
        return someone

    yield sign_in
    for context in contexts:
        context.close()
    assert complaints == []
