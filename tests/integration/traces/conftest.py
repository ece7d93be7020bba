"""The REST API on the session's cluster, with a store of traces of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.harness.kubectl import Organisation
from tests.integration.api.conftest import (
    Client,
    Server,
    api_kubeconfig,
    org,
    token_for,
)

__all__ = ["api_kubeconfig", "client", "org", "server", "token_for"]


@pytest.fixture(scope="session")
def server(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    started = Server(api_kubeconfig, traces_file=str(tmp_path_factory.mktemp("traces") / "traces.db"))
    started.start()
    yield started
    started.stop()


@pytest.fixture(scope="session")
def client(server: Server, org: Organisation, token_for: Callable[..., str]) -> Client:
    return Client(server.url, token_for(org.namespace, "tracer", "tieline-admin"), org.id)
