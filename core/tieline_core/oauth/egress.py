"""Where requests to URLs that users have written may go.

A name is judged by the addresses it resolves to, and the address once more when its socket is made: a name
that changes its answer between the two gains nothing. Whatever is no plain address by then ("2130706433",
"0177.0.0.1") is refused, because the C library would read it as one.
"""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052


class EgressRefusedError(OSError):
    """The address may not be reached. An OSError, so that aiohttp treats it as a failed connection."""


@dataclass(frozen=True, kw_only=True)
class Egress:
    """Which addresses may be reached: public ones that are not ``denied``, and all that is ``allowed``."""

    allowed: tuple[Network, ...] = ()
    """What the administrator opens although it is private, link-local or loopback."""
    denied: tuple[Network, ...] = ()
    """What is closed although it is public: a cluster whose pods or Services have public ranges."""

    @classmethod
    def parse(cls, *, allowed: Sequence[str] = (), denied: Sequence[str] = ()) -> "Egress":
        """From networks as text ("10.0.0.0/8", "fd00::/8"); ValueError where one is none."""
        return cls(
            allowed=tuple(ip_network(text) for text in allowed),
            denied=tuple(ip_network(text) for text in denied),
        )

    def permits(self, host: str) -> bool:
        """Whether this address, in its usual notation, may be reached."""
        try:
            address = _reached(ip_address(host.split("%", 1)[0]))
        except ValueError:
            return False
        if any(address in network for network in self.allowed):
            return True
        if any(address in network for network in self.denied):
            return False
        return address.is_global and not address.is_multicast

    def check(self, host: str) -> None:
        """Raise EgressRefusedError where this address may not be reached."""
        if not self.permits(host):
            raise EgressRefusedError(
                f"{host} is not a public address; an administrator can allow its network for outgoing requests"
            )

    def connector(self, *, resolver: AbstractResolver | None = None) -> aiohttp.TCPConnector:
        """A connector that reaches permitted addresses only. Call it where an event loop runs."""
        return aiohttp.TCPConnector(
            resolver=CheckedResolver(egress=self, inner=resolver or aiohttp.ThreadedResolver()),
            socket_factory=self._socket,
        )

    def _socket(self, info: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = info
        self.check(str(address[0]))
        return socket.socket(family=family, type=kind, proto=protocol)


class CheckedResolver(AbstractResolver):
    """Leaves out the addresses of a name that may not be reached."""

    def __init__(self, *, egress: Egress, inner: AbstractResolver) -> None:
        self._egress = egress
        self._inner = inner

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The permitted addresses; EgressRefusedError where the name has none."""
        found = await self._inner.resolve(host, port, family)
        permitted = [result for result in found if self._egress.permits(result["host"])]
        if not permitted:
            raise EgressRefusedError(
                f"{host} has no public address; an administrator can allow its network for outgoing requests"
            )
        return permitted

    async def close(self) -> None:
        await self._inner.close()


def _reached(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address
