"""From a credential of OAuth 1.0 to the consumer that its requests are signed by, and to its token endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tieline_core.oauth.linking import Directory, Linked, Lookups, Problem, client_of
from tieline_core.oauth.oauth1_requests import Consumer
from tieline_core.resources.auth_schemes import OAuth1, OAuth1Endpoint, OAuth2Client


@dataclass(frozen=True, kw_only=True)
class OAuth1Target:
    """Where token credentials are asked for, and as whom."""

    endpoint: OAuth1Endpoint
    consumer: Consumer


def consumer_credential(directory: Directory, namespace: str, oauth1: OAuth1) -> Linked | Problem | None:
    """The credential of the organisation that a scheme names for its consumer; None where it names none."""
    if not oauth1.credential_id:
        return None
    return client_of(directory, namespace, OAuth2Client(credential_id=oauth1.credential_id))


async def consumer_of(
    lookups: Lookups, namespace: str, oauth1: OAuth1, own: Mapping[str, str]
) -> Consumer | Problem:
    """The consumer; ``own`` are the values of the connection's Secret, which go before the scheme's."""
    key, secret = oauth1.consumer_key or own.get("consumerKey", ""), own.get("consumerSecret", "")
    if not secret and oauth1.secret_ref:
        values = await _texts(lookups, namespace, oauth1.secret_ref.name)
        key, secret = key or values.get("consumerKey", ""), values.get("consumerSecret", "")
    elif not secret and oauth1.credential_id:
        found = consumer_credential(lookups, namespace, oauth1)
        if isinstance(found, Problem):
            return found
        reference = found.item.secret_ref if found else None
        values = await _texts(lookups, namespace, reference.name if reference else "")
        key, secret = key or values.get("clientId", ""), values.get("clientSecret", "")
    if not key:
        return Problem(
            "ClientMissing", "No consumer key is given; set consumerKey in the scheme or in the Secret"
        )
    if not secret:
        return Problem(
            "SecretKeyMissing",
            "No consumer secret is found; set consumerSecret in the auth scheme, in the credential that its "
            "credentialId names, or in the connection's Secret",
        )
    return Consumer(key=key, secret=secret, method=oauth1.signature_method)


async def _texts(lookups: Lookups, namespace: str, name: str) -> dict[str, str]:
    data = await lookups.secret(namespace, name) if name else None
    return {key: value.decode("utf-8", "replace") for key, value in (data or {}).items()}
