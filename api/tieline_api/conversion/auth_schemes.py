"""Auth schemes: in REST the id sits in the sub-object, in a custom resource on the item.

``item`` is always a custom resource's auth scheme as plain JSON. Secrets leave a REST body through
``secret_of`` and come back as nothing but a reference.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from tieline_api.schemas.auth_schemes import SUB_OBJECTS, AuthSchemeConfig, OAuth1Scheme, OAuth2Scheme
from tieline_core.credentials.linker import canonical
from tieline_core.identity.ids import client_credential_id
from tieline_core.objects import Object
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_protocol.signature_presets import PRESET_OPTIONS
from tieline_protocol.signatures import DEFAULT_TOLERANCE, SET_BY_PRESET

logger = logging.getLogger(__name__)

_GRANTS_WITH_CLIENT = ("authorizationCode", "password")
CLIENT_SECRET = "clientSecret"  # noqa: S105  (a key)
CONSUMER_SECRET = "consumerSecret"  # noqa: S105
_TOLERANCE = "toleranceSeconds"
_OF_THE_ITEM = ("id", "description", "validationMessages")


@dataclass(frozen=True, kw_only=True)
class SchemeOwner:
    """The System or Connection that an auth scheme belongs to."""

    id: str
    """Its id."""
    organisation: str
    """The id of its organisation."""


def to_rest(
    item: Mapping[str, Any], messages: Iterable[Mapping[str, Any]] = (), *, owner: SchemeOwner
) -> AuthSchemeConfig:
    """The REST form of an auth scheme, with the findings about it.

    Ids of credentials are ULIDs: free text is answered as its ULID, and a client that the scheme brings itself as
    the credential that was made for it. A scheme that does not fit its type, such as one from before a change of
    the definitions, is answered as ``unreadable``.
    """
    try:
        kind = AuthSchemeType(item["type"])
        sub_object = {
            **_with_ids(kind, item["id"], item.get(SUB_OBJECTS[kind]) or {}, owner),
            "id": item["id"],
            "description": item.get("description") or "",
            "validation_messages": list(messages),
        }
        found = AuthSchemeConfig.model_validate({"type": kind, SUB_OBJECTS[kind]: sub_object})
        hmac = found.hmac.with_specified_fields() if found.hmac else None
        return found.model_copy(update={"hmac": hmac}) if hmac else found
    except (KeyError, TypeError, ValueError) as error:
        problems = (
            error.errors(include_input=False, include_url=False) if isinstance(error, ValidationError) else []
        )
        fields = [".".join(map(str, one["loc"])) for one in problems] or [type(error).__name__]
        extra = {"owner": owner.id, "scheme": str(item.get("id"))[:64], "fields": fields[:5]}
        logger.warning("Cannot read an auth scheme as its type", extra=extra)
        return unreadable(
            str(item.get("id") or "unknown")[:64],
            "This auth scheme does not fit its type and cannot be used: correct it where it is defined",
        )


def unreadable(identifier: str, text: str) -> AuthSchemeConfig:
    """What stands for an auth scheme that is not there, or cannot be read: type ``none``, with an error."""
    sub_object = {"id": identifier, "validation_messages": [{"text": text, "severity": "error"}]}
    return AuthSchemeConfig.model_validate({"type": AuthSchemeType.NONE, "none": sub_object})


def _with_ids(
    kind: AuthSchemeType, scheme_id: str, fields: Mapping[str, Any], owner: SchemeOwner
) -> Mapping[str, Any]:
    """The scheme's own fields, with a ULID for each credential that they are about."""
    made = client_credential_id(owner.id, scheme_id)
    if kind is AuthSchemeType.OAUTH1:
        return {**fields, "credentialId": canonical(fields.get("credentialId") or "") or made}
    if kind is AuthSchemeType.HMAC:
        preset = fields.get("preset")
        return {**({_TOLERANCE: _tolerance(preset)} if preset else {"encoding": "hex"}), **fields}
    if kind is not AuthSchemeType.OAUTH2:
        return fields
    shown = {**fields, "mtlsCredentialId": canonical(fields.get("mtlsCredentialId") or "")}
    grant = fields.get("grant") or {}
    client = grant.get(grant.get("type") or "")
    if grant.get("type") in _GRANTS_WITH_CLIENT and isinstance(client, Mapping):
        ids = {
            "credentialId": canonical(client.get("credentialId") or "") or made,
            "organisationId": (client.get("organisationId") or owner.organisation).upper(),
        }
        shown["grant"] = {**grant, grant["type"]: {**client, **ids}}
    return shown


def to_item(
    config: AuthSchemeConfig, stored: Mapping[str, Any] | None = None, *, owners: Collection[str] = ()
) -> Object:
    """The custom resource's form of ``config``; what it leaves out is taken from ``stored``.

    A stored scheme of another type has nothing to give. ``owners`` are the ids of the System and the Connection
    whose answers the client may have this scheme from: ids that those only show are not stored.
    """
    given = config.sub_object()
    key = SUB_OBJECTS[config.type]
    fields = (
        given.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True) if given else {}
    )
    old: Mapping[str, Any] = stored if stored and stored.get("type") == config.type else {}
    item: Object = {"id": config.id, "type": config.type.value}
    description = fields.get("description", old.get("description"))
    if description is not None:
        item["description"] = description
    fields = {name: value for name, value in fields.items() if name not in _OF_THE_ITEM}
    old_fields = old.get(key) or {}
    if config.type is AuthSchemeType.HMAC:
        if preset := fields.get("preset"):
            # Clients send defaults that they have not set, and those of answers.
            repeated = fields.get(_TOLERANCE) in (DEFAULT_TOLERANCE, _tolerance(preset))
            if repeated and _TOLERANCE not in old_fields:
                del fields[_TOLERANCE]
        old_fields = _of_same_form(fields, old_fields)
    made = {client_credential_id(owner, config.id) for owner in owners}
    fields = _ids_as_stored(fields, old_fields, made)
    item[key] = _without_secrets({**old_fields, **fields})
    if "grant" in fields:
        item[key]["grant"] = _grant(fields["grant"], old_fields.get("grant") or {}, made)
    return item


