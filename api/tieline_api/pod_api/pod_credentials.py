"""What a pod gets of a credential: what requests are made with, and of OAuth 2.0 nothing but access tokens."""

import base64
from collections.abc import Mapping
from datetime import datetime

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.credential_values import from_secret
from tieline_api.conversion.times import expired
from tieline_api.credentials.credential_directory import CredentialDirectory
from tieline_api.credentials.tokens_in_use import ConnectionTokens, CredentialTokens
from tieline_core.credentials.exposure import not_secret_of
from tieline_core.credentials.linker import LinkedCredential
from tieline_core.credentials.oauth1_consumers import consumer_credential
from tieline_core.credentials.validation.credential_findings import OAUTH2
from tieline_core.identity.ids import credential_id
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.objects import Json, ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth1
from tieline_core.resources.connections import CredentialType
from tieline_core.resources.objects import AuthSchemeConfigDict, ConnectionCredentialDict, ConnectionObject
from tieline_core.systems import variables_in_effect
from tieline_protocol.oauth.dialect import TokenUse

# What refreshes and exchanges stays with the platform: refresh tokens, codes, client secrets, passwords.
_FOR_PODS = ("accessToken", "tokenType", "expiresAt", "scopes")
_WITH_FIELDS = frozenset(
    {
        CredentialType.STRING,
        CredentialType.BINARY,
        CredentialType.BASIC_AUTH,
        CredentialType.CERTIFICATE,
        CredentialType.JWT_BEARER,
    }
)
_NEVER_FIELDS = frozenset(
    {
        "value",
        "accessToken",
        "refreshToken",
        "code",
        "state",
        "clientId",
        "clientSecret",
        "oauthToken",
        "oauthTokenSecret",
        "oauthVerifier",
        "consumerKey",
        "consumerSecret",
    }
)


def credential(
    found: ConnectionTokens,
    item: ConnectionCredentialDict,
    *,
    scheme: AuthSchemeConfigDict,
    identifier: str,
    now: datetime,
    exposed: bool = False,
) -> Json:
    """A credential of a connection as the internal endpoint returns it; without values once it has expired.

    With ``exposed``, its name in the manifest and the Secret's other texts come with it, for code to read.
    """
    cluster, connection = found.cluster, found.connection
    result = {
        "id": credential_id(identifier, item),
        "type": item["type"],
        "authScheme": auth_schemes.without_references(scheme),
        "data": {} if expired(item, now) else _data(found, item, scheme, now),
    }
    if exposed:
        fields = {} if expired(item, now) else _fields(cluster, connection, item)
        result |= {"name": item["id"], "fields": fields}
        if declared := fields.keys() & _not_secret(cluster, connection, item):
            result["notSecret"] = sorted(declared)
    return {**result, "expiresAt": item["expiresAt"]} if "expiresAt" in item else result


def _fields(cluster: ClusterCache, connection: ConnectionObject, item: ConnectionCredentialDict) -> Json:
    """What a Secret has beside the values of the credential's type. Nothing that is for token requests is among it."""
    kind = CredentialType(item["type"])
    if kind not in _WITH_FIELDS:
        return {}
    stored = _stored(cluster, connection["metadata"]["namespace"], item.get("secretRef"))
    others = stored.keys() - from_secret(kind, stored).keys() - _NEVER_FIELDS
    found = {key: base64.b64decode(stored[key]) for key in others}
    return {key: value.decode() for key, value in found.items() if _is_text(value)}


def _not_secret(
    cluster: ClusterCache, connection: ConnectionObject, item: ConnectionCredentialDict
) -> frozenset[str]:
    """The keys of its Secret that the owner declared to be no secrets."""
    reference = item.get("secretRef")
    secret = (
        cluster.secrets.get(connection["metadata"]["namespace"], reference["name"]) if reference else None
    )
    return not_secret_of(secret["metadata"]) if secret is not None else frozenset()


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def _data(
    found: ConnectionTokens, item: ConnectionCredentialDict, scheme: AuthSchemeConfigDict, now: datetime
) -> Json:
    cluster, connection = found.cluster, found.connection
    namespace, kind = connection["metadata"]["namespace"], CredentialType(item["type"])
    stored = _stored(cluster, namespace, item.get("secretRef"))
    if kind in OAUTH2:
        given = from_secret(CredentialType.OAUTH2_TOKEN, stored)
        return {
            **current(_tokens(found.of(item["id"]), item, given), now),
            **_of_dialect(found, scheme, stored),
        }
    data = from_secret(kind, stored)
    if scheme["type"] == AuthSchemeType.OAUTH1.value:
        # Its signatures need the consumer's secret and the token's, which REST's credential does not have.
        own = connection["metadata"]["name"] if item.get("authSchemeConfig") else None
        consumer = _consumer(cluster, namespace, scheme.get("oauth1") or {}, scheme_of=own)
        data |= _texts({**consumer, **stored}, "consumerKey", "consumerSecret", "oauthTokenSecret")
        if stored.get("state"):
            return _authorised(found.of(item["id"]), data)
    return data


