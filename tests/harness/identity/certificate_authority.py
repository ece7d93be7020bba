"""A certificate authority of a test's own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = timedelta(days=1)


def pem(key: ec.EllipticCurvePrivateKey, password: bytes | None = None) -> str:
    """A private key as PEM, encrypted where there is a password."""
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    ).decode()


class Authority:
    """Issues certificates for 127.0.0.1 and a host, good from yesterday to tomorrow."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
        self._certificate = self._sign(self._name, self._key)
        self.ca = self._pem(self._certificate)

    def issue(self, name: str, host: str = "localhost") -> tuple[str, ec.EllipticCurvePrivateKey]:
        """A certificate with this common name, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self._pem(self._sign(subject, key, host=host)), key

    def _sign(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, *, host: str = ""
    ) -> x509.Certificate:
        """That of a host; without one, that of the authority itself."""
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - DAY)
            .not_valid_after(now + DAY)
            .add_extension(x509.BasicConstraints(ca=not host, path_length=None), critical=True)
        )
        if host:
            names = [x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName(host)]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256())

    @staticmethod
    def _pem(certificate: x509.Certificate) -> str:
        return certificate.public_bytes(serialization.Encoding.PEM).decode()
