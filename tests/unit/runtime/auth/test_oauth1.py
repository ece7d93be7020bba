"""OAuth 1.0 requests, checked by oauthlib's server side."""

from typing import Any

import pytest
from oauthlib.oauth1 import RequestValidator, ResourceEndpoint

from tests.unit.oauth.oauth1_consumer import PRIVATE, PUBLIC
from tests.unit.runtime.external_systems import (
    ContextFor,
    External,
    Seen,
    environment,
    scheme_credential,
)
from tieline import CredentialError

CONSUMER_SECRET = "consumer secret & more"
# oauthlib's server decodes plain signatures in queries and forms twice, so this one has nothing to decode.
PLAIN_SECRET = "consumer-secret"
STYLES = ["AUTH_STYLE_AUTHORIZATION_HEADER", "AUTH_STYLE_FORM", "AUTH_STYLE_QUERY"]


class Provider(RequestValidator):  # type: ignore[misc]
    """Knows one consumer and one token."""

    enforce_ssl = False
    client_key_length = nonce_length = access_token_length = (2, 100)
    safe_characters = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
    dummy_client = dummy_access_token = "dummy"

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method

    @property
    def allowed_signature_methods(self) -> tuple[str]:
        return (self.method,)

    def get_client_secret(self, client_key: str, _request: Any) -> str:
        return secret_for(self.method)

    def get_access_token_secret(self, client_key: str, token: str, _request: Any) -> str:
        return "token-secret"

    def get_rsa_key(self, client_key: str, _request: Any) -> str:
        return PUBLIC

    def validate_client_key(self, client_key: str, _request: Any) -> bool:
        return client_key == "consumer"

    def validate_access_token(self, client_key: str, token: str, _request: Any) -> bool:
        return token == "token-1"

    def validate_realms(self, *_arguments: Any, **_options: Any) -> bool:
        return True

    def validate_timestamp_and_nonce(self, *_arguments: Any, **_options: Any) -> bool:
        return True


def accepted(seen: Seen, method: str) -> bool:
    """Whether the provider takes the request as it arrived."""
    form = seen.headers.get("Content-Type", "").startswith("application/x-www-form-urlencoded")
    headers = {name: seen.headers[name] for name in ("Authorization", "Content-Type") if name in seen.headers}
    if not form:
        headers.pop("Content-Type", None)
    valid, _ = ResourceEndpoint(Provider(method)).validate_protected_resource_request(
        str(seen.url), http_method=seen.method, body=seen.body.decode() if form else None, headers=headers
    )
    return bool(valid)


def secret_for(method: str) -> str:
    if method.startswith("RSA"):
        return PRIVATE
    return PLAIN_SECRET if method == "PLAINTEXT" else CONSUMER_SECRET


def oauth1(method: str, style: str = STYLES[0], **data: str) -> dict[str, Any]:
    options = {
        "consumerKey": "consumer",
        "signatureMethod": method,
        "tokenEndpoint": {"url": "https://p.example/token", "parameterTransmission": style},
    }
    values = {
        "oauthToken": "token-1",
        "oauthTokenSecret": "token-secret",
        "consumerSecret": secret_for(method),
        **data,
    }
    return scheme_credential("oauth1", options, type="oauth1", **values)


@pytest.mark.parametrize(
    "method",
    ["HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512", "RSA-SHA1", "RSA-SHA256", "RSA-SHA512", "PLAINTEXT"],
)
@pytest.mark.parametrize("style", STYLES)
async def test_the_provider_accepts_each_method_in_each_transmission(
    external: External, context_for: ContextFor, method: str, style: str
) -> None:
    ctx = context_for(environment(external.url, oauth1(method, style)))
    await ctx.fetch("shop", "/orders?a=1%2F2&b=x+y", method="POST", data={"ü": "a b&c"})
    seen = external.last
    assert accepted(seen, method)
    places = {
        STYLES[0]: "oauth_signature" in seen.headers.get("Authorization", ""),
        STYLES[1]: b"oauth_signature" in seen.body,
        STYLES[2]: "oauth_signature" in seen.url.query,
    }
    assert [name for name, carried in places.items() if carried] == [style]


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("options", [{"method": "GET"}, {"method": "POST", "data": b"\xff\x00"}])
async def test_requests_without_a_form_are_accepted_too(
    external: External, context_for: ContextFor, style: str, options: dict[str, Any]
) -> None:
    await context_for(environment(external.url, oauth1("HMAC-SHA256", style))).fetch(
        "shop", "/x?q=1", **options
    )
    assert accepted(external.last, "HMAC-SHA256")


async def test_the_provider_refuses_another_secret(external: External, context_for: ContextFor) -> None:
    wrong = oauth1("HMAC-SHA1", consumerSecret="another")
    await context_for(environment(external.url, wrong)).fetch("shop", "/x")
    assert not accepted(external.last, "HMAC-SHA1")


async def test_an_rsa_method_without_a_key_says_what_is_needed(
    external: External, context_for: ContextFor
) -> None:
    with pytest.raises(CredentialError, match="private key in PEM"):
        await context_for(environment(external.url, oauth1("RSA-SHA1", consumerSecret="no key"))).fetch(
            "shop"
        )
    assert external.seen == []