def _of_dialect(of: ConnectionTokens, scheme: AuthSchemeConfigDict, stored: Mapping[str, str]) -> Json:
    """What requests have beside the access token, where the scheme says so: variables in headers, the client secret."""
    oauth2 = scheme.get("oauth2", {})
    use = TokenUse.of(oauth2.get("token") or {})
    found: Json = {}
    if use.headers:
        found["variables"] = variables_in_effect(of.connection["spec"], of.system_spec, of.kept)
    if use.secret_place:
        grant: ObjectView = oauth2.get("grant") or {}
        client = grant.get(grant.get("type") or "") or {}
        namespace = of.connection["metadata"]["namespace"]
        # Only one that is here: another organisation's is for token requests alone.
        values = _stored(of.cluster, namespace, client.get("secretRef")) or stored
        found |= _texts(values, "clientSecret")
    return found


def _authorised(tokens: CredentialTokens, data: Json) -> Json:
    """With the token credentials that an authorisation has brought; what it was brought with stays here."""
    data = {key: value for key, value in data.items() if key in ("consumerKey", "consumerSecret")}
    values = _texts((tokens.secret or {}).get("data") or {}, "accessToken", "oauthTokenSecret")
    if values.get("accessToken"):
        data |= {"oauthToken": values["accessToken"], "oauthTokenSecret": values.get("oauthTokenSecret", "")}
    return data


def _consumer(
    cluster: ClusterCache, namespace: str, oauth1: ObjectView, *, scheme_of: str | None
) -> Mapping[str, str]:
    """What the scheme's Secret, or else the credential that the scheme names, has of the consumer.

    ``scheme_of`` is the name of the Connection that brings the scheme; None for a scheme of the system.
    """
    if oauth1.get("secretRef") or not oauth1.get("credentialId"):
        return _stored(cluster, namespace, oauth1.get("secretRef"))
    found = consumer_credential(
        CredentialDirectory(cluster), namespace, OAuth1.model_validate(oauth1), scheme_of=scheme_of
    )
    reference = found.item.secret_ref if isinstance(found, LinkedCredential) else None
    values = _stored(cluster, namespace, {"name": reference.name} if reference else None)
    names = {"clientId": "consumerKey", "clientSecret": "consumerSecret"}
    return {ours: values[theirs] for theirs, ours in names.items() if theirs in values}


def current(tokens: Json, now: datetime) -> Json:
    """Tokens without an access token that has ended. Pods ask for another one when they need it.

    >>> tokens = {"accessToken": "at", "expiresAt": "2026-11-21T10:00:00Z"}
    >>> current(tokens, datetime.fromisoformat("2026-11-21T10:00:00+00:00"))
    {'expiresAt': '2026-11-21T10:00:00Z'}
    >>> current(tokens, datetime.fromisoformat("2026-11-21T09:59:59+00:00")) == tokens
    True
    """
    if not expired(tokens, now):
        return tokens
    return {key: value for key, value in tokens.items() if key != "accessToken"}


def _tokens(tokens: CredentialTokens, item: ConnectionCredentialDict, given: Json) -> Json:
    """The kept tokens of the connection's tenant, or else those that a person has given as they are."""
    data = from_secret(CredentialType.OAUTH2_TOKEN, (tokens.secret or {}).get("data") or {})
    # What was given is of the tenant that it was first used with.
    if not data.get("accessToken") and not tokens.are_of_other_tenant:
        data = given if item["type"] == CredentialType.OAUTH2_TOKEN.value else {}
    return {key: data[key] for key in _FOR_PODS if key in data}


def _stored(cluster: ClusterCache, namespace: str, reference: ObjectView | None) -> Mapping[str, str]:
    """The data of a Secret. Only those of our type: whoever may write Connections must not read any other."""
    secret = cluster.secrets.get(namespace, reference["name"]) if reference else None
    if secret is None or secret.get("type") != CREDENTIAL_TYPE:
        return {}
    return secret.get("data") or {}


def _texts(stored: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: base64.b64decode(stored[key]).decode("utf-8", "replace") for key in keys if key in stored}
