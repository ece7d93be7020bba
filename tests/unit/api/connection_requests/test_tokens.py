"""Access tokens for requests of the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tieline.configuration.snapshot import Connection, Credential
from tieline_api.connection_requests.tokens import PlatformTokens


async def test_another_token_leaves_what_headers_are_filled_with() -> None:
    data = {"accessToken": "old", "expiresAt": "2020-01-01T00:00:00Z", "variables": {"tenantId": "t1"}}
    credential = Credential(id="c", type="oauth2-token", scheme="oauth2", options={}, data=data)
    connection = Connection(
        template="xero", id="1", name="Xero", base_url="https://api.example", credentials=(credential,)
    )

    async def fresh(_credential: str, _rejected: str) -> Mapping[str, Any]:
        return {"accessToken": "new", "tokenType": "Bearer", "scopes": []}

    (found,) = (await PlatformTokens(fresh).ready(connection)).credentials
    assert found.data == {
        "accessToken": "new",
        "tokenType": "Bearer",
        "scopes": [],
        "variables": {"tenantId": "t1"},
    }
