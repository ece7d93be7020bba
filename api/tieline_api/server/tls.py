"""The listener's certificate, which is replaced while it serves."""

import asyncio
import logging
import ssl
from pathlib import Path

from tieline_core.tls import CERTIFICATE, KEY

logger = logging.getLogger("tieline_api")

_LOOK_SECONDS = 10.0


class CertificateError(Exception):
    """There is no certificate to serve with. The message has the folder and quotes nothing of what is in it."""


class ServedCertificate:
    """The certificate in a folder. Connections that are open keep the one that they began with."""

    def __init__(self, folder: Path, *, look_seconds: float = _LOOK_SECONDS) -> None:
        """Raises CertificateError."""
        self._certificate, self._key = folder / CERTIFICATE, folder / KEY
        self._look_seconds = look_seconds
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            self._loaded = self._version()
            self._load()
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise CertificateError(f"The certificate in {folder} cannot be used: {reason}") from None

    async def follow(self) -> None:
        """Has new connections get the certificate that is in the folder then, until it is cancelled."""
        while True:
            await asyncio.sleep(self._look_seconds)
            try:
                version = self._version()
                if version != self._loaded:
                    self._load()
                    self._loaded = version
                    logger.info("Serving with another certificate")
            except OSError as error:
                logger.warning(
                    "The certificate cannot be read, serving with the last one: %s", error.strerror
                )

    def _load(self) -> None:
        # First into another context: half a pair would leave this one with none.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self._certificate, self._key)
        self.context.load_cert_chain(self._certificate, self._key)

    def _version(self) -> tuple[int, ...]:
        found = [path.stat() for path in (self._certificate, self._key)]
        return tuple(number for one in found for number in (one.st_ino, one.st_mtime_ns, one.st_size))
