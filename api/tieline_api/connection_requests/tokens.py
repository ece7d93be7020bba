"""Access tokens for requests of the API: from the platform itself, where pods ask the API."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from tieline.configuration.api_tokens import with_token
from tieline.configuration.snapshot import Connection, Credential

FreshToken = Callable[[str, str], Awaitable[Mapping[str, Any] | None]]
"""The data of an access token that is not the second argument, for a credential by its id; None where there is none."""


@dataclass(frozen=True)
class PlatformTokens:
    """See AccessTokens of the runtime."""

    fresh: FreshToken

    def newest(self, connection: Connection) -> Connection:
        """What the API has read is the newest."""
        return connection

    async def ready(self, connection: Connection) -> Connection:
        """The connection with tokens that hold now: those that are missing, or over, are asked for."""
        return (
            await self._with(connection, lambda credential: None if _holds(credential) else "") or connection
        )

    async def instead_of(self, connection: Connection) -> Connection | None:
        """The connection with other tokens than these; None where there are none."""
        return await self._with(connection, lambda credential: str(credential.data.get("accessToken") or ""))

    async def _with(
        self, connection: Connection, rejected: Callable[[Credential], str | None]
    ) -> Connection | None:
        found = [await self._other(credential, rejected(credential)) for credential in connection.credentials]
        if all(one is None for one in found):
            return None
        pairs = zip(found, connection.credentials, strict=True)
        return replace(connection, credentials=tuple(one or before for one, before in pairs))

    async def _other(self, credential: Credential, rejected: str | None) -> Credential | None:
        if credential.scheme != "oauth2" or rejected is None:
            return None
        data = await self.fresh(credential.id, rejected)
        if data is None or data.get("accessToken") in (None, rejected):
            return None
        return with_token(credential, data)


def _holds(credential: Credential) -> bool:
    """Whether there is an access token that has not ended."""
    ends = credential.data.get("expiresAt")
    try:
        is_over = isinstance(ends, str) and datetime.fromisoformat(ends) <= datetime.now(UTC)
    except (ValueError, TypeError):
        is_over = False
    return bool(credential.data.get("accessToken")) and not is_over
