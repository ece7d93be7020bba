"""Where clients of the endpoint sign in: protected resource metadata (RFC 9728), as the protocol's authorisation asks.

It names the configured issuers. Clients find it at the well-known path, or by ``resource_metadata`` of a 401.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from urllib.parse import quote

import orjson
from aiohttp import web

from tieline_api import errors
from tieline_api.auth.issuers import Issuer
from tieline_api.http.operation import ORGANISATION
from tieline_api.http.request_keys import OPERATION
from tieline_core.identity.ids import parse_id

WELL_KNOWN = "/.well-known/oauth-protected-resource"
PATH = f"{ORGANISATION}/mcp"
_PLACEHOLDER = ORGANISATION.rpartition("/")[2].strip("{}")


def metadata(resource: str, issuers: Iterable[Issuer], organisation: str) -> dict[str, Any] | None:
    """The metadata of a resource; None where there is no issuer that people can sign in at for the organisation."""
    found = [issuer for issuer in issuers if _signs_in(issuer, organisation)]
    if not found:
        return None
    scopes = list(dict.fromkeys(scope for issuer in found for scope in issuer.scopes))
    return {
        "resource": resource,
        "resource_name": "Tieline",
        "authorization_servers": [issuer.issuer for issuer in found],
        "bearer_methods_supported": ["header"],
        **({"scopes_supported": scopes} if scopes else {}),
    }


def challenge(error: errors.ApiError, base_url: str, path: str) -> errors.ApiError:
    """A 401 that says where the metadata is; any other error as it is. ``path`` is decoded, and anybody's."""
    given = error.headers.get("WWW-Authenticate")
    if error.status == 401 and given and base_url:
        url = base_url + WELL_KNOWN + quote(path, errors="surrogatepass")
        error.headers["WWW-Authenticate"] = f'{given}, resource_metadata="{url}"'
    return error


def _signs_in(issuer: Issuer, organisation: str) -> bool:
    if not issuer.sign_in or not issuer.issuer.startswith(("https://", "http://")):
        return False
    return issuer.organisations is None or organisation in issuer.organisations


def add_metadata(app: web.Application, issuers: Callable[[], Iterable[Issuer]], base_url: str) -> None:
    """Adds the route. It needs no credentials: clients ask before they have any."""
    app.router.add_get(f"{WELL_KNOWN}{PATH}", _handler(issuers, base_url))


def _handler(
    issuers: Callable[[], Iterable[Issuer]], base_url: str
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        request[OPERATION] = "mcpSignIn"
        organisation = parse_id(request.match_info[_PLACEHOLDER])
        resource = f"{base_url}{request.path.removeprefix(WELL_KNOWN)}"
        found = metadata(resource, issuers(), organisation) if organisation and base_url else None
        if found is None:
            raise errors.ApiError(
                404, "not_found", "There is no issuer to sign in at: send an API key or a token that you have"
            )
        return web.Response(body=orjson.dumps(found), content_type="application/json")

    return handle
