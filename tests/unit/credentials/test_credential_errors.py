"""What is wrong with a credential is told by a sentence, and never with one of its values."""

# ruff: noqa: E501  (a table reads best with a case a line)

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from tests.harness.identity.certificate_authority import Authority, pem
from tieline_core.credentials.validation.credential_findings import KnownCredential, findings, recheck_times
from tieline_core.credentials.validation.secret_facts import TokenFacts, facts_of, tokens_of
from tieline_core.oauth import token_secret_codec
from tieline_core.resources.auth_schemes import AuthSchemeConfig
from tieline_core.resources.connections import ConnectionCredential

NOW = datetime.now(UTC)
AUTHORITY = Authority()
CERTIFICATE, KEY = AUTHORITY.issue("client")
OTHER_KEY = pem(ec.generate_private_key(ec.SECP256R1()))
P384 = pem(ec.generate_private_key(ec.SECP384R1()))
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
RSA_KEY = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
ENCRYPTED = RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")).decode()


def scheme(kind: str, **fields: Any) -> AuthSchemeConfig:
    first, *rest = kind.split("-")
    key = first + "".join(word.capitalize() for word in rest)
    return AuthSchemeConfig.model_validate({"id": "s", "type": kind, key: fields})


def known(
    kind: str, of: AuthSchemeConfig | None, values: dict[str, str | bytes] | None, **more: Any
) -> KnownCredential:
    item = {"id": "main", "type": kind, "authSchemeConfigId": "s", "secretRef": {"name": "main"}}
    data = {
        key: base64.b64encode(value if isinstance(value, bytes) else value.encode()).decode()
        for key, value in (values or {}).items()
    }
    secret = {"type": "tieline.dev/credential", "metadata": {}, "data": data} if values is not None else None
    consumer = more.pop("consumer", None)
    return KnownCredential(
        item=ConnectionCredential.model_validate({**item, **more.pop("item", {})}),
        scheme=of,
        namespace="acme",
        system="shop",
        secret=facts_of("main", secret),
        consumer=known("string", of, consumer).secret if consumer else None,
        **more,
    )


KEY_IN_HEADER = scheme("api-key", name="X-Key", **{"in": "header"})
KEY_IN_QUERY = scheme("api-key", name="key", **{"in": "query"})
HMAC = scheme("hmac", name="X-S", algorithm="sha256", digestInputs=["body"], **{"in": "header"})
BASIC, TLS = scheme("basic-auth"), scheme("certificate")
TOKEN = scheme("oauth2", tokenUrl="https://a/t", grant={"type": "password", "password": {}})
PAIR = {"certificate": CERTIFICATE, "key": pem(KEY)}


def jwt(algorithm: str) -> AuthSchemeConfig:
    return scheme("jwt-bearer", algorithm=algorithm)


