"""Connections between custom resource and REST."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tieline_api.conversion import auth_schemes
from tieline_api.conversion.systems import (
    auth_scheme_item,
    limits_to_rest,
    messages_about,
    scheme_owner,
)
from tieline_api.conversion.times import created_at, in_utc, updated_at
from tieline_api.schemas import connections as rest
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.credential_data import CredentialData, OAuth2TokenData
from tieline_api.schemas.url_variables import UrlVariable, shown_variables
from tieline_core.credentials.connection_state import CredentialFacts, is_given, last_success, state_of
from tieline_core.credentials.linker import canonical
from tieline_core.credentials.refusals import refusals_of
from tieline_core.credentials.tenants import CHANGED_MESSAGE
from tieline_core.credentials.validation.credential_findings import WITH_TOKENS
from tieline_core.identity.ids import (
    credential_id,
    credential_item_id,
    format_time,
    object_id,
)
from tieline_core.oauth import token_secret_codec
from tieline_core.oauth.refresh_coordinator import not_renewable, refusal_message
from tieline_core.objects import ObjectView
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import (
    AuthSchemeConfigDict,
    ConnectionCredentialDict,
    ConnectionObject,
    ConnectionTemplateObject,
    PartialCredentialStatusDict,
    SystemObject,
)
from tieline_protocol.oauth.kept import NOTHING
from tieline_protocol.oauth.token_client import Tokens

_SHOWN_AS_TOKENS = (CredentialType.OAUTH2_CODE, CredentialType.OAUTH2_TOKEN)


def connection_to_rest(
    obj: ConnectionObject,
    *,
    organisation: str,
    system: SystemObject | None,
    template: ConnectionTemplateObject | None,
    tokens: Callable[[str], ObjectView | None] = lambda _: None,
    secret: Callable[[ConnectionCredentialDict], rest.CredentialSecret | None] = lambda _: None,
    expires: Sequence[rest.Expiry] = (),
) -> rest.Connection:
    """The REST form of a Connection; ``system`` and ``template`` are what it refers to, where they exist.

    ``tokens`` finds the Secret with the tokens that the platform holds for a credential, by its id in there, and
    ``secret`` says of others' Secrets what may be shown.
    """
    identifier = object_id(obj)
    spec = obj["spec"]
    success = last_success(obj)
    items = [
        (item, token_secret_codec.read(held) if held else None)
        for item in spec.get("credentials") or ()
        for held in (tokens(item["id"]) if item["type"] in WITH_TOKENS else None,)
    ]
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
                tokens=held,
                secret=secret(item),
            )
            for item, held in items
        ],
        state=state_of(obj, [_facts(obj, item, held, system) for item, held in items]),
        last_success_at=format_time(success) if success else None,
        created_at=created_at(obj),
        updated_at=updated_at(obj),
        base_url=spec.get("baseUrl"),
        variables=shown_variables(spec),
        system_id=object_id(system) if system else None,
        connection_template_id=object_id(template) if template else None,
        limits=limits_to_rest(spec),
        expose_to_code=True if spec.get("exposeToCode") else None,
        tools=tools_to_rest(spec),
        kept=_kept([held for _, held in items if held]),
        refused=_refused(obj),
        last_refusal=_last_refusal(obj),
        expires=list(expires),
    )


def _kept(stored: Iterable[token_secret_codec.StoredTokens]) -> rest.KeptValues | None:
    """What the connection keeps of its providers' answers; None for nothing."""
    found = NOTHING
    for one in stored:
        found = found.merged(one.tokens.kept)
    if not found:
        return None
    return rest.KeptValues(
        account_id=found.account_id or None,
        account_name=found.account_name or None,
        base_url=found.base_url or None,
        variables=[UrlVariable(name=name, value=value) for name, value in found.variables.items()],
    )


def tools_to_rest(spec: Mapping[str, Any]) -> rest.AgentTools | None:
    """What agents may call through a connection; None for nothing."""
    found = spec.get("tools") or {}
    if not found.get("read") and not found.get("operations"):
        return None
    return rest.AgentTools(read=bool(found.get("read")), operations=list(found.get("operations") or ()))


