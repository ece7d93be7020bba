"""Users' activations: looked up when a run needs one, so that their number costs a pod nothing."""

import asyncio
import json
import logging
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import aiohttp
from yarl import URL

from tieline.configuration import change_log
from tieline.configuration.api_headers import api_headers
from tieline.configuration.current import Configuration
from tieline.configuration.snapshot import Activation, parse_activation
from tieline.errors import ConfigurationError, reason

logger = logging.getLogger("tieline.configuration")

LIST_PATH = "/internal/v1/environment/users"
PATH = f"{LIST_PATH}/"
PAGE = 100
"""Users whose activations are listed at once."""
_TIMEOUT = aiohttp.ClientTimeout(total=5, connect=2)
# A change of a user's variables or connections is seen within this time.
_FRESH = 2.0
# While the API is away, it is asked again this often; until then what is known is used at once.
_PAUSE = 2.0
_REMEMBERED = 1000


class UsersUnavailableError(Exception):
    """The API cannot be asked about a user that this pod knows nothing of."""


class Users(Protocol):
    """Where users' activations come from."""

    async def find(self, external_id: str) -> Activation | None:
        """The activation of the user with this external id, or None; raises UsersUnavailableError."""

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """The external ids of users with an activation, from a cursor on (empty: from the beginning).

        With the cursor of the next page; None after the last one. Raises UsersUnavailableError.
        """


class ConfiguredUsers:
    """Activations that came with the configuration."""

    def __init__(self, configuration: Configuration) -> None:
        self._configuration = configuration

    async def find(self, external_id: str) -> Activation | None:
        """See Users."""
        return self._configuration.current.users.get(external_id)

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """See Users."""
        names = sorted(name for name in self._configuration.current.users if not after or name > after)
        return names[:PAGE], names[PAGE - 1] if len(names) > PAGE else None


@dataclass
class _Known:
    """What the API said of a user, and when."""

    activation: Activation | None
    etag: str | None
    asked: float


@dataclass
class ApiUsers:
    """Asks the API for activations, and keeps those that were used last.

    What is kept is used for two seconds, then asked for again (by ETag). While the API is away, runs go
    on with what is kept. Runs that want the same user at once share one request.
    """

    client: aiohttp.ClientSession
    api_url: str
    token_file: Path
    now: Callable[[], float]
    _known: OrderedDict[str, _Known] = field(default_factory=OrderedDict)
    _asking: dict[str, "asyncio.Task[None]"] = field(default_factory=dict)
    _away_until: float = 0.0

    async def find(self, external_id: str) -> Activation | None:
        """See Users."""
        known = self._known.get(external_id)
        if known is None or self._is_old(known):
            await self._refresh(external_id, known)
            known = self._known.get(external_id)
        if known is None:
            raise UsersUnavailableError
        self._known.move_to_end(external_id)
        return known.activation

    async def page(self, after: str) -> tuple[list[str], str | None]:
        """See Users."""
        url = URL(f"{self.api_url}{LIST_PATH}").with_query(limit=str(PAGE), after=after)
        try:
            async with self.client.get(
                url, headers=self._headers(), timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                if response.status != 200:
                    raise ConfigurationError(f"it answered {response.status}")
                body = json.loads(await response.read())
                return [str(name) for name in body["externalIds"]], body.get("next")
        except (
            aiohttp.ClientError,
            TimeoutError,
            OSError,
            KeyError,
            TypeError,
            ValueError,
            ConfigurationError,
        ) as error:
            logger.warning("Could not ask the API for the users: %s", reason(error))
            raise UsersUnavailableError from error

    def _headers(self) -> dict[str, str]:
        return api_headers(self.token_file)

    def _is_old(self, known: _Known) -> bool:
        now = self.now()
        return now - known.asked >= _FRESH and now >= self._away_until

    async def _refresh(self, external_id: str, known: _Known | None) -> None:
        task = self._asking.get(external_id)
        if task is None:
            task = asyncio.create_task(self._ask(external_id, known))
            self._asking[external_id] = task
            task.add_done_callback(lambda _: self._asking.pop(external_id, None))
        # The others' request goes on when this run is cancelled.
        await asyncio.shield(task)

    async def _ask(self, external_id: str, known: _Known | None) -> None:
        asked = self.now()
        try:
            status, etag, body = await self._get(external_id, known.etag if known else None)
            if status == 304 and known is not None:
                known.asked = asked
                return
            if status not in {200, 404}:
                raise ConfigurationError(f"it answered {status}")
            found = parse_activation(json.loads(body)) if status == 200 else None
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, ConfigurationError) as error:
            if asked >= self._away_until:
                logger.warning("Could not ask the API for a user's activation: %s", reason(error))
            self._away_until = self.now() + _PAUSE
            return
        self._known[external_id] = _Known(found, etag, asked)
        change_log.tell(_changes_of(known.activation if known else None), _changes_of(found))
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    async def _get(self, external_id: str, etag: str | None) -> tuple[int, str | None, bytes]:
        headers = self._headers()
        if etag:
            headers["If-None-Match"] = etag
        url = f"{self.api_url}{PATH}{quote(external_id, safe='')}"
        # No redirects: the token is for this address alone.
        async with self.client.get(
            URL(url, encoded=True), headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as response:
            return response.status, response.headers.get("ETag"), await response.read()


def _changes_of(activation: Activation | None) -> Mapping[str, str]:
    return activation.changes if activation else {}
