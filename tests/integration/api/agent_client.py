"""The protocol's own client, with the token of a client of REST."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client as Agent
from mcp.client.streamable_http import streamable_http_client

from tests.integration.api.conftest import Client


@asynccontextmanager
async def agent(client: Client) -> AsyncIterator[Agent]:
    """The protocol's client with the token of ``client``."""
    url = f"{client.url}/api/v2/o/{client.organisation}/mcp"
    headers = {"Authorization": f"Bearer {client.token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Agent(streamable_http_client(url, http_client=http)) as made,
    ):
        yield made


async def call(client: Client, tool: str, **given: Any) -> tuple[bool, Any]:
    """Whether the tool failed, and what it said."""
    async with agent(client) as made:
        result = await made.call_tool(tool, given)
    (content,) = result.content
    text = content.text  # type: ignore[union-attr]
    return result.is_error, json.loads(text) if text.startswith("{") else text
