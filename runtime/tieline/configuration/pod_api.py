"""Requests of a pod to the API's internal endpoints, with its own token."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from tieline.telemetry.logs import current_execution
from tieline_common.authorities import Trust

UNREACHABLE = (aiohttp.ClientError, TimeoutError, OSError)
"""What ``PodApi.request`` raises where there is no answer."""


@dataclass(frozen=True)
class ApiAnswer:
    """An answer of the API, whatever its status."""

    status: int
    etag: str | None
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body, an object; {} without a body. Raises ValueError."""
        found = json.loads(self.body) if self.body else {}
        if not isinstance(found, dict):
            raise ValueError("the API's answer is no object")
        return found


@dataclass(frozen=True)
class PodApi:
    """Asks the API at ``url`` with the token in ``token_file``, which the kubelet replaces before it expires."""

    client: aiohttp.ClientSession
    url: str
    token_file: Path
    trust: Trust | None = None
    """How the API is verified at an ``https`` URL; by default the system's authorities are trusted."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content: bytes | None = None,
        etag: str | None = None,
    ) -> ApiAnswer:
        """The answer; one of UNREACHABLE where there is none. ``path`` is encoded, ``etag`` a version known already.

        ``content`` is a body that is JSON already, in the place of ``body``.

        Redirects are not followed: the token is for this address alone. The API writes the id of the run that asks
        into its own log.
        """
        headers = {"Authorization": f"Bearer {self.token_file.read_text().strip()}"}
        if execution := current_execution.get():
            headers["X-Request-Id"] = execution
        if etag:
            headers["If-None-Match"] = etag
        if content is not None:
            headers["Content-Type"] = "application/json"
        url = URL(f"{self.url}{path}", encoded=True)
        async with self.client.request(
            method,
            url.with_query(query) if query else url,
            json=body,
            data=content,
            headers=headers,
            timeout=limits,
            allow_redirects=False,
            ssl=self.trust() if self.trust is not None else True,
        ) as response:
            return ApiAnswer(response.status, response.headers.get("ETag"), await response.read())