def _refused(obj: ConnectionObject) -> rest.RefusedRequests | None:
    found = _last_refusal(obj)
    if found is None or found.accepted_at is not None:
        return None
    return rest.RefusedRequests.model_validate(found.model_dump(exclude={"accepted_at"}))


def _last_refusal(obj: ConnectionObject) -> rest.LastRefusal | None:
    known = refusals_of(obj)
    if known is None:
        return None
    return rest.LastRefusal(
        status=known.status,
        count=known.count,
        since=format_time(known.since),
        last_at=format_time(known.last),
        said=known.said or None,
        accepted_at=format_time(known.accepted) if known.accepted else None,
    )


def _facts(
    obj: ConnectionObject,
    item: ConnectionCredentialDict,
    tokens: token_secret_codec.StoredTokens | None,
    system: SystemObject | None,
) -> CredentialFacts:
    scheme, errors = scheme_item(item, system), _errors_of(obj, item["id"], tokens) or []
    return CredentialFacts(
        # Tokens of another tenant are no tokens: the connection has to be authorised.
        is_given=CHANGED_MESSAGE not in errors
        and is_given(
            scheme["type"] if scheme else None,
            item["type"],
            has_tokens=bool(tokens and tokens.tokens.access_token),
        ),
        is_refused=bool(tokens and tokens.refusal is not None) or str(not_renewable()) in errors,
        has_errors=any(one != CHANGED_MESSAGE for one in errors),
    )


def scheme_item(item: ConnectionCredentialDict, system: SystemObject | None) -> AuthSchemeConfigDict | None:
    """The auth scheme that a credential is for: its own, or one of the system's."""
    inline = item.get("authSchemeConfig")
    if inline:
        return inline
    return auth_scheme_item(system, item.get("authSchemeConfigId", "")) if system else None


def _credential_to_rest(
    obj: ConnectionObject,
    item: ConnectionCredentialDict,
    *,
    identifier: str,
    organisation: str,
    system: SystemObject | None,
    tokens: token_secret_codec.StoredTokens | None,
    secret: rest.CredentialSecret | None,
) -> rest.ConnectionCredential:
    kind = CredentialType(item["type"])
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
            warnings=list(_status_of(obj, item["id"]).get("warnings") or ()) or None,
            data=_token_data(tokens.tokens) if tokens and exchanged else None,
            expires_at=in_utc(item.get("expiresAt")),
            secret=secret,
        ),
    )


def _scheme_to_rest(
    obj: ConnectionObject, item: ConnectionCredentialDict, *, system: SystemObject | None, organisation: str
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
    messages = _status_of(obj, item["id"]).get("validationMessages") or ()
    return auth_schemes.to_rest(shown, messages, owner=scheme_owner(obj, organisation=organisation))


def _token_data(tokens: Tokens) -> CredentialData:
    """What of tokens is no secret."""
    ends = token_secret_codec.written(tokens.expires_at) if tokens.expires_at else None
    data = OAuth2TokenData(scopes=list(tokens.scopes), token_type=tokens.token_type, expires_at=ends)
    return CredentialData(oauth2_token=data)


def _status_of(obj: ConnectionObject, identifier: str) -> PartialCredentialStatusDict:
    """What the status has about a credential."""
    for status in (obj.get("status") or {}).get("credentials") or ():
        if status["id"] == identifier:
            return status
    return {}


def linked_certificate(obj: ConnectionObject | None, identifier: str) -> str:
    """The certificate credential that was found for a credential's mutual TLS; "" where none is needed."""
    return (_status_of(obj, identifier).get("mtlsCredentialId") or "") if obj else ""


def _errors_of(
    obj: ConnectionObject, identifier: str, tokens: token_secret_codec.StoredTokens | None
) -> list[str] | None:
    if tokens is not None and tokens.refusal is not None:
        return [refusal_message(tokens.refusal)]
    for found in (obj.get("status") or {}).get("credentials") or ():
        if found["id"] == identifier:
            return list(found.get("errors") or ())
    return None
