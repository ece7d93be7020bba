"""From a credential of OAuth 1.0 to the consumer that its requests are signed by, and to its token endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tieline_core.credentials.linker import Directory, LinkedCredential, Lookups, Problem, client_of
from tieline_core.kubernetes.reading import texts_of
from tieline_core.oauth.oauth1_requests import Consumer
from tieline_core.resources.auth_schemes import OAuth1, OAuth1Endpoint, OAuth2Client


@dataclass(frozen=True, kw_only=True)
class OAuth1Target:
    """Where token credentials are asked for, and as whom."""

    endpoint: OAuth1Endpoint
    consumer: Consumer


def consumer_credential(
    directory: Directory, namespace: str, oauth1: OAuth1, *, scheme_of: str | None = None
) -> LinkedCredential | Problem | None:
    """The credential of the organisation that a scheme names for its consumer; None where it names none.

    ``scheme_of`` is the name of the Connection that the scheme belongs to; None for a scheme of a System. A
    connection's own scheme decides where the consumer's secret is sent (``PLAINTEXT`` sends it as it is) and which
    code gets it, so it may name credentials of its own connection only.
    """
    if not oauth1.credential_id:
        return None
    found = client_of(directory, namespace, OAuth2Client(credential_id=oauth1.credential_id))
    if scheme_of is not None and isinstance(found, LinkedCredential) and found.connection != scheme_of:
        return Problem(
            "CredentialNotGranted",
            f'Credential "{oauth1.credential_id}" belongs to another connection, and only auth schemes of systems '
            "may name it for OAuth 1.0; have an administrator add the scheme to the system, or set consumerSecret "
            "in this connection",
        )
    return found


async def consumer_of(
    lookups: Lookups, namespace: str, oauth1: OAuth1, own: Mapping[str, str], *, scheme_of: str | None = None
) -> Consumer | Problem:
    """The consumer; ``own`` are the values of the connection's Secret, which go before the scheme's.

    ``scheme_of`` as for ``consumer_credential``.
    """
    key, secret = oauth1.consumer_key or own.get("consumerKey", ""), own.get("consumerSecret", "")
    if not secret and oauth1.secret_ref:
        values = await _texts(lookups, namespace, oauth1.secret_ref.name)
        key, secret = key or values.get("consumerKey", ""), values.get("consumerSecret", "")
    elif not secret and oauth1.credential_id:
        found = consumer_credential(lookups, namespace, oauth1, scheme_of=scheme_of)
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
    return texts_of(data or {})
