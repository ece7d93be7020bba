"""Whether an authorisation by OAuth 2.0 uses PKCE (RFC 7636): the auth scheme that it is for decides."""

from collections.abc import Iterable, Sequence

from tieline_api import errors
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.systems import auth_scheme_items
from tieline_api.oauth.authorization_request import HeldCredential
from tieline_api.schemas.authorisations import OAuth2Initialise
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import client_credential_id, object_id
from tieline_core.objects import ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth2GrantType

_ID, _GIVEN = "authSchemeConfigId", "authSchemeConfig"


def requires_pkce(system: ObjectView, held: Sequence[HeldCredential], body: OAuth2Initialise) -> bool:
    """Whether the URL carries a PKCE challenge. ``held``: the connections' credentials that the request may be for.

    The exchange refuses a code that was obtained without PKCE where the scheme demands it. So every scheme that
    the credential may turn out to have is asked, and where none is known PKCE is used: a provider that does not
    know it ignores the parameters (RFC 6749, section 3.1). ApiError 422 for a scheme that is none.
    """
    own = _with_codes(found for one in held if (found := scheme_item(one.item, system)))
    if body.auth_scheme_config is not None:
        # A scheme that the request brings cannot undo what a stored one demands.
        return _given(body) or any(map(_demands, own))
    candidates = _named(system, own, body) if body.auth_scheme_config_id else own or _agreeing(system, body)
    return any(map(_demands, candidates)) if candidates else True


def _given(body: OAuth2Initialise) -> bool:
    """What the scheme in the request demands."""
    given = body.auth_scheme_config
    if given is None or given.oauth2 is None:
        raise errors.invalid(f"{_GIVEN}.type", "must be oauth2 here")
    if body.auth_scheme_config_id not in (None, given.id):
        raise errors.invalid(_ID, f"contradicts {_GIVEN}: give one of the two")
    return bool(given.oauth2.pkce)


def _named(system: ObjectView, own: Sequence[ObjectView], body: OAuth2Initialise) -> list[ObjectView]:
    """The schemes with the id that the request names."""
    known = [*_with_codes(auth_scheme_items(system)), *own]
    found = [item for item in known if item["id"] == body.auth_scheme_config_id]
    if not found:
        raise errors.invalid(
            _ID,
            "names no oauth2 auth scheme with the grant authorizationCode of the system or the credential: "
            f"correct it, or send the one of a connection that is still to be made as {_GIVEN}",
        )
    return found


def _demands(item: ObjectView) -> bool:
    return bool(item["oauth2"].get("pkce"))


def _agreeing(system: ObjectView, body: OAuth2Initialise) -> list[ObjectView]:
    """The system's schemes that agree most with the request: the credential first, then the client, then the URL."""
    wanted = canonical(body.credential.id)

    def agreement(item: ObjectView) -> tuple[bool, bool, bool]:
        client = item["oauth2"]["grant"].get("authorizationCode") or {}
        named = client.get("credentialId") or client_credential_id(object_id(system), item["id"])
        return (
            canonical(named) == wanted,
            client.get("clientId") == body.client_id,
            item["oauth2"].get("authorizeUrl") == body.authorize_url,
        )

    schemes = _with_codes(auth_scheme_items(system))
    best = max(map(agreement, schemes), default=None)
    return [item for item in schemes if agreement(item) == best]


def _with_codes(items: Iterable[ObjectView]) -> list[ObjectView]:
    """Those whose grant is the authorisation code."""
    return [
        item
        for item in items
        if item["type"] == AuthSchemeType.OAUTH2
        and (item.get("oauth2") or {}).get("grant", {}).get("type") == OAuth2GrantType.AUTHORIZATION_CODE
    ]
