"""People at the console's pages in a real Chromium, against a real API on a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.harness.cluster.kubectl import Kubectl, Organisation, an_organisation
from tests.harness.console.built import built_console
from tests.harness.identity.browser import PROGRAMS
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client, Server, of_engine
from tests.integration.api.console.person import Person
from tests.integration.api.console.scene import Scene
from tieline_cluster.image_build.debian_packages import install_missing
from tieline_cluster.progress import Progress

SIZE = {"width": 1360, "height": 860}
PATIENCE_MS = 20_000


@pytest.fixture(scope="session")
def server(
    api_kubeconfig: Path, engine: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """The API with the built pages."""
    folder = tmp_path_factory.mktemp("console")
    settings = {"console_folder": built_console(), "traces_file": str(folder / "traces.db")}
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
def chromium() -> Iterator[Browser]:
    install_missing(PROGRAMS, Progress())
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=options)
        yield browser
        browser.close()


@pytest.fixture
def person(chromium: Browser, server: Server, acme: Organisation) -> Iterator[Callable[[Client], Person]]:
    """Somebody who has signed in with a client's token. What their browser refuses or throws fails the test."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def sign_in(client: Client) -> Person:
        context = chromium.new_context(viewport=SIZE, timezone_id="Europe/Berlin", locale="en-GB")
        contexts.append(context)
        page = context.new_page()
        _listen(page, complaints)
        someone = Person(page, server.url, acme.namespace)
        someone.sign_in(str(client.token))
        return someone

    yield sign_in
    for context in contexts:
        context.close()
    assert complaints == []


def _listen(page: Page, complaints: list[str]) -> None:
    page.set_default_timeout(PATIENCE_MS)
    page.on("pageerror", lambda error: complaints.append(f"{page.url}: {error}"))
    page.on(
        "console",
        lambda message: (
            complaints.append(message.text) if "Content Security Policy" in message.text else None
        ),
    )
    page.on("dialog", lambda dialog: (complaints.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
