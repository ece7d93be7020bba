"""Connections between custom resource and REST."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tieline_api import errors
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.credential_values import to_secret
from tieline_api.conversion.systems import (
    auth_scheme_item,
    auth_scheme_items,
    limits_to_rest,
    messages_about,
    scheme_owner,
)
from tieline_api.conversion.times import created_at, in_utc, updated_at
from tieline_api.schemas import connections as rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.connectors import Variable
from tieline_api.schemas.credential_data import CredentialData, OAuth2TokenData
from tieline_core.credentials.linker import canonical
from tieline_core.credentials.refusals import refusals_of
from tieline_core.credentials.validation.credential_findings import WITH_TOKENS
from tieline_core.identity.ids import (
    credential_id,
    credential_item_id,
    format_time,
    new_id,
    object_id,
    parse_id,
)
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.refresh_coordinator import refusal_message
from tieline_core.oauth.token_client import Tokens
from tieline_core.objects import Object, ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.connections import CredentialType

_SHOWN_AS_TOKENS = (CredentialType.OAUTH2_CODE, CredentialType.OAUTH2_TOKEN)


@dataclass(frozen=True, kw_only=True)
class PlannedSecret:
    """Values on their way into a Secret."""

    part: str
    """What they belong to in their owner; the Secret's name comes from it."""
    values: Mapping[str, bytes]
    name: str = ""
    """The Secret's name, once it is decided."""
    base: str | None = None
    """The Secret whose other values stay."""


@dataclass(frozen=True, kw_only=True)
class PlannedCredential:
    """A credential's item in the custom resource, and the Secrets that it needs."""

    item: Object
    secrets: tuple[PlannedSecret, ...] = ()


def connection_to_rest(
    obj: ObjectView,
    *,
    organisation: str,
    system: ObjectView | None,
    template: ObjectView | None,
    tokens: Callable[[str], ObjectView | None] = lambda _: None,
) -> rest.Connection:
    """The REST form of a Connection; ``system`` and ``template`` are what it refers to, where they exist.

    ``tokens`` finds the Secret with the tokens that the platform holds for a credential, by its id in there.
    """
    identifier = object_id(obj)
    spec = obj["spec"]
    return rest.Connection(
        id=identifier,
        name=spec["name"],
        credentials=[
            _credential_to_rest(
                obj,
                item,
                identifier=identifier,
                organisation=organisation,
                system=system,
                held=tokens(item["id"]) if item["type"] in WITH_TOKENS else None,
            )
            for item in spec.get("credentials") or ()
        ],
        created_at=created_at(obj),
        updated_at=updated_at(obj),
        base_url=spec.get("baseUrl"),
        variables=[Variable(name=name, value=value) for name, value in (spec.get("variables") or {}).items()],
        system_id=object_id(system) if system else None,
        connection_template_id=object_id(template) if template else None,
        limits=limits_to_rest(spec),
        expose_to_code=True if spec.get("exposeToCode") else None,
        tools=tools_to_rest(spec),
        refused=_refused(obj),
    )


def tools_to_rest(spec: Mapping[str, Any]) -> rest.AgentTools | None:
    """What agents may call through a connection; None for nothing."""
    found = spec.get("tools") or {}
    if not found.get("read") and not found.get("operations"):
        return None
    return rest.AgentTools(read=bool(found.get("read")), operations=list(found.get("operations") or ()))


def _refused(obj: ObjectView) -> rest.RefusedRequests | None:
    known = refusals_of(obj)
    if known is None or known.accepted is not None:
        return None
    return rest.RefusedRequests(
        status=known.status,
        count=known.count,
        since=format_time(known.since),
        last_at=format_time(known.last),
    )


def scheme_item(item: Mapping[str, Any], system: ObjectView | None) -> Mapping[str, Any] | None:
    """The auth scheme that a credential is for: its own, or one of the system's."""
    inline: Mapping[str, Any] | None = item.get("authSchemeConfig")
    if inline:
        return inline
    return auth_scheme_item(system, item.get("authSchemeConfigId", "")) if system else None


