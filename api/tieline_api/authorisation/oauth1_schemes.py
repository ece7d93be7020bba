"""Which auth scheme an authorisation by OAuth 1.0 is for, and whose requests it signs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tieline_api import errors
from tieline_api.authorisation.authorization_request import CandidateCredential
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.systems import auth_scheme_items, scheme_owner
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.authorisations import OAuth1Initialise
from tieline_core.credentials.linker import Directory, LinkedCredential, Lookups, Problem, canonical
from tieline_core.credentials.oauth1_consumers import consumer_credential, consumer_of
from tieline_core.identity.ids import client_credential_id, object_id
from tieline_core.kubernetes.reading import texts_of
from tieline_core.oauth.oauth1_requests import Consumer
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth1, OAuth1Endpoint
from tieline_core.resources.objects import AuthSchemeConfigDict, SystemObject

_ID, _GIVEN = "authSchemeConfigId", "authSchemeConfig"


@dataclass(frozen=True, kw_only=True)
class ChosenScheme:
    """An auth scheme, and the field of the request that is about it."""

    oauth1: OAuth1
    field: str
    secret: str = ""
    """The consumer's secret, where the request brings it."""
    scheme_of: str | None = None
    """The name of the Connection that the scheme belongs to ("" while it is still to be made); None for one of the
    system's schemes."""
    given: bool = False
    """Whether the request itself says where requests are sent."""

    def endpoints(self) -> tuple[OAuth1Endpoint, OAuth1Endpoint, OAuth1Endpoint]:
        """For temporary credentials, the user's consent and tokens; ApiError 422 where one is missing."""
        temporary, token = self.oauth1.temp_credential_endpoint, self.oauth1.token_endpoint
        authorization = self.oauth1.resource_owner_authorization_endpoint
        if temporary and authorization and token:
            return temporary, authorization, token
        raise errors.invalid(
            self.field,
            "leads to a scheme without all of tempCredentialEndpoint, resourceOwnerAuthorizationEndpoint and "
            "tokenEndpoint: add them",
        )

    def stored_secrets(
        self, directory: Directory, namespace: str, candidates: Sequence[CandidateCredential]
    ) -> list[str]:
        """The names of the Secrets that ``consumer`` reads: the credential's, the scheme's, the named consumer's."""
        own = candidates[0].item.get("secretRef") if len(candidates) == 1 else None
        scheme = self.oauth1.secret_ref
        named = consumer_credential(directory, namespace, self.oauth1, scheme_of=self.scheme_of)
        consumer = named.item.secret_ref if isinstance(named, LinkedCredential) else None
        references = [reference.name for reference in (scheme, consumer) if reference]
        return [*([own["name"]] if own else []), *references]

    async def consumer(
        self, lookups: Lookups, namespace: str, candidates: Sequence[CandidateCredential]
    ) -> Consumer:
        """Who signs; what the credential's own Secret says goes first. ApiError 422 where something is missing."""
        reference = candidates[0].item.get("secretRef") if len(candidates) == 1 else None
        data = await lookups.secret(namespace, reference["name"]) if reference else None
        own = texts_of(data or {})
        if self.secret and not own.get("consumerSecret"):
            own["consumerSecret"] = self.secret
        found = await consumer_of(lookups, namespace, self.oauth1, own, scheme_of=self.scheme_of)
        if isinstance(found, Problem):
            raise errors.invalid(self.field, found.message)
        return found


