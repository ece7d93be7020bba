"""Fixtures of the runtime's tests: external systems, contexts that lead to them, and projects."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest

from tests.unit.runtime.external_systems import ContextFor, External, configured, context
from tieline.http_client.session import new_client
from tieline.testing import Project


@pytest.fixture
async def external() -> AsyncIterator[External]:
    system = External()
    await system.start()
    yield system
    await system.server.close()


@pytest.fixture
async def elsewhere() -> AsyncIterator[External]:
    system = External()
    await system.start()
    yield system
    await system.server.close()


@pytest.fixture
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    async with new_client() as session:
        yield session


@pytest.fixture
def context_for(client: aiohttp.ClientSession) -> ContextFor:
    return lambda body: context(client, configured(body))


@pytest.fixture
def load_project(tmp_path: Path) -> Iterator[Callable[[str, str], Project]]:
    """Loads a project of a main.py and a connections.yaml, until the test ends."""
    with ExitStack() as stack:

        def load(code: str, connections: str) -> Project:
            (tmp_path / "main.py").write_text(code)
            (tmp_path / "connections.yaml").write_text(connections)
            return stack.enter_context(Project(tmp_path))

        yield load
