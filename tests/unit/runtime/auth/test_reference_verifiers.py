"""Signatures and tokens, checked by a receiver that shares no library with the sender."""

import base64
import email
import io
import os
import time
from email.policy import HTTP
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from tests.unit.runtime.auth.reference_verifiers import (
    der,
    hmac_of,
    oauth1_base_string,
    oauth1_key,
    oauth1_parameters,
    signed_by,
    token_parts,
    values_of,
)
from tests.unit.runtime.external_systems import (
    ContextFor,
    External,
    Seen,
    api_key,
    basic,
    environment,
    scheme_credential,
)

KEY = b"\x00\xff" + os.urandom(30)
PRIVATE_KEYS = {
    "RS": rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "ES384": ec.generate_private_key(ec.SECP384R1()),
    "ES512": ec.generate_private_key(ec.SECP521R1()),
}
ENCODINGS = {
    "hex": bytes.hex,
    "base64": lambda raw: base64.b64encode(raw).decode(),
    "base64url": lambda raw: base64.urlsafe_b64encode(raw).decode().rstrip("="),
}


def signing(**options: Any) -> dict[str, Any]:
    return scheme_credential(
        "hmac",
        {"name": "X-Signature", "in": "header", "algorithm": "sha256", "digestInputs": ["body"], **options},
        type="binary",
        valueBase64=base64.b64encode(KEY).decode(),
    )


def private_pem(name: str) -> str:
    return (
        PRIVATE_KEYS[name]
        .private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        .decode()
    )


def public_pem(name: str) -> str:
    return (
        PRIVATE_KEYS[name]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        .decode()
    )


