"""A token endpoint, a way to it, and keepers that use both."""

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.unit.oauth.oauth1_consumer import PUBLIC
from tests.unit.oauth.oauth1_provider import OAuth1Provider, signing_provider
from tests.unit.oauth.token_managers import token_manager
from tests.unit.oauth.token_shop import Provider, Shop
from tieline_core.credentials.token_manager import TokenManager
from tieline_protocol.egress import Egress
from tieline_protocol.oauth.token_client import TokenClient


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """The token endpoint, at two paths and at one for each tenant."""
    found, app = Provider(), web.Application()
    app.router.add_post("/token", found.token)
    app.router.add_post("/refresh", found.token)
    app.router.add_post("/tenants/{tenant}/token", found.token)
    async with TestServer(app) as server:
        found.url = str(server.make_url("/token"))
        yield found


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """One that may reach this machine."""
    async with aiohttp.ClientSession(connector=Egress.parse(allowed=["127.0.0.0/8"]).connector()) as opened:
        yield opened


@pytest.fixture
def token_manager_of(session: aiohttp.ClientSession) -> Any:
    """Makes a token_manager for a shop: one for each process of a test."""

    def make_token_manager(shop: Shop) -> TokenManager:
        return token_manager(shop, TokenClient(session, timeout=5, now=lambda: shop.now))

    return make_token_manager


@pytest.fixture
async def signing() -> AsyncIterator[OAuth1Provider]:
    """A provider of OAuth 1.0."""
    async with signing_provider(public=PUBLIC) as found:
        yield found


@pytest.fixture
def client(session: aiohttp.ClientSession) -> TokenClient:
    """What asks providers."""
    return TokenClient(session, timeout=5)
