"""What a pod gets of a credential: what requests are made with, and of OAuth 2.0 nothing but access tokens."""

import base64
from collections.abc import Mapping
from datetime import datetime

from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.cache.credential_directory import CredentialDirectory
from tieline_api.conversion import auth_schemes
from tieline_api.conversion.credential_values import from_secret
from tieline_api.conversion.times import expired
from tieline_core.credentials.linker import LinkedCredential
from tieline_core.credentials.oauth1_consumers import consumer_credential
from tieline_core.credentials.validation.credential_findings import OAUTH2
from tieline_core.identity.ids import credential_id
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.oauth.token_secrets import holds_tokens_of, secret_key_of
from tieline_core.objects import Json, ObjectView
from tieline_core.resources.auth_schemes import AuthSchemeType, OAuth1
from tieline_core.resources.connections import CredentialType

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
    world: ClusterCache,
    connection: ObjectView,
    item: ObjectView,
    *,
    scheme: ObjectView,
    identifier: str,
    now: datetime,
    exposed: bool = False,
) -> Json:
    """A credential as the internal endpoint tells it; without values once it has expired.

    With ``exposed``, its name in the manifest and the Secret's other texts come with it, for code to read.
    """
    result = {
        "id": credential_id(identifier, item),
        "type": item["type"],
        "authScheme": auth_schemes.without_references(scheme),
        "data": {} if expired(item, now) else _data(world, connection, item, scheme),
    }
    if exposed:
        fields = {} if expired(item, now) else _fields(world, connection, item)
        result |= {"name": item["id"], "fields": fields}
    return {**result, "expiresAt": item["expiresAt"]} if "expiresAt" in item else result


def _fields(world: ClusterCache, connection: ObjectView, item: ObjectView) -> Json:
    """What a Secret has beside the values of the credential's type. Nothing that is for token requests is among it."""
    kind = CredentialType(item["type"])
    if kind not in _WITH_FIELDS:
        return {}
    stored = _stored(world, connection["metadata"]["namespace"], item.get("secretRef"))
    others = stored.keys() - from_secret(kind, stored).keys() - _NEVER_FIELDS
    found = {key: base64.b64decode(stored[key]) for key in others}
    return {key: value.decode() for key, value in found.items() if _is_text(value)}


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def token_secret_of(world: ClusterCache, connection: ObjectView, item: ObjectView) -> ObjectView | None:
    """The Secret with the tokens that the platform keeps for a credential; only the connection's own."""
    found = world.secrets.get(*secret_key_of(connection, item["id"]))
    return found if found is not None and holds_tokens_of(found, connection) else None


def _data(world: ClusterCache, connection: ObjectView, item: ObjectView, scheme: ObjectView) -> Json:
    namespace, kind = connection["metadata"]["namespace"], CredentialType(item["type"])
    stored = _stored(world, namespace, item.get("secretRef"))
    if kind in OAUTH2:
        return _tokens(world, connection, item, from_secret(CredentialType.OAUTH2_TOKEN, stored))
    data = from_secret(kind, stored)
    if scheme["type"] == AuthSchemeType.OAUTH1:
        # Its signatures need the consumer's secret and the token's, which REST's credential does not have.
        own = connection["metadata"]["name"] if item.get("authSchemeConfig") else None
        consumer = _consumer(world, namespace, scheme.get("oauth1") or {}, scheme_of=own)
        data |= _texts({**consumer, **stored}, "consumerKey", "consumerSecret", "oauthTokenSecret")
        if stored.get("state"):
            return _authorised(world, connection, item, data)
    return data


def _authorised(world: ClusterCache, connection: ObjectView, item: ObjectView, data: Json) -> Json:
    """With the token credentials that an authorisation has brought; what it was brought with stays here."""
    data = {key: value for key, value in data.items() if key in ("consumerKey", "consumerSecret")}
    kept = (token_secret_of(world, connection, item) or {}).get("data") or {}
    tokens = _texts(kept, "accessToken", "oauthTokenSecret")
    if tokens.get("accessToken"):
        data |= {"oauthToken": tokens["accessToken"], "oauthTokenSecret": tokens.get("oauthTokenSecret", "")}
    return data


def _consumer(
    world: ClusterCache, namespace: str, oauth1: ObjectView, *, scheme_of: str | None
) -> Mapping[str, str]:
    """What the scheme's Secret, or else the credential that the scheme names, has of the consumer.

    ``scheme_of`` is the name of the Connection that brings the scheme; None for a scheme of the system.
    """
    if oauth1.get("secretRef") or not oauth1.get("credentialId"):
        return _stored(world, namespace, oauth1.get("secretRef"))
    found = consumer_credential(
        CredentialDirectory(world), namespace, OAuth1.model_validate(oauth1), scheme_of=scheme_of
    )
    reference = found.item.secret_ref if isinstance(found, LinkedCredential) else None
    values = _stored(world, namespace, {"name": reference.name} if reference else None)
    names = {"clientId": "consumerKey", "clientSecret": "consumerSecret"}
    return {ours: values[theirs] for theirs, ours in names.items() if theirs in values}


def _tokens(world: ClusterCache, connection: ObjectView, item: ObjectView, given: Json) -> Json:
    """The kept tokens, or else those that a person has given as they are."""
    kept = token_secret_of(world, connection, item)
    data = from_secret(CredentialType.OAUTH2_TOKEN, (kept or {}).get("data") or {})
    if not data.get("accessToken"):
        data = given if item["type"] == CredentialType.OAUTH2_TOKEN else {}
    return {key: data[key] for key in _FOR_PODS if key in data}


def _stored(world: ClusterCache, namespace: str, reference: ObjectView | None) -> Mapping[str, str]:
    """The data of a Secret. Only those of our type: whoever may write Connections must not read any other."""
    secret = world.secrets.get(namespace, reference["name"]) if reference else None
    if secret is None or secret.get("type") != CREDENTIAL_TYPE:
        return {}
    return secret.get("data") or {}


def _texts(stored: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: base64.b64decode(stored[key]).decode("utf-8", "replace") for key in keys if key in stored}
