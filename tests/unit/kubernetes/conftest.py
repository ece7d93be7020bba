"""A fake API server, a client of it, and time that passes quickly."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.kubernetes.fake_api_server import FakeApiServer
from tieline_core.kubernetes import Kube, informer, transport


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Backoffs of milliseconds."""
    monkeypatch.setattr(transport, "_FIRST_PAUSE", 0.002)
    monkeypatch.setattr(informer, "_FIRST_BACKOFF", 0.005)
    monkeypatch.setattr(informer, "_LONGEST_BACKOFF", 0.05)


@pytest.fixture
async def server() -> AsyncIterator[FakeApiServer]:
    async with FakeApiServer.running() as running:
        yield running


@pytest.fixture
async def kube(server: FakeApiServer) -> AsyncIterator[Kube]:
    async with server.client() as client:
        yield client
