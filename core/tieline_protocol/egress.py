"""Where requests to URLs that users have written may go.

A name is judged by the addresses it resolves to, and the address once more when its socket is made: a name
that changes its answer between the two gains nothing. Whatever is no plain address by then ("2130706433",
"0177.0.0.1") is refused, because the C library would read it as one.

The platform keeps it for token requests, project pods for what they send through connections.
"""

import asyncio
import errno
import re
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

ALLOWED = "TIELINE_EGRESS_ALLOWED"
DENIED = "TIELINE_EGRESS_DENIED"
# Kubernetes sets it in every pod: the address of the API server.
_API_SERVER = "KUBERNETES_SERVICE_HOST"

# IANA's registries of special-purpose addresses, and what clouds have put at public ones.
INNER_V4 = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's WireServer
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
"""IPv4 addresses that are not public."""
GLOBAL_V6 = IPv6Network("2000::/3")
"""All IPv6 addresses that IANA has given to the Internet; of the others only NAT64's lead there."""
INNER_V6 = tuple(
    IPv6Network(text)
    for text in (
        "2001::/23",  # Teredo, ORCHID, benchmarking and other protocols
        "2001:db8::/32",
        "2002::/16",  # 6to4
        "3fff::/20",
    )
)
"""Addresses in ``GLOBAL_V6`` that are not public, or lead to another one by a tunnel."""
NAT64 = IPv6Network("64:ff9b::/96")
"""RFC 6052: where the network has no IPv4, the way to the public addresses of IPv4."""

_COMPATIBLE = IPv6Network("::/96")
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # RFC 8215
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")  # RFC 7915
_ISATAP = (0x00005EFE, 0x02005EFE)  # RFC 5214
_LOW_32 = 0xFFFFFFFF
_HOST = re.compile(
    r"(\*\.)?(?=.{1,253}$)(?=.*[a-z])[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*"
)
_LABEL = re.compile(r"[A-Za-z0-9_-]{1,63}")
_LONGEST_NAME = 253
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
    """What is closed although it is public: a cluster whose pods or Services have public ranges. A network inside an
    allowed one is closed; an allowed network inside one of these, or of the same size, is open."""
    api_server: tuple[Address, ...] = ()
    """The addresses of the Kubernetes API. Neither a name nor a larger network opens them: only a network of
    that one address does."""

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
        address = _address(environment.get(_API_SERVER, ""))
        server = () if address is None else (address,)
        try:
            allowed = cls.parse(allowed=_listed(environment.get(ALLOWED, "")))
        except ValueError as error:
            raise ValueError(f"{ALLOWED}: {error}") from None
        try:
            closed = cls.parse(denied=_listed(environment.get(DENIED, "")))
        except ValueError as error:
            raise ValueError(f"{DENIED}: {error}") from None
        denied = dict.fromkeys((*closed.denied, *(ip_network(str(one)) for one in server)))
        return cls(
            allowed=allowed.allowed, hosts=allowed.hosts, denied=tuple(denied), api_server=tuple(server)
        )

    def to_environment(self) -> dict[str, str]:
        """The two variables with which ``from_environment`` makes this again, where Kubernetes names its API."""
        allowed = [*map(str, self.allowed), *self.hosts]
        return {ALLOWED: ",".join(allowed), DENIED: ",".join(map(str, self.denied))}

    def permits(self, host: str) -> bool:
        """Whether this address, in its usual notation, may be reached."""
        address = _address(host)
        if address is None or self._is_api_server(address):
            return self.is_allowed(host)
        return self.is_allowed(host) or (_size(self.denied, address) is None and is_public(address))

    def is_allowed(self, host: str) -> bool:
        """Whether the administrator has opened this address."""
        address = _address(host)
        if address is None:
            return False
        allowed, denied = _size(self.allowed, address), _size(self.denied, address)
        if allowed is None or (self._is_api_server(address) and allowed != address.max_prefixlen):
            return False
        return denied is None or allowed >= denied

    def is_api_server(self, host: str) -> bool:
        """Whether this is the address of the Kubernetes API, and not opened by itself."""
        address = _address(host)
        return address is not None and self._is_api_server(address) and not self.is_allowed(host)

    def _is_api_server(self, address: Address) -> bool:
        return any(one in self.api_server for one in (address, *_embedded(address)))

    def opens(self, name: str) -> bool:
        """Whether the administrator has opened this very name."""
        name = name.lower().rstrip(".")
        return any(name == host or (host.startswith("*.") and name.endswith(host[1:])) for host in self.hosts)

    def refuses(self, host: str) -> bool:
        """Whether this host of a URL cannot be reached, whatever it resolves to.

        An address that is not permitted cannot; nor can a name that only this cluster or machine knows, unless the
        administrator has opened it or any network that it may resolve into. Of other names nothing is known yet.
        """
        if _address(host) is not None:
            return not self.permits(host)
        return _is_inner(host) and not self.allowed and not self.opens(host)

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
            if self.is_api_server(str(address[0])) or str(address[0]) not in opened:
                self.check(str(address[0]))
            return socket.socket(family=family, type=kind, proto=protocol)

        inner = resolver or aiohttp.ThreadedResolver()
        return aiohttp.TCPConnector(
            resolver=CheckedResolver(egress=self, inner=inner, opened=opened), socket_factory=make_socket
        )

    async def open_socket(
        self, host: str, port: int, *, resolver: AbstractResolver | None = None
    ) -> socket.socket:
        """A socket that is connected to the first permitted address of ``host`` that answers, for what is not HTTP.

        Raises EgressRefusedError, and OSError where none answers. Limit the time yourself.
        """
        checked = CheckedResolver(egress=self, inner=resolver or aiohttp.ThreadedResolver(), opened=_Opened())
        failure: OSError = OSError(errno.EHOSTUNREACH, f"{host} has no address")
        for found in await checked.resolve(host, port, socket.AF_UNSPEC):
            made = socket.socket(family=found["family"], type=socket.SOCK_STREAM)
            made.setblocking(False)
            try:
                await asyncio.get_running_loop().sock_connect(made, (found["host"], port))
            except OSError as error:
                made.close()
                failure = error
            except BaseException:
                made.close()
                raise
            else:
                return made
        raise failure


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
        if not is_host(host):
            raise EgressRefusedError(f"{host[:64]} is no host name")
        found = await self._inner.resolve(host, port, family)
        if self._egress.opens(host):
            permitted = [result for result in found if not self._egress.is_api_server(result["host"])]
            for result in permitted:
                self._opened.add(result["host"])
        else:
            may = self._egress.is_allowed if _is_inner(host) else self._egress.permits
            permitted = [result for result in found if may(result["host"])]
        if not permitted:
            raise EgressRefusedError(
                f"{host} has no public address; an administrator can allow it in {ALLOWED}"
            )
        return permitted

    async def close(self) -> None:
        await self._inner.close()


