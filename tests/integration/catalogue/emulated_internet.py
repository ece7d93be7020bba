"""All providers of the catalogue on this machine, under their own names and by TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.harness.identity.certificate_authority import Authority, pem
from tests.harness.processes.local_servers import serving
from tieline.emulator.provider import Provider
from tieline.emulator.server import Emulator
from tieline_protocol.egress import Egress

_HTTPS = 443


class _Here(AbstractResolver):
    """Every name leads to this machine, and HTTPS to the emulator's port."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host="127.0.0.1",
                port=self._port if port == _HTTPS else port,
                family=socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
        ]

    async def close(self) -> None:
        """Has nothing open."""


@dataclass(frozen=True, kw_only=True)
class EmulatedInternet(Egress):
    """What the platform reaches: names of providers lead to the emulator."""

    emulator: Emulator = field(compare=False)
    port: int
    ca: str = field(repr=False)

    def connector(self, *, resolver: AbstractResolver | None = None) -> aiohttp.TCPConnector:
        trusted = ssl.create_default_context(cadata=self.ca)
        trusted.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return aiohttp.TCPConnector(resolver=_Here(self.port), ssl=trusted)

    @property
    def browser_options(self) -> tuple[str, ...]:
        """With which Chromium finds the providers as the platform does."""
        rules = f"MAP * 127.0.0.1:{self.port}, EXCLUDE 127.0.0.1, EXCLUDE localhost"
        return (f"--host-resolver-rules={rules}", "--ignore-certificate-errors")


@contextmanager
def emulated(providers: Sequence[Provider], folder: Path) -> Iterator[EmulatedInternet]:
    """Serves the providers until the block ends."""
    emulator, authority = Emulator(providers), Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _load(context, authority, "localhost", folder)
    made: dict[str, ssl.SSLContext] = {}

    def by_name(connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        if name is None:
            return
        if name not in made:
            made[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            _load(made[name], authority, name, folder)
        connection.context = made[name]

    context.sni_callback = by_name
    with serving(emulator.application(), tls=context) as url:
        yield EmulatedInternet(emulator=emulator, port=int(url.rpartition(":")[2]), ca=authority.ca)


def _load(context: ssl.SSLContext, authority: Authority, host: str, folder: Path) -> None:
    certificate, key = authority.issue("emulated", host)
    path = folder / f"{host}.pem"
    path.write_text(certificate + pem(key))
    context.load_cert_chain(path)
