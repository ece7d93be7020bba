"""Fixtures of the resources' tests."""

from __future__ import annotations

import pytest

from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client
from tests.integration.api.resources.deployed_runs import Deployed, deploy


@pytest.fixture
def deployed(client: Client, engine: NatsServer) -> Deployed:
    return deploy(client, engine)