def is_host(host: str) -> bool:
    """Whether this can be a URL's host: an address, or a name with labels of 1 to 63 and at most 253 characters."""
    try:
        ip_address(host.split("%", 1)[0])
    except ValueError:
        pass
    else:
        return True
    try:
        name = host if host.isascii() else (URL.build(scheme="http", host=host).raw_host or "")
    except ValueError:
        return False
    name = name.removesuffix(".")
    return len(name) <= _LONGEST_NAME and all(map(_LABEL.fullmatch, name.split(".")))


def _is_inner(name: str) -> bool:
    return f".{name.lower().rstrip('.')}".endswith(_INNER)


def is_public(address: Address) -> bool:
    """Whether an address is on the Internet, and is no other way to one that is not."""
    if isinstance(address, IPv4Address):
        return address.is_global and not any(address in network for network in INNER_V4)
    if address in NAT64:
        return is_public(IPv4Address(int(address) & _LOW_32))
    if address not in GLOBAL_V6 or any(address in network for network in INNER_V6):
        return False
    return address.is_global and (int(address) >> 32) & _LOW_32 not in _ISATAP


def _address(host: str) -> Address | None:
    try:
        address = ip_address(host.split("%", 1)[0])
    except ValueError:
        return None
    if isinstance(address, IPv4Address):
        return address
    # Sockets take these two for the IPv4 address itself; so does whoever allows or denies it.
    return IPv4Address(int(address) & _LOW_32) if address in NAT64 else address.ipv4_mapped or address


def _embedded(address: Address) -> Iterator[IPv4Address]:
    """The IPv4 addresses that an IPv6 address may lead to, by whatever tunnel or translation a network has."""
    if isinstance(address, IPv4Address):
        return
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    number = int(address)
    low = (_COMPATIBLE, _LOCAL_NAT64, _TRANSLATED)
    if any(address in network for network in low) or (number >> 32) & _LOW_32 in _ISATAP:
        yield IPv4Address(number & _LOW_32)


def _size(networks: Iterable[Network], address: Address) -> int | None:
    """The prefix length of the smallest network that has the address, if one has."""
    return max((network.prefixlen for network in networks if address in network), default=None)


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
