"""Clients of the REST API that never rest, and remember what was acknowledged."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import aiohttp

from tests.harness.clients.constant_load import Load
from tests.harness.cluster.deployed_platform import Rest

_API_KEY = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}
_UPDATES = 10
"""Each so many writes there is a new System."""


@dataclass
class RestLoad(Load):
    """Reads and writes Systems: by kept and by new connections, through whatever address ``rest`` has."""

    rest: Rest
    reading: int = 4
    connecting: int = 3
    writing: int = 2
    acknowledged: dict[str, str] = field(default_factory=dict)
    """What each System was called last, by its id."""

    def _callers(self) -> Iterable[Awaitable[None]]:
        yield from (self._caller(self._read, keep=True, headers=self._headers) for _ in range(self.reading))
        yield from (
            self._caller(self._read, keep=False, headers=self._headers) for _ in range(self.connecting)
        )
        yield from (self._writer(f"writer-{number}") for number in range(self.writing))

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.rest.token}"}

    @property
    def _systems(self) -> str:
        return f"{self.rest.url}/api/v2/o/{self.rest.organisation}/systems"

    async def _read(self, client: aiohttp.ClientSession) -> None:
        await self._call(client, "GET", self._systems, says="read")

    async def _writer(self, name: str) -> None:
        numbers = count()
        system: dict[str, Any] = {}

        async def write(client: aiohttp.ClientSession) -> None:
            number = next(numbers)
            # A lost answer leaves it open what the System is called: the next one begins anew.
            expected = system.pop("id", None) if number % _UPDATES else None
            body = {
                "name": f"{name} {number}",
                "domain": "shop.example",
                "templateBaseUrl": "https://shop.example",
                "authSchemeConfigs": [_API_KEY],
            }
            method, url = ("PUT", f"{self._systems}/{expected}") if expected else ("POST", self._systems)
            answer = await self._call(client, method, url, says=method, good=201, json=body)
            if answer is not None:
                system["id"] = json.loads(answer)["id"]
                self.acknowledged[system["id"]] = body["name"]

        await self._caller(write, keep=True, headers=self._headers)
