"""JWTs and access tokens, as the receiver checks them; and shared secrets."""

import re
import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.unit.runtime.external_systems import ContextFor, External, environment, scheme_credential
from tieline import CredentialError, ForeignRedirectError
from tieline.auth.jwt_bearer import JwtCache
from tieline.configuration.snapshot import parse

CURVES: dict[str, ec.EllipticCurve] = {"256": ec.SECP256R1(), "384": ec.SECP384R1(), "512": ec.SECP521R1()}


def keys(algorithm: str) -> tuple[str, Any]:
    """What the credential holds, and what the receiver checks with."""
    if algorithm.startswith("HS"):
        return "s" * 64, "s" * 64
    private = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        if algorithm.startswith("RS")
        else ec.generate_private_key(CURVES[algorithm[2:]])
    )
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return pem.decode(), private.public_key()


@pytest.mark.parametrize("algorithm", [f"{family}{size}" for family in ("HS", "RS", "ES") for size in CURVES])
async def test_the_receiver_can_check_tokens_of_every_algorithm(
    external: External, context_for: ContextFor, algorithm: str
) -> None:
    private, public = keys(algorithm)
    options = {"algorithm": algorithm, "payload": {"iss": "tieline", "exp": 1, "tenant": 7}, "expiresIn": 60}
    credential = scheme_credential("jwt-bearer", options, type="jwt-bearer", key=private, keyId="k1")
    await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    word, token = external.last.headers["Authorization"].split(" ")
    claims = jwt.decode(
        token, public, algorithms=[algorithm], options={"require": ["iat", "exp", "jti", "iss"]}
    )
    assert word == "Bearer"
    assert (claims["iss"], claims["tenant"], claims["exp"] - claims["iat"]) == ("tieline", 7, 60)
    assert abs(claims["iat"] - time.time()) < 5
    assert jwt.get_unverified_header(token)["kid"] == "k1"


@pytest.mark.parametrize(("prefix", "pattern"), [("JWT", "JWT [^ ]+"), ("", "[^ ]+")])
async def test_the_word_before_the_token_is_the_schemes(
    external: External, context_for: ContextFor, prefix: str, pattern: str
) -> None:
    options = {"algorithm": "HS256", "authorizationHeaderPrefix": prefix}
    credential = scheme_credential("jwt-bearer", options, value="s" * 40)
    await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    assert re.fullmatch(pattern, external.last.headers["Authorization"])


def test_a_token_is_used_again_until_it_nears_its_end_and_never_after_a_change() -> None:
    now = 1_000_000.0
    tokens = JwtCache(lambda: now)

    def token(**options: Any) -> str:
        body = scheme_credential(
            "jwt-bearer", {"algorithm": "HS256", "expiresIn": 100, **options}, value="s" * 40
        )
        return tokens.token(parse(environment("http://h", body)).connections["shop"].credentials[0])

    first = token()
    now += 79
    assert token() == first
    assert token(payload={"a": 1}) != first
    now += 2
    assert token() != first


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "none"])
async def test_a_key_that_cannot_sign_is_told_without_its_value(
    external: External, context_for: ContextFor, algorithm: str
) -> None:
    credential = scheme_credential("jwt-bearer", {"algorithm": algorithm}, value="no-pem-at-all")
    with pytest.raises(CredentialError, match=r"algorithm|PEM") as failure:
        await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    assert "no-pem-at-all" not in str(failure.value)
    assert external.seen == []


@pytest.mark.parametrize(
    ("token_type", "sent"), [(None, "Bearer"), ("bearer", "Bearer"), ("Bearer", "Bearer"), ("bot", "Bearer")]
)
async def test_an_access_token_is_a_bearer_token_whatever_its_type(
    external: External, context_for: ContextFor, token_type: str | None, sent: str
) -> None:
    data = {"accessToken": "at-1", "refreshToken": "rt-1", "tokenType": token_type}
    credential = scheme_credential("oauth2", {}, type="oauth2-token", **data)
    await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    assert external.last.headers["Authorization"] == f"{sent} at-1"


async def test_a_credential_that_is_no_token_yet_says_what_to_do(
    external: External, context_for: ContextFor
) -> None:
    credential = scheme_credential("oauth2", {}, type="oauth2-code", code="c-12345")
    with pytest.raises(CredentialError, match="authorise the connection"):
        await context_for(environment(external.url, credential)).fetch("shop", "/orders")


def secret(place: str) -> dict[str, Any]:
    return scheme_credential("secret", {"name": "pin", "in": place}, value="p/n 4711")


async def test_a_shared_secret_goes_where_the_scheme_says(
    external: External, context_for: ContextFor
) -> None:
    await context_for(environment(external.url, secret("header"))).fetch("shop", "/x")
    assert external.last.headers["pin"] == "p/n 4711"
    await context_for(environment(external.url, secret("query"))).fetch("shop", "/x")
    assert external.last.url.query["pin"] == "p/n 4711"
    in_body = context_for(environment(external.url, secret("body")))
    await in_body.fetch("shop", "/x", method="POST", data={"a": "ü", "pin": "forged"})
    assert external.last.body == b"a=%C3%BC&pin=p%2Fn+4711"
    await in_body.fetch("shop", "/x", method="POST", json={"a": "ü", "pin": "forged"})
    assert external.last.body == '{"a":"ü","pin":"p/n 4711"}'.encode()
    assert external.last.headers["Content-Type"] == "application/json"


@pytest.mark.parametrize("options", [{}, {"data": b"raw"}, {"json": [1]}])
async def test_a_body_that_cannot_take_the_secret_is_refused(
    external: External, context_for: ContextFor, options: dict[str, Any]
) -> None:
    with pytest.raises(CredentialError, match="JSON object"):
        await context_for(environment(external.url, secret("body"))).fetch(
            "shop", "/x", method="POST", **options
        )
    assert external.seen == []


@pytest.mark.parametrize("status", [307, 308])
async def test_a_redirect_within_the_origin_has_the_secret_in_the_body_once(
    external: External, elsewhere: External, context_for: ContextFor, status: int
) -> None:
    external.redirects = {"/a": (status, "/b"), "/b": (status, f"{elsewhere.url}/c")}
    ctx = context_for(environment(external.url, secret("body")))
    with pytest.raises(ForeignRedirectError):
        await ctx.fetch("shop", "/a", method="POST", data={"a": "1"})
    assert [seen.body for seen in external.seen] == [b"a=1&pin=p%2Fn+4711"] * 2
    assert elsewhere.seen == []
