"""Certificates of an authority like the operator's in a folder, and a server that nobody should trust."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from tieline_core.tls import AUTHORITIES, CERTIFICATE, KEY
from tieline_operator.tls.certificates import Issued, bundle


@dataclass
class CertificateFolder:
    """What is mounted into a server and its clients."""

    folder: Path
    authority: Issued = field(default_factory=lambda: Issued.authority(datetime.now(UTC)))

    @property
    def authorities(self) -> Path:
        """The file that clients trust."""
        return self.folder / AUTHORITIES

    def trust(self, *authorities: Issued) -> None:
        """Replaces what clients trust."""
        self._replace(AUTHORITIES, bundle([one.certificate for one in authorities or (self.authority,)]))

    def issue(self) -> Issued:
        """Gives the server another certificate. Both files are replaced, and never half written."""
        issued = self.authority.issue(["localhost"], datetime.now(UTC))
        self._replace(KEY, issued.key)
        self._replace(CERTIFICATE, issued.certificate)
        return issued

    def _replace(self, name: str, text: str) -> None:
        new = self.folder / f".{name}"
        new.write_text(text)
        new.rename(self.folder / name)


@asynccontextmanager
async def impostor(
    folder: Path, *, greeting: bytes = b"HTTP/1.1 200 OK\r\n\r\n", tls: bool = True
) -> AsyncIterator[tuple[int, bytearray]]:
    """A server with a certificate of its own for localhost, or with none: its port, and all that it is sent."""
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        while data := await reader.read(4096):
            heard.extend(data)
            writer.write(greeting)
        writer.close()

    context = None
    if tls:
        CertificateFolder(folder).issue()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / CERTIFICATE, folder / KEY)
    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()
