"""What environments' public URLs are made of, and where they lead."""

import string
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

# What a public URL may be made of: "https://{name}.{namespace}.hooks.example", say.
PLACEHOLDERS = frozenset({"clusterIP", "name", "namespace", "environmentId", "environment", "project"})


def placeholders(template: str) -> set[str]:
    """The placeholders in a template; raises ValueError where braces do not match."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name is not None}


def filled(template: str, values: Mapping[str, str]) -> str:
    """The text, or nothing while a value that it needs is not known."""
    return template.format_map(values) if all(values[name] for name in placeholders(template)) else ""


@dataclass(frozen=True)
class Address:
    """What a proxy in front of the cluster tells an environment by."""

    host: str
    """In lower case, without a port."""
    path: str
    """A prefix that starts with a slash and ends without; empty where the host says it all."""
    https: bool


def address(url: str) -> Address:
    """Where a URL leads; of a template too, whose placeholders stay as they are.

    >>> address("https://Orders-1a2b.acme.hooks.example:8443/v1/")
    Address(host='orders-1a2b.acme.hooks.example', path='/v1', https=True)
    """
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2].partition(":")[0]
    return Address(host.lower(), parts.path.rstrip("/"), parts.scheme == "https")


def address_key(url: str) -> str:
    """One text for all URLs that lead to the same place: host and path.

    >>> address_key("https://Hooks.example:8443/acme/orders/") == address_key("http://hooks.example/acme/orders")
    True
    """
    found = address(url)
    return found.host + found.path


def in_lower_case(url: str) -> str:
    """The URL with its host as proxies know it (an id in it has capitals).

    >>> in_lower_case("https://01ARZ.hooks.example/01ARZ")
    'https://01arz.hooks.example/01ARZ'
    """
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.lower()).geturl()
