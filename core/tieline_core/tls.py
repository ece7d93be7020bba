"""Whether API and engine serve project pods by TLS, and where the certificates are."""

from enum import StrEnum

CERTIFICATE, KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
"""The keys of a Secret with a certificate, and the files of a folder in which it is mounted."""
AUTHORITIES_CONFIG_MAP = "tieline-ca"
"""In the namespace of each organisation: the authorities by which its pods verify API and engine."""


class TlsMode(StrEnum):
    """What the listeners for project pods speak."""

    DISABLED = "disabled"
    """Plain text alone."""
    OPTIONAL = "optional"
    """Both, for the time of an upgrade. Pods that the operator deploys use TLS."""
    REQUIRED = "required"
    """TLS alone."""

    @property
    def is_served(self) -> bool:
        """Whether there is TLS."""
        return self is not TlsMode.DISABLED

    @property
    def is_plain_served(self) -> bool:
        """Whether there is plain text."""
        return self is not TlsMode.REQUIRED


class CertificateSource(StrEnum):
    """Who makes the certificates."""

    OPERATOR = "operator"
    CERT_MANAGER = "cert-manager"
