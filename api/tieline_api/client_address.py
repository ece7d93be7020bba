"""Where a request comes from."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Network = IPv4Network | IPv6Network

_HOPS = 16
_IPV6_PREFIX = 64
"""What one subscriber of an IPv6 provider has at least."""


def origin(peer: str | None, forwarded: Iterable[str], *, trusted: Sequence[Network]) -> str:
    """The address that asks, as a key for counting: an IPv6 address counts as its /64.

    ``peer`` is who is connected, ``forwarded`` the values of ``X-Forwarded-For``. They are believed only from
    the right, and only as far as each hop was a trusted proxy: the rest anybody can write.
    """
    hops = [hop.strip() for value in forwarded for hop in value.split(",")]
    found = _parsed(peer or "")
    for hop in reversed(hops[-_HOPS:]):
        if found is None or not any(found in network for network in trusted):
            break
        before = _parsed(hop)
        if before is None:
            break
        found = before
    if found is None:
        return peer or ""
    if isinstance(found, IPv6Address):
        return str(IPv6Network((int(found) >> _IPV6_PREFIX << _IPV6_PREFIX, _IPV6_PREFIX)))
    return str(found)


def networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Networks (or single addresses) as written, such as ``10.0.0.0/8``; raises ValueError."""
    return tuple(ip_network(text, strict=False) for text in texts)


def _parsed(text: str) -> IPv4Address | IPv6Address | None:
    """An address, without the port or the brackets that some proxies write."""
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found
