"""Mutual TLS: the client certificate that a connection presents, and the authority that it trusts.

Contexts are kept by content, so that connections of one credential are pooled together, and a replaced
certificate gets connections of its own.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from tieline.auth.credential_values import field
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.configuration.snapshot import Credential


async def apply(request: PreparedRequest, credential: Credential) -> None:
    """Present the certificate when the connection is made."""
    if request.url.scheme != "https":
        raise InvalidCredentialError(
            "a certificate can only be shown over https; change the connection's base URL"
        )
    request.tls = _context(
        field(credential, "certificate"), field(credential, "key"), str(credential.data.get("ca") or "")
    )


@lru_cache(maxsize=128)
def _context(certificate: str, key: str, ca: str) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cadata=ca or None)
    except (ssl.SSLError, ValueError):
        raise InvalidCredentialError("its ca is not a certificate in PEM") from None
    if ca:
        # Authorities of one's own often lack what RFC 5280 wants of them since Python 3.13.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    with _private_file(f"{certificate.strip()}\n{key.strip()}\n".encode()) as path:
        try:
            context.load_cert_chain(path, password=_no_password)
        except (ssl.SSLError, ValueError):
            raise InvalidCredentialError(
                "its certificate and key cannot be used: both must be in PEM, the key without a password, "
                "and they must belong together"
            ) from None
    return context


def _no_password() -> str:
    """Called for an encrypted key only; without it OpenSSL would ask on the terminal."""
    raise ValueError("the key is encrypted")


@contextmanager
def _private_file(content: bytes) -> Iterator[str]:
    """A path to ``content`` for OpenSSL, which reads keys from paths only: memory where the system can."""
    if not hasattr(os, "memfd_create"):
        # Readable by its owner only (mkstemp's mode 0600), and gone when it was read.
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("tieline-certificate", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
