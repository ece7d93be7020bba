"""The auth scheme that an authorisation by OAuth 2.0 is for, as far as that is known before it begins."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, cast

from tieline_api import errors
from tieline_api.authorisation.authorization_request import CandidateCredential
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.systems import auth_scheme_items
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.authorisations import OAuth2Initialise
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import client_credential_id, object_id
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth2, OAuth2GrantType
from tieline_core.resources.objects import AuthSchemeConfigDict, SystemObject

_ID, _GIVEN = "authSchemeConfigId", "authSchemeConfig"


@dataclass(frozen=True, kw_only=True)
class PossibleSchemes:
    """The auth schemes that an authorisation may turn out to be for, as custom resources have them."""

    schemes: Sequence[AuthSchemeConfigDict]
    """The one that the request brings or names, or else those that it may be for; none where none is known."""
    requires_pkce: bool
    """Whether the URL carries a PKCE challenge (RFC 7636)."""
    for_tenant: AuthSchemeConfigDict | None
    """The one whose URLs decide about the tenant: that the request brings or names, or that has its authorise URL."""

    @classmethod
    def of(
        cls, system: SystemObject, candidates: Sequence[CandidateCredential], body: OAuth2Initialise
    ) -> Self:
        """``candidates``: the connections' credentials that the request may be for. ApiError 422 for a scheme that
        is none.

        The exchange refuses a code that was obtained without PKCE where the scheme demands it. So every scheme that
        the credential may turn out to have is asked, and where none is known PKCE is used: a provider that does not
        know it ignores the parameters (RFC 6749, section 3.1).
        """
        own = _with_codes(found for one in candidates if (found := scheme_item(one.item, system)))
        if body.auth_scheme_config is not None:
            given = _given(body.auth_scheme_config, body)
            # A scheme that the request brings cannot undo what a stored one demands.
            return cls(schemes=[given], requires_pkce=any(map(_demands, [given, *own])), for_tenant=given)
        if body.auth_scheme_config_id:
            schemes = _named(system, own, body)
            return cls(schemes=schemes, requires_pkce=any(map(_demands, schemes)), for_tenant=schemes[0])
        schemes = own or _agreeing(system, body)
        same_url = (one for one in schemes if one["oauth2"].get("authorizeUrl") == body.authorize_url)
        return cls(
            schemes=schemes,
            requires_pkce=any(map(_demands, schemes)) if schemes else True,
            for_tenant=next(same_url, None),
        )

    @property
    def in_use(self) -> OAuth2 | None:
        """The scheme whose dialect the URL speaks; None where the request may be for several, or for none."""
        first = self.schemes[0] if self.schemes else None
        if first is None or any(one["oauth2"] != first["oauth2"] for one in self.schemes):
            return None
        return OAuth2.model_validate(first["oauth2"])


def _given(config: AuthSchemeConfig, body: OAuth2Initialise) -> AuthSchemeConfigDict:
    """The scheme that the request brings."""
    if config.oauth2 is None:
        raise errors.invalid(f"{_GIVEN}.type", "must be oauth2 here")
    if body.auth_scheme_config_id not in (None, config.id):
        raise errors.invalid(_ID, f"contradicts {_GIVEN}: give one of the two")
    return cast("AuthSchemeConfigDict", auth_schemes.to_item(config))


def _named(
    system: SystemObject, own: Sequence[AuthSchemeConfigDict], body: OAuth2Initialise
) -> list[AuthSchemeConfigDict]:
    """The schemes with the id that the request names."""
    known = [*own, *_with_codes(auth_scheme_items(system))]
    found = [item for item in known if item["id"] == body.auth_scheme_config_id]
    if not found:
        raise errors.invalid(
            _ID,
            "names no oauth2 auth scheme with the grant authorizationCode of the system or the credential: "
            f"correct it, or send the one of a connection that is still to be made as {_GIVEN}",
        )
    return found


def _demands(item: AuthSchemeConfigDict) -> bool:
    return bool(item["oauth2"].get("pkce"))


def _agreeing(system: SystemObject, body: OAuth2Initialise) -> list[AuthSchemeConfigDict]:
    """The system's schemes that agree most with the request: the credential first, then the client, then the URL."""
    wanted = canonical(body.credential.id)

    def agreement(item: AuthSchemeConfigDict) -> tuple[bool, bool, bool]:
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


def _with_codes(items: Iterable[AuthSchemeConfigDict]) -> list[AuthSchemeConfigDict]:
    """Those whose grant is the authorisation code."""
    return [
        item
        for item in items
        if item["type"] == AuthSchemeType.OAUTH2.value
        and item.get("oauth2", {}).get("grant", {}).get("type") == OAuth2GrantType.AUTHORIZATION_CODE.value
    ]
