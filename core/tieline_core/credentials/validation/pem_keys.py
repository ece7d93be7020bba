"""Certificates and keys in PEM: whether they can be read, until when they hold, whether they fit."""

from dataclasses import dataclass, replace
from datetime import datetime

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

_BEGIN = b"-----BEGIN "


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """What is known of a client certificate, without its key's value."""

    problem: str = ""
    """Why it cannot be used, whatever the time is; empty when it can."""
    not_before: datetime | None = None
    not_after: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class SigningKey:
    """What is known of a key: its family, or that it is none."""

    pem: bool
    """Whether it looks like PEM."""
    family: str = ""
    """RSA, P-256, P-384, P-521, or "" for what signs no token."""
    problem: str = ""
    """Why PEM cannot be used."""


def certificate_of(*, certificate: bytes, key: bytes, ca: bytes = b"") -> Certificate:
    """Reads a client certificate with its chain, its key and the authority that it comes with."""
    try:
        leaf = x509.load_pem_x509_certificates(certificate)[0]
    except (ValueError, IndexError):
        return Certificate(problem="certificate is not a certificate in PEM; give the text from BEGIN to END")
    found = Certificate(not_before=leaf.not_valid_before_utc, not_after=leaf.not_valid_after_utc)
    private, problem = _private_key(key)
    if private is None:
        return replace(found, problem=f"key {problem}")
    if _public(leaf) != private.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo):
        return replace(
            found, problem="key does not belong to the certificate; give the two that were made together"
        )
    if ca.strip() and not _is_certificate(ca):
        return replace(found, problem="ca is not a certificate in PEM; correct it, or leave it out")
    return found


def signing_key_of(value: bytes) -> SigningKey:
    """Reads what is to sign: a private key in PEM, or any other bytes (a shared secret)."""
    if _BEGIN not in value:
        return SigningKey(pem=False)
    private, problem = _private_key(value)
    if private is None:
        return SigningKey(pem=True, problem=problem)
    return SigningKey(pem=True, family=_family(private))


def _private_key(value: bytes) -> tuple[PrivateKeyTypes | None, str]:
    try:
        return load_pem_private_key(value, password=None), ""
    except TypeError:
        return None, "is encrypted; give it without a password"
    except (ValueError, UnsupportedAlgorithm):
        return None, "is not a private key in PEM; give the text from BEGIN to END"


def _is_certificate(value: bytes) -> bool:
    try:
        return bool(x509.load_pem_x509_certificates(value))
    except ValueError:
        return False


def _public(leaf: x509.Certificate) -> bytes:
    try:
        return leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    except (ValueError, UnsupportedAlgorithm):
        return b""


def _family(private: PrivateKeyTypes) -> str:
    if isinstance(private, rsa.RSAPrivateKey):
        return "RSA"
    if isinstance(private, ec.EllipticCurvePrivateKey):
        return {"secp256r1": "P-256", "secp384r1": "P-384", "secp521r1": "P-521"}.get(private.curve.name, "")
    return ""