def plan_credential(
    given: rest.ConnectionCredential,
    *,
    live: Mapping[str, Any] | None,
    mine: Mapping[str, Any] | None,
    system: ObjectView,
    connection: str,
    organisation: str,
    path: str,
    linked: str = "",
) -> PlannedCredential:
    """What a credential in a request becomes.

    ``connection`` is the connection's id, ``organisation`` its organisation's, ``live`` the stored item of the
    same id as it is, ``mine`` the part of it that the API owns, ``linked`` the certificate that answers show for
    it. What the request leaves out stays. Raises ApiError (422) naming the field below ``path``.
    """
    item: Object = dict(mine or {})
    item["id"] = live["id"] if live else given.id or new_id()
    secrets: list[PlannedSecret] = []
    if given.auth_scheme_config is not None:
        config = auth_schemes.without_link(given.auth_scheme_config, linked)
        owner = scheme_owner(system, organisation=organisation)
        if not _stands_for_missing(config, live, system, owner=owner):
            secrets += _plan_scheme(item, config, system=system, connection=connection, owner=owner)
    elif given.auth_scheme_config_id is not None:
        _refer(item, given.auth_scheme_config_id, system=system, path=path)
    elif live is None:
        raise errors.invalid(
            f"{path}.authSchemeConfig",
            "is required for a new credential, or one of the system's schemes in authSchemeConfigId",
        )
    if given.credential is not None:
        planned = _plan_values(item, given.credential, live=live, path=f"{path}.credential")
        shown = credential_id(
            connection, {**item, **({"credentialId": live.get("credentialId")} if live else {})}
        )
        if given.credential.id and canonical(given.credential.id) != canonical(shown):
            item["credentialId"] = given.credential.id
        secrets += [planned] if planned else []
    elif live is None:
        raise errors.invalid(f"{path}.credential", "is required for a new credential")
    return PlannedCredential(item=item, secrets=tuple(secrets))


def stored_item(
    given: str | None, items: Iterable[Mapping[str, Any]], *, connection: str
) -> Mapping[str, Any] | None:
    """The stored credential that a request means: by the id that the manifest has, or by the one of answers."""
    if not given:
        return None
    found = {item["id"]: item for item in items}
    if given in found:
        return found[given]
    wanted = parse_id(given)
    return next((one for key, one in found.items() if credential_item_id(connection, key) == wanted), None)


def _stands_for_missing(
    config: AuthSchemeConfig,
    live: Mapping[str, Any] | None,
    system: ObjectView,
    *,
    owner: auth_schemes.SchemeOwner,
) -> bool:
    """Whether ``config`` is what answers show in place of a scheme that is not there, or cannot be read."""
    if live is None or config.type is not AuthSchemeType.NONE:
        return False
    scheme = scheme_item(live, system)
    if scheme is None:
        return config.id == live.get("authSchemeConfigId")
    is_readable = auth_schemes.to_rest(scheme, owner=owner).type == scheme["type"]
    return config.id == scheme["id"] and not is_readable


def _refer(item: Object, scheme: str, *, system: ObjectView, path: str) -> None:
    """Have a credential use one of the system's schemes. Raises ApiError (422)."""
    if auth_scheme_item(system, scheme) is None:
        known = ", ".join(f'"{one["id"]}"' for one in auth_scheme_items(system)) or "none"
        raise errors.invalid(
            f"{path}.authSchemeConfigId",
            f"is the id of no auth scheme of the connection's system (there are: {known})",
        )
    item.pop("authSchemeConfig", None)
    item["authSchemeConfigId"] = scheme


def _plan_scheme(
    item: Object,
    config: AuthSchemeConfig,
    *,
    system: ObjectView,
    connection: str,
    owner: auth_schemes.SchemeOwner,
) -> list[PlannedSecret]:
    known = next(
        (one for one in auth_scheme_items(system) if auth_schemes.same(config, one, owner=owner)), None
    )
    if known is not None and auth_schemes.secret_of(config) is None:
        item.pop("authSchemeConfig", None)
        item["authSchemeConfigId"] = known["id"]
        return []
    item.pop("authSchemeConfigId", None)
    inline = item.get("authSchemeConfig")
    if inline and not config.has_own_id:
        config = config.with_id(inline["id"])
    item["authSchemeConfig"] = auth_schemes.to_item(config, inline, owners=(connection, owner.id))
    secret = auth_schemes.secret_of(config)
    if secret is None:
        return []
    key, value = secret
    return [PlannedSecret(part=f"scheme/{item['id']}", values={key: value.encode()})]


