"""TLS contexts of clients that trust the certificate authorities in a file, and no others."""

import ssl
from collections.abc import Callable
from pathlib import Path

Trust = Callable[[], ssl.SSLContext]
"""Returns the context for the next connection. Raises OSError where there is none: then nothing is sent."""


class AuthoritiesFile:
    """The authorities in a file in PEM, which is replaced when they change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version: tuple[int, int, int] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self) -> ssl.SSLContext:
        """The context, another one once the file is another one. Raises OSError while it cannot be used.

        What is connected stays connected. A new context makes new connections.
        """
        found = self._path.stat()
        version = (found.st_ino, found.st_mtime_ns, found.st_size)
        if self._context is None or version != self._version:
            self._context = trusting(self._path.read_text(encoding="ascii", errors="replace"))
            self._version = version
        return self._context


def trusting(authorities: str) -> ssl.SSLContext:
    """A client's context that trusts these authorities (PEM) alone. Raises OSError where they are none."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=authorities)
    except ValueError:
        raise OSError("There are no certificates in PEM") from None
    return context


def file_trust(path: Path | None) -> Trust | None:
    """Trusts the authorities in a file; None without one."""
    return AuthoritiesFile(path).context if path is not None else None
