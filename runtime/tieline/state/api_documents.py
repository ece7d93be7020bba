"""Documents that the API keeps for the pod's environment; asked for with the pod's own token."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, PodApi
from tieline.state.documents import (
    AnyVersion,
    Document,
    DocumentChangedError,
    DocumentScope,
    Expected,
    StateRefusedError,
    StateUnavailableError,
)

_PATH = "/internal/v1/environment"
_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=3)
_PAUSES = (0.2, 1.0)
"""Before the second and the third try."""
_TRANSIENT = frozenset({429, 500, 502, 503, 504})
_REFUSED = frozenset({400, 403, 404, 413, 422})


@dataclass(frozen=True)
class ApiDocuments:
    """See Documents. What is safe to repeat is tried three times."""

    api: PodApi

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """See Documents."""
        status, body = await self._send("GET", shelf, key, repeat=True)
        if status == 404 and body.get("code") == "no_value":
            return None
        _refuse(status, body)
        expires = body.get("expiresAt")
        return Document(
            value=body.get("value"),
            version=str(body.get("version")),
            expires_at=datetime.fromisoformat(expires) if isinstance(expires, str) else None,
        )

    async def put(
        self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected, expires: float | None = None
    ) -> str:
        """See Documents."""
        asked: dict[str, Any] = {"value": value}
        if expires is not None:
            asked["expires"] = expires
        if not isinstance(expected, AnyVersion):
            asked["version"] = expected
        status, body = await self._send("PUT", shelf, key, asked, repeat="version" not in asked)
        _refuse(status, body)
        return str(body.get("version"))

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """See Documents."""
        asked: dict[str, Any] = {} if isinstance(expected, AnyVersion) else {"version": expected}
        status, body = await self._send("DELETE", shelf, key, asked, repeat=not asked)
        _refuse(status, body)

    async def keys(self, shelf: DocumentScope, prefix: str) -> list[str]:
        """See Documents."""
        status, body = await self._send(
            "GET", shelf, None, query=f"?prefix={quote(prefix, safe='')}", repeat=True
        )
        _refuse(status, body)
        return [str(key) for key in body.get("keys") or ()]

    async def _send(
        self,
        method: str,
        shelf: DocumentScope,
        key: str | None,
        body: Mapping[str, Any] | None = None,
        *,
        repeat: bool,
        query: str = "",
    ) -> tuple[int, dict[str, Any]]:
        """Status and body of the answer; StateUnavailableError when there is none that counts.

        With an expected version a second try could only find that the first one had done it.
        """
        path = f"{_PATH}{_path(shelf, key)}{query}"
        for pause in (*(_PAUSES if repeat else ()), None):
            try:
                answer = await self.api.request(method, path, body=body, limits=_TIMEOUT)
                if answer.status not in _TRANSIENT:
                    return answer.status, answer.json()
                reason = f"the API answered {answer.status}"
            except (*UNREACHABLE, ValueError) as error:
                reason = str(error) or type(error).__name__
            if pause is not None:
                await asyncio.sleep(pause)
        raise StateUnavailableError(f"What is kept between runs cannot be reached: {reason}; try again later")


def _path(shelf: DocumentScope, key: str | None) -> str:
    user = f"/users/{quote(shelf.external_id, safe='')}" if shelf.external_id is not None else ""
    last = "" if key is None else f"/{quote(key, safe='')}"
    return f"{user}/{shelf.kind}{last}"


def _refuse(status: int, body: Mapping[str, Any]) -> None:
    if status == 409:
        raise DocumentChangedError
    if status in _REFUSED:
        raise StateRefusedError(str(body.get("message") or f"The API answered {status}"))
    if not 200 <= status < 300:
        raise StateUnavailableError(f"What is kept between runs cannot be reached: the API answered {status}")