CASES: list[tuple[str, KnownCredential, str, str]] = [
    ("a key is fine", known("string", KEY_IN_HEADER, {"value": "k"}), "", ""),
    ("bytes are fine for a signature", known("binary", HMAC, {"value": b"\xff\x00"}), "", ""),
    ("a pair is fine", known("certificate", TLS, {**PAIR, "ca": AUTHORITY.ca}), "", ""),
    ("the scheme is gone", known("string", None, {"value": "k"}), "AuthSchemeNotFound", "add the scheme"),
    ("the type does not fit", known("string", BASIC, {"value": "k"}), "CredentialTypeWrong", "basic-auth"),
    ("there is no Secret", known("string", KEY_IN_HEADER, None), "SecretNotFound", "create it"),
    ("a key is missing", known("basic-auth", BASIC, {"username": "u"}), "SecretKeyMissing", "password"),
    ("a value is empty", known("string", KEY_IN_HEADER, {"value": ""}), "SecretKeyMissing", "value"),
    ("bytes where text is needed", known("binary", KEY_IN_HEADER, {"value": b"\xff"}), "ValueNotText", "UTF-8"),
    ("a file's last line break", known("string", KEY_IN_HEADER, {"value": "hush\n"}), "ValueBroken", "line break"),
    ("which a query can carry", known("string", KEY_IN_QUERY, {"value": "hush\n"}), "", ""),
    ("a colon in the user name", known("basic-auth", BASIC, {"username": "a:b", "password": ""}), "UsernameWrong", "7617"),
    ("no certificate", known("certificate", TLS, {"certificate": "hush", "key": pem(KEY)}), "CertificateWrong", "certificate in PEM"),
    ("no key", known("certificate", TLS, {"certificate": CERTIFICATE, "key": "hush"}), "CertificateWrong", "private key in PEM"),
    ("an encrypted key", known("certificate", TLS, {"certificate": CERTIFICATE, "key": ENCRYPTED}), "CertificateWrong", "without a password"),
    ("another certificate's key", known("certificate", TLS, {"certificate": CERTIFICATE, "key": OTHER_KEY}), "CertificateWrong", "does not belong"),
    ("no authority", known("certificate", TLS, {**PAIR, "ca": "hush"}), "CertificateWrong", "ca is not"),
    ("a secret for HS", known("jwt-bearer", jwt("HS256"), {"key": "hush"}), "", ""),
    ("a key for HS", known("jwt-bearer", jwt("HS512"), {"key": RSA_KEY}), "KeyWrong", "shared secret"),
    ("a secret for RS", known("jwt-bearer", jwt("RS256"), {"key": "hush"}), "KeyWrong", "not a private key"),
    ("a key for RS", known("jwt-bearer", jwt("RS256"), {"key": RSA_KEY}), "", ""),
    ("a key for RS in a string", known("string", jwt("RS512"), {"value": RSA_KEY}), "", ""),
    ("another family", known("jwt-bearer", jwt("RS256"), {"key": P384}), "KeyWrong", "needs RSA"),
    ("another curve", known("jwt-bearer", jwt("ES256"), {"key": P384}), "KeyWrong", "P-384"),
    ("the right curve", known("jwt-bearer", jwt("ES384"), {"key": P384}), "", ""),
    ("an encrypted signing key", known("jwt-bearer", jwt("RS256"), {"key": ENCRYPTED}), "KeyWrong", "encrypted"),
    ("no consumer's secret", known("oauth1", scheme("oauth1"), {"oauthToken": "t"}), "SecretKeyMissing", "consumerSecret"),
    ("the scheme's consumer", known("oauth1", scheme("oauth1"), {"oauthToken": "t"}, consumer={"consumerSecret": "hush"}), "", ""),
    ("RSA without a key", known("oauth1", scheme("oauth1", signatureMethod="RSA-SHA1"), {"oauthToken": "t", "consumerSecret": "hush"}), "KeyWrong", "RSA"),
    ("a given token has ended", known("oauth2-token", TOKEN, {"accessToken": "hush", "expiresAt": "2020-01-01T00:00:00Z"}), "CredentialRefused", "no refresh token"),
    ("but can be refreshed", known("oauth2-token", TOKEN, {"accessToken": "hush", "refreshToken": "r", "expiresAt": "2020-01-01T00:00:00Z"}), "", ""),
    ("the provider said no", known("oauth2-token", TOKEN, {"accessToken": "hush"}, tokens=TokenFacts(refused="invalid_grant")), "CredentialRefused", "invalid_grant"),
    ("the provider was away", known("oauth2-token", TOKEN, {"accessToken": "hush"}, tokens=TokenFacts(obtained=True, not_before=NOW)), "", ""),
    ("the time has come", known("string", KEY_IN_HEADER, None, item={"expiresAt": NOW}), "CredentialExpired", "has expired at"),
]  # fmt: skip


@pytest.mark.parametrize(("which", "reason", "words"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_is_wrong_is_reported(which: KnownCredential, reason: str, words: str) -> None:
    found = findings(which, NOW)
    assert [one.reason for one in found] == ([reason] if reason else [])
    assert all(words in one.message and "hush" not in one.message for one in found)


def test_a_certificate_is_judged_again_when_it_ends() -> None:
    there = known("certificate", TLS, dict(PAIR))
    (ends,) = recheck_times(there, NOW)
    assert [one.reason for one in findings(there, ends)] == ["CertificateEnded"]
    assert [one.reason for one in findings(there, NOW - timedelta(days=30))] == ["CertificateNotYetValid"]


def test_facts_hold_no_values() -> None:
    there = known(
        "oauth2-token", TOKEN, {"accessToken": "hush", "password": "hush", "key": "hush", "value": "hush"}
    )
    assert "hush" not in repr(there)


def test_facts_of_tokens_come_from_their_secret() -> None:
    tokens = token_secret_codec.Tokens(
        access_token="a", refresh_token="r", issued_at=NOW, expires_at=NOW + timedelta(hours=1)
    )
    blank = {"metadata": {"name": "t", "namespace": "acme"}}
    facts = tokens_of(token_secret_codec.with_tokens(blank, tokens))
    assert (facts.obtained, facts.refused, facts.expires_at) == (True, None, tokens.expires_at)
    assert facts.due_at == token_secret_codec.due_at(tokens)
    refused = token_secret_codec.marked(blank, {token_secret_codec.REFUSED: "f:invalid_grant"})
    assert tokens_of(refused).refused == "invalid_grant"
