"""What the beginnings of authorisations share: where users come back to, and for which connection."""

from collections.abc import Collection, Mapping
from typing import Any

from tieline_api import errors
from tieline_api.auth.permissions import Permission
from tieline_api.engine.operation import Call
from tieline_api.oauth.callback_path import CALLBACK
from tieline_api.settings import Settings
from tieline_core.ids import credential_id, object_id
from tieline_core.oauth.linking import canonical
from tieline_core.resources.connections import CredentialType

Obj = Mapping[str, Any]


def redirect_uri(settings: Settings, given: str | None) -> str:
    """Where the provider sends the user back to: our page, or a page of the application that is on the list."""
    ours = f"{settings.public_api_url}{CALLBACK}" if settings.public_api_url else ""
    if given and given != ours:
        if given not in settings.redirect_urls:
            raise errors.invalid(
                "redirectUrl", "is not on the list: ask the operators to add it to TIELINE_REDIRECT_URLS"
            )
        return given
    if not ours:
        raise errors.ApiError(
            503,
            "not_configured",
            "This API does not know the address that browsers reach it at: "
            "ask its operators to set TIELINE_PUBLIC_API_URL",
        )
    return ours


def holders(
    call: Call[Any, Any], system: Obj, credential: str, kinds: Collection[CredentialType]
) -> list[tuple[Obj, Obj]]:
    """The system's Connections with a credential of this id and one of these types, each with its item."""
    wanted = canonical(credential)
    return [
        (connection, item)
        for connection in call.platform.lookups.holders(call.namespace, wanted)
        if connection["spec"]["systemRef"]["name"] == system["metadata"]["name"]
        for item in connection["spec"].get("credentials") or ()
        if canonical(credential_id(object_id(connection), item)) == wanted and item["type"] in kinds
    ]


async def finishable(call: Call[Any, Any], found: list[tuple[Obj, Obj]]) -> tuple[str, str]:
    """The names of Connection and item, where there is one and the callback page may finish it for the caller."""
    if len(found) != 1 or not await call.platform.access.allowed(
        call.caller, call.namespace, Permission("patch", "connections")
    ):
        return "", ""
    connection, item = found[0]
    return connection["metadata"]["name"], item["id"]
