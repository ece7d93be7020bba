"""Signatures by private keys, checked with the public ones that senders publish or show to their customers."""

import base64
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache

import jwt
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from tieline.auth.prepared_request import InvalidCredentialError

MIN_RSA_BITS = 2048
_RSA: Mapping[str, tuple[padding.AsymmetricPadding, hashes.HashAlgorithm]] = {
    "rsa-sha1": (padding.PKCS1v15(), hashes.SHA1()),  # noqa: S303  (what Paddle Classic and Amazon SNS sign with)
    "rsa-sha256": (padding.PKCS1v15(), hashes.SHA256()),
    "rsa-sha512": (padding.PKCS1v15(), hashes.SHA512()),
    "rsa-pss-sha256": (padding.PSS(padding.MGF1(hashes.SHA256()), padding.PSS.AUTO), hashes.SHA256()),
}
_MISFIT = "its key does not fit its auth scheme's algorithm"


@lru_cache(maxsize=64)
def public_key(value: str, encoding: str) -> PublicKeyTypes:
    """The key in PEM, as a certificate, as a JWK, or as bytes (SubjectPublicKeyInfo, or raw ones of Ed25519).

    Raises InvalidCredentialError.
    """
    text = value.strip()
    try:
        if text.startswith("-----BEGIN CERTIFICATE"):
            return x509.load_pem_x509_certificate(text.encode()).public_key()
        if text.startswith("-----BEGIN"):
            return serialization.load_pem_public_key(text.encode())
        if text.startswith("{"):
            return _jwk(json.loads(text))
        content = bytes.fromhex(text) if encoding == "hex" else base64.b64decode(text, validate=True)
        if len(content) == 32:
            return ed25519.Ed25519PublicKey.from_public_bytes(content)
        return serialization.load_der_public_key(content)
    except InvalidCredentialError:
        raise
    except (ValueError, TypeError, jwt.PyJWTError, AttributeError):
        raise InvalidCredentialError(
            "its value is no public key: give the sender's key or certificate in PEM, or as it is shown to you"
        ) from None


def certificate_key(content: bytes, now: float) -> PublicKeyTypes:
    """The key of a certificate in PEM that is valid now; raises ValueError."""
    certificate = x509.load_pem_x509_certificate(content)
    moment = datetime.fromtimestamp(now, UTC)
    if not certificate.not_valid_before_utc <= moment <= certificate.not_valid_after_utc:
        raise ValueError("the certificate is not valid now")
    return certificate.public_key()


def verifies(key: PublicKeyTypes, algorithm: str, signature: bytes, content: bytes) -> bool:
    """Whether the owner of a key has signed the content. Raises InvalidCredentialError for a key of another kind."""
    check = _checked_by(key, algorithm)
    try:
        check(signature, content)
    except InvalidSignature:
        return False
    return True


def check_jwt_key(key: PublicKeyTypes, algorithm: str) -> None:
    """Refuse a key of another kind than a JWT's algorithm has; raises InvalidCredentialError."""
    fits = isinstance(key, rsa.RSAPublicKey) if algorithm.startswith("RS") else _is_p256(key)
    if not fits:
        raise InvalidCredentialError(_MISFIT)
    if isinstance(key, rsa.RSAPublicKey):
        _check_size(key)


def _checked_by(key: PublicKeyTypes, algorithm: str) -> Callable[[bytes, bytes], object]:
    if algorithm in _RSA and isinstance(key, rsa.RSAPublicKey):
        _check_size(key)
        scheme, digest = _RSA[algorithm]
        return lambda signature, content: key.verify(signature, content, scheme, digest)
    if algorithm == "ed25519" and isinstance(key, ed25519.Ed25519PublicKey):
        return key.verify
    if algorithm == "ecdsa-sha256" and isinstance(key, ec.EllipticCurvePublicKey):
        curve_digest = ec.ECDSA(hashes.SHA256())
        return lambda signature, content: key.verify(signature, content, curve_digest)
    raise InvalidCredentialError(_MISFIT)


def _check_size(key: rsa.RSAPublicKey) -> None:
    if key.key_size < MIN_RSA_BITS:
        raise InvalidCredentialError(
            f"its RSA key has {key.key_size} bits; at least {MIN_RSA_BITS} are accepted"
        )


def _is_p256(key: PublicKeyTypes) -> bool:
    return isinstance(key, ec.EllipticCurvePublicKey) and isinstance(key.curve, ec.SECP256R1)


def _jwk(content: dict[str, object]) -> PublicKeyTypes:
    # Plaid's answer has the key inside.
    inner = content.get("key")
    key = jwt.PyJWK.from_dict(inner if isinstance(inner, dict) else content).key
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey):
        return key
    raise InvalidCredentialError("its JWK is no public key; give the public one")