@pytest.mark.parametrize("algorithm", ["sha1", "sha256", "sha512"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("order", [["body"], ["url"], ["body", "url"], ["url", "body"]])
async def test_openssl_computes_the_same_signature_over_bytes_that_are_no_text(
    external: External, context_for: ContextFor, algorithm: str, encoding: str, order: list[str]
) -> None:
    body = os.urandom(4097)
    credential = signing(algorithm=algorithm, encoding=encoding, digestInputs=order)
    ctx = context_for(environment(external.url, credential))
    await ctx.fetch("shop", "/a%2Fb?q=ü&x=1+2", method="PUT", data=body)
    parts = {"body": body, "url": str(external.last.url).encode()}
    expected = hmac_of(b"".join(parts[part] for part in order), key=KEY, algorithm=algorithm)
    assert external.last.headers["X-Signature"] == ENCODINGS[encoding](expected)


async def test_a_multipart_body_arrives_whole_and_is_signed_as_it_arrives(
    external: External, context_for: ContextFor
) -> None:
    content = bytes(range(256)) * 300
    form = aiohttp.FormData()
    form.add_field("file", io.BytesIO(content), filename="a.bin", content_type="application/octet-stream")
    form.add_field("note", "grüße")
    await context_for(environment(external.url, signing())).fetch("shop", "/x", method="POST", data=form)
    seen = external.last
    head = f"Content-Type: {seen.headers['Content-Type']}\r\n\r\n".encode()
    file, note = email.message_from_bytes(head + seen.body, policy=HTTP).get_payload()
    assert file.get_payload(decode=True) == content
    assert note.get_payload(decode=True) == "grüße".encode()
    assert bytes.fromhex(seen.headers["X-Signature"]) == hmac_of(seen.body, key=KEY, algorithm="sha256")


async def test_several_credentials_are_signed_in_their_order(
    external: External, context_for: ContextFor
) -> None:
    """A signature covers what stands before it in the array, and nothing that stands behind it."""
    pin = scheme_credential("secret", {"name": "pin", "in": "body"}, value="4711")
    before = api_key("query", "k/1", name="key", id="before")
    behind = api_key("query", "k/2", name="late", id="behind")
    credential = signing(digestInputs=["url", "body"])
    ctx = context_for(environment(external.url, basic(), pin, before, credential, behind))
    await ctx.fetch("shop", "/orders?a=1", method="POST", json={"n": "ü"})
    seen = external.last
    url, _, late = str(seen.url).partition("&late=")
    assert late == "k%2F2"
    assert url.endswith("/orders?a=1&key=k%2F1")
    assert seen.body == '{"n":"ü","pin":"4711"}'.encode()
    assert seen.headers["Authorization"] == "Basic " + base64.b64encode("ann:pa55wörd".encode()).decode()
    expected = hmac_of(url.encode() + seen.body, key=KEY, algorithm="sha256")
    assert bytes.fromhex(seen.headers["X-Signature"]) == expected


@pytest.mark.parametrize("size", ["256", "384", "512"])
@pytest.mark.parametrize("family", ["HS", "RS", "ES"])
async def test_openssl_finds_every_jwt_signed_by_its_key(
    external: External, context_for: ContextFor, family: str, size: str
) -> None:
    algorithm, hash_ = f"{family}{size}", f"sha{size}"
    own = "RS" if family == "RS" else algorithm
    key = KEY.hex() if family == "HS" else private_pem(own)
    options = {"algorithm": algorithm, "payload": {"aud": "shop"}, "expiresIn": 60}
    credential = scheme_credential("jwt-bearer", options, type="jwt-bearer", key=key)
    await context_for(environment(external.url, credential)).fetch("shop", "/orders")
    token = external.last.headers["Authorization"].removeprefix("Bearer ")
    header, claims, signed, proof = token_parts(token)
    assert header["alg"] == algorithm
    assert claims["aud"] == "shop"
    assert claims["exp"] > time.time()
    if family == "HS":
        assert proof == hmac_of(signed, key=key.encode(), algorithm=hash_)
        return
    proof = der(proof) if family == "ES" else proof
    assert signed_by(signed, proof, public=public_pem(own), algorithm=hash_)
    assert not signed_by(signed + b"x", proof, public=public_pem(own), algorithm=hash_)


def oauth1(method: str, style: str) -> dict[str, Any]:
    options = {
        "consumerKey": "consumer",
        "signatureMethod": method,
        "tokenEndpoint": {"url": "https://p.example/token", "parameterTransmission": style},
    }
    secret = private_pem("RS") if method.startswith("RSA") else "consumer secret & more"
    data = {"oauthToken": "token-1", "oauthTokenSecret": "s/ü 2", "consumerSecret": secret}
    return scheme_credential("oauth1", options, type="oauth1", **data)


@pytest.mark.parametrize("style", ["AUTH_STYLE_AUTHORIZATION_HEADER", "AUTH_STYLE_FORM", "AUTH_STYLE_QUERY"])
@pytest.mark.parametrize(
    "method",
    ["HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512", "RSA-SHA1", "RSA-SHA256", "RSA-SHA512", "PLAINTEXT"],
)
@pytest.mark.parametrize("options", [{"data": {"ü": "a b&c", "b": ""}}, {"data": b"\xff\x00\xfe"}])
async def test_rfc_5849_read_anew_comes_to_the_same_signature(
    external: External, context_for: ContextFor, method: str, style: str, options: dict[str, Any]
) -> None:
    ctx = context_for(environment(external.url, oauth1(method, style)))
    await ctx.fetch("shop", "/orders?b=x+y&a=1%2F2&a=0", method="POST", **options)
    assert oauth1_accepted(external.last, method)


def oauth1_accepted(seen: Seen, method: str) -> bool:
    parameters = oauth1_parameters(seen)
    (sent,) = values_of(parameters, "oauth_signature")
    assert values_of(parameters, "oauth_consumer_key") == ["consumer"]
    assert values_of(parameters, "oauth_token") == ["token-1"]
    assert values_of(parameters, "oauth_signature_method") == [method]
    assert abs(int(*values_of(parameters, "oauth_timestamp")) - time.time()) < 60
    key = oauth1_key("consumer secret & more", "s/ü 2")
    if method == "PLAINTEXT":
        return sent.encode() == key
    kind, hash_ = method.lower().split("-")
    proof, message = base64.b64decode(sent), oauth1_base_string(seen)
    if kind == "rsa":
        return signed_by(message, proof, public=public_pem("RS"), algorithm=hash_)
    return proof == hmac_of(message, key=key, algorithm=hash_)
