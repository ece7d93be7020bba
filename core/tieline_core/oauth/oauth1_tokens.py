"""Temporary and token credentials of OAuth 1.0, asked for: answers read, and what a refusal means."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl

from yarl import URL

from tieline_core.oauth.oauth1_requests import TEMPORARY, TOKEN, Consumer, Signed, signed
from tieline_core.resources.auth_schemes import OAuth1Endpoint
from tieline_protocol.oauth.token_client import (
    MisconfiguredError,
    RefusedError,
    TokenClient,
    UnreachableError,
)

# The problem reporting extension of OAuth 1.0, which many providers answer with.
_PROBLEMS = frozenset(
    {
        "additional_authorization_required",
        "consumer_key_refused",
        "consumer_key_rejected",
        "consumer_key_unknown",
        "nonce_used",
        "parameter_absent",
        "parameter_rejected",
        "permission_denied",
        "permission_unknown",
        "signature_invalid",
        "signature_method_rejected",
        "timestamp_refused",
        "token_expired",
        "token_rejected",
        "token_revoked",
        "token_used",
        "user_refused",
        "verifier_invalid",
        "version_rejected",
    }
)
_REFUSING = frozenset({400, 401, 403})
_PASSING = frozenset({408, 425, 429})


@dataclass(frozen=True, kw_only=True)
class Issued:
    """Credentials that a provider has issued."""

    token: str = field(repr=False)
    secret: str = field(repr=False)


async def temporary_credentials(
    client: TokenClient,
    endpoint: OAuth1Endpoint,
    consumer: Consumer,
    *,
    callback: str,
    params: Mapping[str, str],
) -> Issued:
    """What a user is sent away with. Raises TokenError."""
    request = signed(endpoint, consumer, TEMPORARY, params, callback_uri=callback)
    found = await _asked(client, request, what="temporary credential endpoint")
    if found.get("oauth_callback_confirmed") != "true":
        # RFC 5849, section 2.1; without it another person's authorisation could be slipped in.
        raise MisconfiguredError(
            "The temporary credential endpoint does not confirm the callback, which OAuth 1.0 before revision A "
            "lacks; it cannot be used safely"
        )
    return Issued(token=found["oauth_token"], secret=found["oauth_token_secret"])


async def token_credentials(
    client: TokenClient,
    endpoint: OAuth1Endpoint,
    consumer: Consumer,
    *,
    temporary: Issued,
    verifier: str,
    params: Mapping[str, str],
) -> Issued:
    """What a user's verifier is good for, once. Raises TokenError."""
    request = signed(
        endpoint,
        consumer,
        TOKEN,
        params,
        resource_owner_key=temporary.token,
        resource_owner_secret=temporary.secret,
        verifier=verifier,
    )
    found = await _asked(client, request, what="token endpoint")
    return Issued(token=found["oauth_token"], secret=found["oauth_token_secret"])


async def _asked(client: TokenClient, request: Signed, *, what: str) -> dict[str, str]:
    # As it was signed: nothing may quote it otherwise.
    url = URL(request.url, encoded=True) if request.url.isascii() else request.url
    status, retry_after, answer = await client.send(
        url, body=request.body, headers=request.headers, what=what
    )
    if status >= 500 or status in _PASSING:
        raise UnreachableError(f"The {what} answered {status}; it is tried again", retry_after=retry_after)
    if 300 <= status < 400:
        raise MisconfiguredError(f"The {what} redirects ({status}); set it to where it redirects to")
    try:
        found = dict(parse_qsl(answer.decode().strip(), keep_blank_values=True))
    except ValueError:
        found = {}
    problem = found.get("oauth_problem", "")
    if problem or status in _REFUSING:
        code = problem if problem in _PROBLEMS else f"http_{status}"
        raise RefusedError(
            f"The provider refused the OAuth 1.0 credentials ({code}); connect again, or correct the consumer",
            code=code,
        )
    if status >= 300 or not found.get("oauth_token") or "oauth_token_secret" not in found:
        raise MisconfiguredError(f"The {what} answered {status} without a token; check the auth scheme's url")
    return found
