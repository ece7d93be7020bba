"""URLs of a System with variables in curly braces, and the values that a request has for them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Self

from yarl import URL

_VARIABLE = re.compile(r"\{([A-Za-z0-9_-]+)\}")
_HOST_PART, _SEGMENT = r"[A-Za-z0-9.-]+", r"[^/]+"


@dataclass(frozen=True)
class Endpoint:
    """A URL with variables, such as ``https://{shop}.example/oauth``."""

    host: str
    path: str

    @classmethod
    def of(cls, url: str) -> Self:
        """From the text of a URL, whose query does not count."""
        rest = url.partition("://")[2] or url
        host, slash, path = rest.partition("/")
        return cls(host, (slash + path).partition("?")[0] or "/")

    def match(self, url: URL) -> dict[str, str] | None:
        """The variables' values in a URL that is this one; None where it is another."""
        return self._matched(url, whole=True)

    def match_below(self, url: URL) -> tuple[dict[str, str], str] | None:
        """The values, and the path below this URL; None where it is not below."""
        found = self._matched(url, whole=False)
        if found is None:
            return None
        return found, "/" + found.pop("_rest", "").lstrip("/")

    def serves(self, host: str) -> bool:
        """Whether it is at this host. A host that is a variable alone is at none."""
        return _VARIABLE.fullmatch(self.host) is None and self._host.fullmatch(host) is not None

    def filled(self, values: Mapping[str, str]) -> str:
        """The URL with values."""
        return "https://" + _VARIABLE.sub(lambda found: values.get(found[1], found[0]), self.host + self.path)

    def _matched(self, url: URL, *, whole: bool) -> dict[str, str] | None:
        host = self._host.fullmatch(url.host or "")
        if host is None:
            return None
        pattern = self._path if whole else self._below
        path = pattern.fullmatch(url.path)
        return None if path is None else _values([host, path])

    @cached_property
    def _host(self) -> re.Pattern[str]:
        return re.compile(_expression(self.host, _HOST_PART), re.IGNORECASE)

    @cached_property
    def _path(self) -> re.Pattern[str]:
        return re.compile(_expression(self.path, _SEGMENT))

    @cached_property
    def _below(self) -> re.Pattern[str]:
        return re.compile(_expression(self.path.rstrip("/"), _SEGMENT) + r"(?P<_rest>/.*)?")


def _expression(text: str, value: str) -> str:
    """A regular expression in which each variable is a group; a name that comes again stands for the same."""
    seen: dict[str, str] = {}
    parts: list[str] = []
    position = 0
    for found in _VARIABLE.finditer(text):
        parts.append(re.escape(text[position : found.start()]))
        name = found[1]
        if name in seen:
            parts.append(f"(?P={seen[name]})")
        else:
            seen[name] = f"v_{name.encode().hex()}"
            parts.append(f"(?P<{seen[name]}>{value})")
        position = found.end()
    return "".join([*parts, re.escape(text[position:])])


def _values(matches: list[re.Match[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for match in matches:
        for group, value in match.groupdict().items():
            if value is not None:
                name = bytes.fromhex(group[2:]).decode() if group.startswith("v_") else group
                found[name] = value
    return found