def _tolerance(preset: str) -> int:
    """The toleranceSeconds of a preset."""
    return int(PRESET_OPTIONS.get(preset, {}).get(_TOLERANCE, DEFAULT_TOLERANCE))


def _of_same_form(given: Mapping[str, Any], old: Mapping[str, Any]) -> Mapping[str, Any]:
    """What an hmac scheme keeps of the stored one: a preset excludes the fields that it stands for, and they it."""
    if given.get("preset"):
        return {name: value for name, value in old.items() if name not in SET_BY_PRESET}
    return {name: value for name, value in old.items() if name != "preset"}


def _ids_as_stored(given: Mapping[str, Any], old: Mapping[str, Any], made: Collection[str]) -> Object:
    """``given`` with ids as they are stored, where it repeats those of an answer."""
    result = dict(given)
    for name in ("credentialId", "mtlsCredentialId"):
        identifier = canonical(result.get(name) or "")
        if identifier and identifier == canonical(old.get(name) or ""):
            result[name] = old[name]
        elif identifier in made:
            del result[name]
            result.pop("organisationId", None)
    return result


def secret_of(config: AuthSchemeConfig) -> tuple[str, str] | None:
    """The key and the value of the secret that ``config`` brings, if it brings one."""
    match config.sub_object():
        case OAuth2Scheme(grant=grant):
            client = grant.client()
            return (CLIENT_SECRET, client.client_secret) if client and client.client_secret else None
        case OAuth1Scheme(consumer_secret=str(secret)) if secret:
            return CONSUMER_SECRET, secret
    return None


def refer_to_secret(item: Object, name: str) -> None:
    """Makes ``item`` refer to the Secret with its secret."""
    if item["type"] == AuthSchemeType.OAUTH1:
        item["oauth1"]["secretRef"] = {"name": name}
    else:
        grant = item["oauth2"]["grant"]
        grant[grant["type"]]["secretRef"] = {"name": name}


def secret_name_of(item: Mapping[str, Any]) -> str | None:
    """The name of the Secret that ``item`` refers to, if it refers to one."""
    if item["type"] == AuthSchemeType.OAUTH1:
        reference = item.get("oauth1", {}).get("secretRef")
    else:
        grant = item.get("oauth2", {}).get("grant") or {}
        reference = (grant.get(grant.get("type", "")) or {}).get("secretRef")
    return reference["name"] if reference else None


def without_references(item: Mapping[str, Any]) -> Object:
    """``item`` without its references to Secrets, for those who must not know them."""
    result = dict(item)
    if "oauth1" in result:
        result["oauth1"] = {key: value for key, value in result["oauth1"].items() if key != "secretRef"}
    if "oauth2" in result:
        grant = result["oauth2"].get("grant") or {}
        bare = {
            key: {name: entry for name, entry in value.items() if name != "secretRef"}
            if isinstance(value, Mapping)
            else value
            for key, value in grant.items()
        }
        result["oauth2"] = {**result["oauth2"], "grant": bare}
    return result


def with_link(item: Mapping[str, Any], certificate: str) -> Mapping[str, Any]:
    """``item`` as it works: with the certificate credential that was found for its mutual TLS."""
    oauth2 = item.get("oauth2") or {}
    if not certificate or oauth2.get("mtlsCredentialId") or not oauth2.get("mtlsEnabled"):
        return item
    return {**item, "oauth2": {**oauth2, "mtlsCredentialId": certificate}}


def without_link(config: AuthSchemeConfig, certificate: str) -> AuthSchemeConfig:
    """``config`` as its author wrote it: answers show a certificate that was found, and clients send it back."""
    if not certificate or config.oauth2 is None:
        return config
    if canonical(config.oauth2.mtls_credential_id or "") != canonical(certificate):
        return config
    given = config.oauth2.model_dump(by_alias=True, exclude_unset=True, exclude={"mtls_credential_id"})
    return config.model_copy(update={"oauth2": OAuth2Scheme.model_validate(given)})


def same(config: AuthSchemeConfig, item: Mapping[str, Any], *, owner: SchemeOwner) -> bool:
    """Whether ``config`` describes the scheme ``item``.

    Type and id agree (where the client gives an id), and so does every field that ``config`` brings; secrets and
    findings do not count.
    """
    if config.type != item["type"] or (config.has_own_id and config.id != item["id"]):
        return False
    named = config.with_id(item["id"])
    shown = to_rest(item, owner=owner)
    return shown == to_rest(to_item(named, item, owners=(owner.id,)), owner=owner)


def _without_secrets(fields: Mapping[str, Any]) -> Object:
    return {name: value for name, value in fields.items() if name not in (CLIENT_SECRET, CONSUMER_SECRET)}


def _grant(given: Mapping[str, Any], old: Mapping[str, Any], made: Collection[str]) -> Object:
    """The grant in its new form; the client of the same type keeps what is not given."""
    kind = given["type"]
    kept = (old.get(kind) or {}) if old.get("type") == kind else {}
    client = _ids_as_stored(given.get(kind, {}), kept, made)
    return {"type": kind, kind: _without_secrets({**kept, **client})}
