"""Where requests to URLs that users have written may go.

A name is judged by the addresses it resolves to, and the address once more when its socket is made: a name
that changes its answer between the two gains nothing. Whatever is no plain address by then ("2130706433",
"0177.0.0.1") is refused, because the C library would read it as one.

The platform keeps it for token requests, project pods for what they send through connections.
"""

import errno
import re
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ALLOWED = "TIELINE_EGRESS_ALLOWED"
DENIED = "TIELINE_EGRESS_DENIED"
# Kubernetes sets it in every pod: the address of the API server.
_API_SERVER = "KUBERNETES_SERVICE_HOST"

_NAT64 = IPv6Network("64:ff9b::/96")  # RFC 6052
_HOST = re.compile(
    r"(\*\.)?(?=.{1,253}$)(?=.*[a-z])[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
)
# Names that only this cluster or machine knows, whatever addresses they have.
_INNER = (".svc", ".cluster.local", ".localhost")
# Longer than aiohttp keeps an answer of the resolver (10 s), so that its sockets find it here.
_OPENED_SECONDS = 60.0


class EgressRefusedError(OSError):
    """The address may not be reached. An OSError, so that aiohttp treats it as a failed connection."""

    def __init__(self, message: str) -> None:
        super().__init__(errno.EACCES, message)

    def __str__(self) -> str:
        return str(self.strerror)


@dataclass(frozen=True, kw_only=True)
class Egress:
    """What may be reached: public addresses that are not ``denied``, and all that is allowed."""

    allowed: tuple[Network, ...] = ()
    """What the administrator opens although it is private, link-local or loopback."""
    hosts: tuple[str, ...] = ()
    """Names that are opened whatever they resolve to; "*.example" stands for all below."""
    denied: tuple[Network, ...] = ()
    """What is closed although it is public: a cluster whose pods or Services have public ranges."""

    @classmethod
    def parse(cls, *, allowed: Sequence[str] = (), denied: Sequence[str] = ()) -> "Egress":
        """From text: networks ("10.0.0.0/8", "fd00::/8") and, to allow, names ("shop.acme.svc", "*.corp.example").

        ValueError where one is neither.
        """
        opened = [_network_or_host(text) for text in allowed]
        return cls(
            allowed=tuple(one for one in opened if not isinstance(one, str)),
            hosts=tuple(one for one in opened if isinstance(one, str)),
            denied=tuple(_network(text) for text in denied),
        )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Egress":
        """From TIELINE_EGRESS_ALLOWED and TIELINE_EGRESS_DENIED, lists with commas; ValueError names the one."""
        server = [environment[_API_SERVER]] if _address(environment.get(_API_SERVER, "")) else []
        try:
            allowed = cls.parse(allowed=_listed(environment.get(ALLOWED, "")))
        except ValueError as error:
            raise ValueError(f"{ALLOWED}: {error}") from None
        try:
            closed = cls.parse(denied=_listed(environment.get(DENIED, "")) + server)
        except ValueError as error:
            raise ValueError(f"{DENIED}: {error}") from None
        return cls(allowed=allowed.allowed, hosts=allowed.hosts, denied=closed.denied)

    def to_environment(self) -> dict[str, str]:
        """The two variables with which ``from_environment`` makes this again."""
        allowed = [*map(str, self.allowed), *self.hosts]
        return {ALLOWED: ",".join(allowed), DENIED: ",".join(map(str, self.denied))}

    def permits(self, host: str) -> bool:
        """Whether this address, in its usual notation, may be reached."""
        address = _address(host)
        if address is None or any(address in network for network in self.denied):
            return self.is_allowed(host)
        return self.is_allowed(host) or (address.is_global and not address.is_multicast)

    def is_allowed(self, host: str) -> bool:
        """Whether the administrator has opened this address."""
        address = _address(host)
        return address is not None and any(address in network for network in self.allowed)

    def opens(self, name: str) -> bool:
        """Whether the administrator has opened this very name."""
        name = name.lower().rstrip(".")
        return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in self.hosts)

    def check(self, host: str) -> None:
        """Raise EgressRefusedError where this address may not be reached."""
        if not self.permits(host):
            raise EgressRefusedError(
                f"{host} is not a public address; an administrator can allow it in {ALLOWED}"
            )

    def connector(self, *, resolver: AbstractResolver | None = None) -> aiohttp.TCPConnector:
        """A connector that reaches permitted addresses only. Call it where an event loop runs."""
        opened = _Opened()

        def make_socket(info: tuple[Any, ...]) -> socket.socket:
            family, kind, protocol, _, address = info
            if str(address[0]) not in opened:
                self.check(str(address[0]))
            return socket.socket(family=family, type=kind, proto=protocol)

        inner = resolver or aiohttp.ThreadedResolver()
        return aiohttp.TCPConnector(
            resolver=CheckedResolver(egress=self, inner=inner, opened=opened), socket_factory=make_socket
        )


PUBLIC_ONLY = Egress()
"""What may be reached where the administrator says nothing."""


class _Opened:
    """The addresses that opened names had just now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def add(self, address: str) -> None:
        now = self._clock()
        self._until = {one: until for one, until in self._until.items() if until > now}
        self._until[address] = now + _OPENED_SECONDS

    def __contains__(self, address: str) -> bool:
        return self._until.get(address, 0.0) > self._clock()


class CheckedResolver(AbstractResolver):
    """Leaves out the addresses of a name that may not be reached."""

    def __init__(self, *, egress: Egress, inner: AbstractResolver, opened: _Opened) -> None:
        self._egress = egress
        self._inner = inner
        self._opened = opened

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The permitted addresses; EgressRefusedError where the name has none."""
        found = await self._inner.resolve(host, port, family)
        if self._egress.opens(host):
            for result in found:
                self._opened.add(result["host"])
            return found
        inner = host.lower().rstrip(".").endswith(_INNER)
        may = self._egress.is_allowed if inner else self._egress.permits
        permitted = [result for result in found if may(result["host"])]
        if not permitted:
            raise EgressRefusedError(
                f"{host} has no public address; an administrator can allow it in {ALLOWED}"
            )
        return permitted

    async def close(self) -> None:
        await self._inner.close()


def _address(host: str) -> Address | None:
    try:
        return _reached(ip_address(host.split("%", 1)[0]))
    except ValueError:
        return None


def _reached(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, IPv4Address):
        return address
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1] or address


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is no network; write it as 10.0.0.0/8 or fd00::/8") from None


def _network_or_host(text: str) -> Network | str:
    try:
        return ip_network(text)
    except ValueError:
        name = text.lower().rstrip(".")
        if _HOST.fullmatch(name):
            return name
    raise ValueError(
        f"{text!r} is neither a network, such as 10.0.0.0/8, nor a name, such as shop.acme.svc or *.corp.example"
    ) from None