def _plan_values(
    item: Object, given: rest.Credential, *, live: Mapping[str, Any] | None, path: str
) -> PlannedSecret | None:
    old = CredentialType(live["type"]) if live else None
    kind = _type_of(given, old=old, path=path)
    data = given.data.given().get(kind) if given.data else None
    if isinstance(data, OAuth2TokenData) and not (data.access_token or data.refresh_token):
        data = None  # as it was read: without the tokens it says nothing
    if kind == CredentialType.OAUTH2_TOKEN and old == CredentialType.OAUTH2_CODE and data is None:
        kind = old  # what was exchanged is shown as tokens, and stays the code that it came from
    item["type"] = kind.value
    if given.name or (given.name is not None and "name" in item):
        item["name"] = given.name
    if given.expires_at is not None:
        item["expiresAt"] = format_time(given.expires_at)
    if kind == CredentialType.NONE:
        item.pop("secretRef", None)
        return None
    reference = (live or {}).get("secretRef") if old == kind else None
    values = to_secret(data) if data is not None else {}
    if not values:
        if reference is None:
            raise errors.invalid(f"{path}.data", f"a credential of type {kind} needs its values")
        return None
    return PlannedSecret(
        part=f"credential/{item['id']}", values=values, base=reference["name"] if reference else None
    )


def _type_of(given: rest.Credential, *, old: CredentialType | None, path: str) -> CredentialType:
    """The credential's type: as it says, or as its data says, or as it was."""
    given_types = list(given.data.given()) if given.data else []
    kind = given.type or (given_types[0] if given_types else old)
    if kind is None:
        raise errors.invalid(f"{path}.type", "is required for a new credential")
    if len(given_types) > 1 or (given_types and given_types[0] != kind):
        names = ", ".join(str(one) for one in given_types)
        raise errors.invalid(
            f"{path}.data", f"a credential of type {kind} has values of its own type only, not of {names}"
        )
    return kind


def _credential_to_rest(
    obj: ObjectView,
    item: Mapping[str, Any],
    *,
    identifier: str,
    organisation: str,
    system: ObjectView | None,
    held: ObjectView | None,
) -> rest.ConnectionCredential:
    kind, tokens = CredentialType(item["type"]), token_secret_codec.read(held) if held else None
    exchanged = tokens is not None and bool(tokens.tokens.access_token) and kind in _SHOWN_AS_TOKENS
    return rest.ConnectionCredential(
        id=credential_item_id(identifier, item["id"]),
        auth_scheme_config=_scheme_to_rest(obj, item, system=system, organisation=organisation),
        auth_scheme_config_id=item.get("authSchemeConfigId"),
        credential=rest.Credential(
            id=canonical(credential_id(identifier, item)),
            organisation_id=organisation,
            type=CredentialType.OAUTH2_TOKEN if exchanged else kind,
            name=item.get("name") or "",
            errors=_errors_of(obj, item["id"], tokens),
            data=_token_data(tokens.tokens) if tokens and exchanged else None,
            expires_at=in_utc(item.get("expiresAt")),
        ),
    )


def _scheme_to_rest(
    obj: ObjectView, item: Mapping[str, Any], *, system: ObjectView | None, organisation: str
) -> AuthSchemeConfig:
    scheme = scheme_item(item, system)
    if scheme is None:
        missing = str(item.get("authSchemeConfigId") or item["id"])
        return auth_schemes.unreadable(
            missing, f'The system has no auth scheme "{missing}": add it, or give the credential another one'
        )
    shown = auth_schemes.with_link(scheme, linked_certificate(obj, item["id"]))
    if system and "authSchemeConfigId" in item:
        owner = scheme_owner(system, organisation=organisation)
        return auth_schemes.to_rest(shown, messages_about(system, scheme["id"]), owner=owner)
    messages = _told_of(obj, item["id"]).get("validationMessages") or ()
    return auth_schemes.to_rest(shown, messages, owner=scheme_owner(obj, organisation=organisation))


def _token_data(tokens: Tokens) -> CredentialData:
    """What of tokens is no secret."""
    ends = token_secret_codec.written(tokens.expires_at) if tokens.expires_at else None
    data = OAuth2TokenData(scopes=list(tokens.scopes), token_type=tokens.token_type, expires_at=ends)
    return CredentialData(oauth2_token=data)


def _told_of(obj: ObjectView, identifier: str) -> Mapping[str, Any]:
    """What the status has about a credential."""
    statuses = (obj.get("status") or {}).get("credentials") or ()
    return next((one for one in statuses if one["id"] == identifier), {})


def linked_certificate(obj: ObjectView, identifier: str) -> str:
    """The certificate credential that was found for a credential's mutual TLS; "" where none is needed."""
    return str(_told_of(obj, identifier).get("mtlsCredentialId") or "")


def _errors_of(
    obj: ObjectView, identifier: str, tokens: token_secret_codec.StoredTokens | None
) -> list[str] | None:
    if tokens is not None and tokens.refusal is not None:
        return [refusal_message(tokens.refusal)]
    for found in (obj.get("status") or {}).get("credentials") or ():
        if found["id"] == identifier:
            return list(found.get("errors") or ())
    return None
