"""Certificates of the platform's own authority. Pure but for random keys."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_VALID = timedelta(days=365)
CERTIFICATE_VALID = timedelta(days=90)
BACKDATED = timedelta(minutes=5)
"""By how much certificates begin earlier than they are made: clocks differ."""
MAX_BUNDLE_BYTES = 64 << 10
_AUTHORITY_NAME = "Tieline"


class InvalidCertificateError(ValueError):
    """What a Secret holds is no certificate with its key. The message quotes nothing of it."""


@dataclass(frozen=True)
class Issued:
    """A certificate with its key, both in PEM."""

    certificate: str
    key: str = field(repr=False)

    def __post_init__(self) -> None:
        """Raises InvalidCertificateError."""
        if self._private.public_key() != self._parsed.public_key():
            raise InvalidCertificateError("The key is not that of the certificate")

    @property
    def made(self) -> datetime:
        return self._parsed.not_valid_before_utc + BACKDATED

    @property
    def expires(self) -> datetime:
        return self._parsed.not_valid_after_utc

    @property
    def names(self) -> frozenset[str]:
        """The DNS names that it is for."""
        try:
            found = self._parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return frozenset()
        return frozenset(found.value.get_values_for_type(x509.DNSName))

    @property
    def is_authority(self) -> bool:
        """Whether it may issue others."""
        try:
            found = self._parsed.extensions.get_extension_for_class(x509.BasicConstraints)
        except x509.ExtensionNotFound:
            return False
        return found.value.ca

    def is_due(self, now: datetime) -> bool:
        """Whether no more than a third of its life is left."""
        return self.expires - now <= (self.expires - self.made) / 3

    def is_issued_by(self, authority: "Issued") -> bool:
        """Whether the authority has signed it."""
        try:
            self._parsed.verify_directly_issued_by(authority._parsed)
        except (ValueError, TypeError, InvalidSignature):
            return False
        return True

    @cached_property
    def _parsed(self) -> x509.Certificate:
        try:
            return x509.load_pem_x509_certificate(self.certificate.encode())
        except ValueError:
            raise InvalidCertificateError("The certificate is not in PEM") from None

    @cached_property
    def _private(self) -> ec.EllipticCurvePrivateKey:
        try:
            found = serialization.load_pem_private_key(self.key.encode(), password=None)
        except (ValueError, TypeError):
            raise InvalidCertificateError("The key is not in PEM") from None
        if not isinstance(found, ec.EllipticCurvePrivateKey):
            raise InvalidCertificateError("The key is not one of an elliptic curve")
        return found

    @classmethod
    def authority(cls, now: datetime) -> Self:
        """A new authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        # Authorities of one name would be mixed up while there are two.
        serial = x509.random_serial_number()
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{_AUTHORITY_NAME} {serial:x}")])
        builder = (
            _builder(key, now, AUTHORITY_VALID, serial)
            .subject_name(name)
            .issuer_name(name)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_others=True), critical=True)
        )
        return cls(_pem(builder.sign(key, hashes.SHA256())), _key_pem(key))

    def issue(self, names: Sequence[str], now: datetime) -> "Issued":
        """A new certificate for a server with these DNS names, of this authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        # A common name has at most 64 characters, so there is none.
        builder = (
            _builder(key, now, CERTIFICATE_VALID, x509.random_serial_number())
            .subject_name(x509.Name([]))
            .issuer_name(self._parsed.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=True)
            .add_extension(_usage(signs_others=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._private.public_key()), critical=False
            )
        )
        return Issued(_pem(builder.sign(self._private, hashes.SHA256())), _key_pem(key))


def bundle(certificates: Sequence[str]) -> str:
    """The certificates (PEM, one or several in a text) as one text, each once, in an order of their own.

    Anything else in it is dropped.

    Raises InvalidCertificateError where one cannot be read, or they are more than MAX_BUNDLE_BYTES.
    """
    try:
        found = [one for text in certificates for one in x509.load_pem_x509_certificates(text.encode())]
    except ValueError:
        raise InvalidCertificateError("An authority is not in PEM") from None
    text = "".join(sorted({_pem(one) for one in found}))
    if len(text) > MAX_BUNDLE_BYTES:
        raise InvalidCertificateError(f"The authorities take more than {MAX_BUNDLE_BYTES >> 10} KiB")
    return text


def _builder(
    key: ec.EllipticCurvePrivateKey, now: datetime, valid: timedelta, serial: int
) -> x509.CertificateBuilder:
    begins = now.astimezone(UTC)
    return (
        x509.CertificateBuilder()
        .public_key(key.public_key())
        .serial_number(serial)
        .not_valid_before(begins - BACKDATED)
        .not_valid_after(begins + valid)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        encipher_only=False,
        decipher_only=False,
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_pem(key: ec.EllipticCurvePrivateKey) -> str:
    encoding, kind = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, kind, serialization.NoEncryption()).decode()
