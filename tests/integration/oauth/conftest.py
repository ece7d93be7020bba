"""A real Keycloak for the session, on its way before it is needed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.keycloak import Keycloak
from tests.harness.progress import Uncaptured

_STARTED = pytest.StashKey[Keycloak]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Starts it while other tests run: it needs half a minute when new, and minutes to install."""
    if session.config.option.collectonly:
        return
    if any("keycloak" in getattr(item, "fixturenames", ()) for item in session.items):
        factory: pytest.TempPathFactory = session.config._tmp_path_factory  # type: ignore[attr-defined]
        session.config.stash[_STARTED] = started = Keycloak(factory.mktemp("keycloak"))
        started.start()
        session.config.add_cleanup(started.stop)


@pytest.fixture(scope="session")
def keycloak(request: pytest.FixtureRequest) -> Iterator[Keycloak]:
    """The session's OAuth server; tests register clients and people of their own."""
    found: Keycloak = request.config.stash[_STARTED]
    capture = request.config.pluginmanager.getplugin("capturemanager")
    with Uncaptured(capture).step("Waiting for Keycloak"):
        found.wait()
    yield found
    found.stop()
