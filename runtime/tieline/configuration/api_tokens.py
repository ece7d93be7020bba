"""Access tokens in the place of ones that were answered with 401: the platform refreshes, this pod asks.

What the platform refreshes by itself comes with the configuration. This is for tokens that end before anybody
knows: revoked ones, and those whose provider does not say how long they hold. A token whose end has come is not sent.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import aiohttp

from tieline.configuration.pod_api import UNREACHABLE, ApiAnswer, PodApi
from tieline.configuration.snapshot import Connection, Credential
from tieline_common.bounded_dict import BoundedDict
from tieline_common.single_flight import SingleFlight

logger = logging.getLogger("tieline.configuration")

PATH = "/internal/v1/connections"
# A token request may take 20 seconds, and another process may be making it already.
_TIMEOUT = aiohttp.ClientTimeout(total=40, connect=5)
# A token that could not be replaced is not asked about again for this long: some systems answer 401 for what
# no token can open.
_PAUSE = 30.0
_REMEMBERED = 1000
# What an answer of the API replaces of a credential's data.
_OF_THE_TOKEN = frozenset({"accessToken", "tokenType", "expiresAt", "scopes"})


class Key(NamedTuple):
    """What another access token is asked for."""

    base_url: str
    """Where it is to be sent. With another base URL, the connection may be to another tenant of the provider."""
    credential_id: str
    rejected: str
    """The access token that was rejected; empty where there is none."""


class AccessTokens(Protocol):
    """Where other tokens come from."""

    def newest(self, connection: Connection) -> Connection:
        """The connection with the tokens that are known to be newer than its own."""

    async def ready(self, connection: Connection) -> Connection:
        """The same, after tokens that are not there yet were obtained, where that is done here."""

    async def instead_of(self, connection: Connection) -> Connection | None:
        """The connection with other tokens than these, which were rejected; None where there are none."""


@dataclass
class ApiAccessTokens:
    """Asks the API, once for all runs that want the same token replaced."""

    api: PodApi
    learn: Callable[[Iterable[str]], None]
    """Told each new token before anybody uses it, so that it never shows in a log."""
    now: Callable[[], float]
    _newer: BoundedDict[Key, Mapping[str, Any]] = field(default_factory=lambda: BoundedDict(_REMEMBERED))
    _requests: SingleFlight[Key, None] = field(default_factory=SingleFlight)
    _pauses: BoundedDict[Key, float] = field(default_factory=lambda: BoundedDict(_REMEMBERED))

    def newest(self, connection: Connection) -> Connection:
        """See AccessTokens."""
        if not self._newer:
            return connection
        found = tuple(self._with_newer(connection, credential) for credential in connection.credentials)
        return connection if found == connection.credentials else replace(connection, credentials=found)

    async def ready(self, connection: Connection) -> Connection:
        """See AccessTokens. The platform obtains them before it hands out the connection, except for those that have
        ended."""
        found = self.newest(connection)
        keys = [key for one in found.credentials if (key := _rejected(found, one)) and _has_ended(one)]
        for key in keys:
            await self._replace(connection.id, key)
        return self.newest(found) if keys else found

    async def instead_of(self, connection: Connection) -> Connection | None:
        """See AccessTokens."""
        for credential in connection.credentials:
            if key := _rejected(connection, credential):
                await self._replace(connection.id, key)
        found = self.newest(connection)
        return None if found is connection else found

    def _with_newer(self, connection: Connection, credential: Credential) -> Credential:
        key = _rejected(connection, credential)
        newer = self._newer.get(key) if key else None
        if newer is None:
            return credential
        return with_token(credential, newer)

    async def _replace(self, connection_id: str, key: Key) -> None:
        if key not in self._newer and self._pauses.get(key, 0.0) <= self.now():
            await self._requests.run(key, lambda: self._request(connection_id, key))

    async def _request(self, connection_id: str, key: Key) -> None:
        try:
            data = await self._get(connection_id, key)
        except (*UNREACHABLE, ValueError) as error:
            logger.warning(
                "Could not ask the API for another access token: %s", error or type(error).__name__
            )
            data = None
        if data is None or data.get("accessToken") in (None, key.rejected):
            self._pauses[key] = self.now() + _PAUSE
            return
        self.learn([str(data["accessToken"])])
        self._newer[key] = data

    async def _get(self, connection_id: str, key: Key) -> dict[str, Any] | None:
        parts = (quote(connection_id, safe=""), "credentials", quote(key.credential_id, safe=""), "token")
        path = f"{PATH}/{'/'.join(parts)}"
        body = {"rejected": key.rejected, "baseUrl": key.base_url}
        answer = await self.api.request("POST", path, body=body, limits=_TIMEOUT)
        if answer.status == 200:
            return answer.json()
        extra = {"credential": key.credential_id, "status": answer.status}
        logger.warning("There is no other access token: %s", _message(answer), extra=extra)
        return None


def with_token(credential: Credential, token: Mapping[str, Any]) -> Credential:
    """The credential with another token. What it has beside the token, such as variables of headers, stays."""
    others = {name: value for name, value in credential.data.items() if name not in _OF_THE_TOKEN}
    return replace(credential, data={**others, **token})


def _rejected(connection: Connection, credential: Credential) -> Key | None:
    """What is to be replaced of a credential, if it is one that tokens are obtained for."""
    if credential.scheme != "oauth2":
        return None
    token = credential.data.get("accessToken")
    if token is None and credential.data.get("expiresAt"):
        token = ""  # the platform hands out none that has ended
    return Key(connection.base_url, credential.id, token) if isinstance(token, str) else None


def _has_ended(credential: Credential) -> bool:
    if "accessToken" not in credential.data and credential.data.get("expiresAt"):
        return True  # by the clock of the API, which may be ahead of this one
    try:
        end = datetime.fromisoformat(str(credential.data["expiresAt"]))
    except (KeyError, ValueError):
        return False
    return end.tzinfo is not None and end <= datetime.now(UTC)


def _message(answer: ApiAnswer) -> str:
    try:
        return str(answer.json()["message"])
    except (ValueError, KeyError):
        return "the API gave no reason"