def choose(
    system: SystemObject,
    candidates: Sequence[CandidateCredential],
    body: OAuth1Initialise,
    *,
    organisation: str,
) -> ChosenScheme:
    """The auth scheme that a request is about. ``candidates``: the connections' credentials that it may be for.

    ``organisation`` is the id of the system's organisation. ApiError 422 where none fits, or more than one.
    """
    of_system = _signing(auth_scheme_items(system))
    inline = _signing(one.item["authSchemeConfig"] for one in candidates if one.item.get("authSchemeConfig"))
    known = [*of_system, *inline]
    if body.auth_scheme_config is not None:
        if body.auth_scheme_config_id not in (None, body.auth_scheme_config.id):
            raise errors.invalid(_ID, f"contradicts {_GIVEN}: give one of the two")
        owner = scheme_owner(system, organisation=organisation)
        return _given(body.auth_scheme_config, of_system, inline, candidates, owner)
    if body.auth_scheme_config_id is not None:
        fitting = [one for one in known if one["id"] == body.auth_scheme_config_id]
        return _only(fitting, of_system, candidates)
    used = _signing(found for one in candidates if (found := scheme_item(one.item, system)))
    if used:
        return _only(used, of_system, candidates)
    wanted = canonical(body.credential.id)
    naming = [
        one
        for one in known
        if wanted in (_consumer_id(one), client_credential_id(object_id(system), one["id"]))
    ]
    return _only(naming or known, of_system, candidates)


def _consumer_id(scheme: AuthSchemeConfigDict) -> str:
    """The id of the credential that a scheme names for its consumer; empty where it names none."""
    return canonical(scheme["oauth1"].get("credentialId") or "")


def _given(
    config: AuthSchemeConfig,
    of_system: Sequence[AuthSchemeConfigDict],
    inline: Sequence[AuthSchemeConfigDict],
    candidates: Sequence[CandidateCredential],
    owner: auth_schemes.SchemeOwner,
) -> ChosenScheme:
    """The scheme in a request, as a connection takes it: the system's very one, or else the credential's own."""
    if config.type is not AuthSchemeType.OAUTH1:
        raise errors.invalid(f"{_GIVEN}.type", "must be oauth1 here")
    secret = auth_schemes.secret_of(config)
    same = next((one for one in of_system if auth_schemes.same(config, one, owner=owner)), None)
    stored = next((one for one in inline if one["id"] == config.id), None)
    owners = (owner.id, *(object_id(one.connection) for one in candidates))
    item = same or auth_schemes.to_item(config, stored, owners=owners)
    return ChosenScheme(
        oauth1=OAuth1.model_validate(item["oauth1"]),
        field=_GIVEN,
        secret=secret[1] if secret else "",
        scheme_of=None if same else _holder(candidates),
        given=same is None and not _is_stored(config, stored, candidates, organisation=owner.organisation),
    )


def _is_stored(
    config: AuthSchemeConfig,
    stored: AuthSchemeConfigDict | None,
    candidates: Sequence[CandidateCredential],
    *,
    organisation: str,
) -> bool:
    """Whether the request repeats the scheme that the one connection has."""
    if stored is None or len(candidates) != 1:
        return False
    return auth_schemes.same(
        config, stored, owner=scheme_owner(candidates[0].connection, organisation=organisation)
    )


def _holder(candidates: Sequence[CandidateCredential]) -> str:
    """The name of the one connection that a scheme is for; "" where it is still to be made, or one of several."""
    return str(candidates[0].connection["metadata"]["name"]) if len(candidates) == 1 else ""


def _only(
    fitting: Sequence[AuthSchemeConfigDict],
    of_system: Sequence[AuthSchemeConfigDict],
    candidates: Sequence[CandidateCredential],
) -> ChosenScheme:
    distinct = {one["id"]: one for one in fitting}
    if len(distinct) == 1:
        (found,) = distinct.values()
        return ChosenScheme(
            oauth1=OAuth1.model_validate(found["oauth1"]),
            field=_ID,
            scheme_of=None if any(found is one for one in of_system) else _holder(candidates),
        )
    if distinct:
        names = ", ".join(distinct)
        raise errors.invalid(_ID, f"is required: several oauth1 auth schemes are possible: {names}")
    raise errors.invalid(
        _ID,
        "names no oauth1 auth scheme of the system or the credential: correct it, add the scheme, or send the one "
        f"of a connection that is still to be made as {_GIVEN}",
    )


def _signing(items: Iterable[AuthSchemeConfigDict]) -> list[AuthSchemeConfigDict]:
    return [one for one in items if one["type"] == AuthSchemeType.OAUTH1.value]
