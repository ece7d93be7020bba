"""A nats-server for a module, with two environments' streams."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.processes.nats_server import NatsServer, running_nats_server


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """The server."""
    with running_nats_server(tmp_path_factory.mktemp("engine")) as server:
        yield server
