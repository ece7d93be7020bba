"""Fixtures of the runtime's tests: external systems, and contexts that lead to them."""

from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.unit.runtime.external_systems import ContextFor, External, configured, context
from tieline.http_client.session import new_client


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
