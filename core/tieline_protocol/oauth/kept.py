"""What a connection keeps of a provider's answers beside its tokens: base URL, account, variables.

All of it is untrusted text. It is bounded, matches a pattern, shows no secret, and a base URL leads to a host that
the scheme allows, so that no answer can send tokens to another host.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import urlsplit

from tieline_protocol.egress import is_host
from tieline_protocol.oauth.answers import text_of
from tieline_protocol.oauth.token_response import NO_SECRETS, SecretMatcher
from tieline_protocol.patterns import matches
from tieline_protocol.url_inputs import is_host_of

BASE_URL, ACCOUNT_ID, ACCOUNT_NAME = "baseUrl", "accountId", "accountName"
MAX_VALUE = 512
MAX_URL = 2048
MAX_NAME = 200
MAX_ENCODED = 256 * 1024
_MOST_VARIABLES = 64
_VARIABLE = r"^[A-Za-z0-9._~:@-]+$"


class UnkeepableError(Exception):
    """A value of an answer may not be kept. The message names the rule, and never the value."""


@dataclass(frozen=True, kw_only=True)
class KeepRule:
    """A value to keep; see KeptValue and KeptParameter in ``tieline_core.resources.oauth2_dialect``."""

    source: str
    """The path in an answer, or the name of a parameter."""
    target: str = ""
    """baseUrl, accountId or accountName."""
    variable: str = ""
    pattern: str = ""
    overrides: bool = False

    @classmethod
    def all_of(cls, given: Any) -> tuple[Self, ...]:
        """The rules in a list of a scheme."""
        return tuple(
            cls(
                source=str(one.get("path") or one.get("parameter") or ""),
                target=str(one.get("as") or ""),
                variable=str(one.get("variable") or ""),
                pattern=str(one.get("pattern") or ""),
                overrides=bool(one.get("overrides")),
            )
            for one in given or ()
            if isinstance(one, Mapping)
        )


@dataclass(frozen=True, kw_only=True)
class Kept:
    """Values that were kept."""

    base_url: str = ""
    account_id: str = ""
    account_name: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    overrides: frozenset[str] = frozenset()
    """What replaces a value of the connection's spec: names of variables, and ``baseUrl``."""

    def __bool__(self) -> bool:
        return bool(self.base_url or self.account_id or self.account_name or self.variables)

    def merged(self, newer: "Kept") -> "Kept":
        """These values with newer ones in their place."""
        return Kept(
            base_url=newer.base_url or self.base_url,
            account_id=newer.account_id or self.account_id,
            account_name=newer.account_name or self.account_name,
            variables={**self.variables, **newer.variables},
            overrides=self.overrides | newer.overrides,
        )

    def variables_over(self, own: Mapping[str, str]) -> dict[str, str]:
        """Variables in effect: the connection's own win, unless the scheme says that these do.

        >>> kept = Kept(variables={"realm": "1", "shop": "a"}, overrides=frozenset({"shop"}))
        >>> kept.variables_over({"realm": "2", "shop": "b"})
        {'realm': '2', 'shop': 'a'}
        """
        return {
            **self.variables,
            **own,
            **{name: value for name, value in self.variables.items() if name in self.overrides},
        }

    def encoded(self) -> str:
        """As text; empty where nothing was kept."""
        values: dict[str, Any] = {
            BASE_URL: self.base_url,
            ACCOUNT_ID: self.account_id,
            ACCOUNT_NAME: self.account_name,
            "variables": dict(self.variables),
            "overrides": sorted(self.overrides),
        }
        return json.dumps({name: value for name, value in values.items() if value}) if self else ""

    @classmethod
    def decoded(cls, text: str | None) -> "Kept":
        """What a text holds. Anything that ``encoded`` does not write counts as absent."""
        if not text or len(text) > MAX_ENCODED:
            return cls()
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(found, dict):
            return cls()
        variables = found.get("variables")
        overrides = found.get("overrides")
        return cls(
            base_url=text_of(found.get(BASE_URL)),
            account_id=text_of(found.get(ACCOUNT_ID)),
            account_name=text_of(found.get(ACCOUNT_NAME)),
            variables={name: text for name, value in variables.items() if (text := text_of(value))}
            if isinstance(variables, dict)
            else {},
            overrides=frozenset(map(text_of, overrides)) if isinstance(overrides, list) else frozenset(),
        )


NOTHING = Kept()


@dataclass(frozen=True, kw_only=True)
class Hosts:
    """Where kept base URLs may lead."""

    patterns: tuple[str, ...] = ()
    """Names, and ``*.`` with a domain whose subdomains are meant."""
    known: frozenset[str] = frozenset()
    """Hosts of the scheme's own URLs."""
    allows_http: bool = False
    """Whether URLs may be http: only where the scheme's token URL is."""

    @classmethod
    def of(cls, patterns: Iterable[str], urls: Iterable[str], *, token_url: str) -> Self:
        """The hosts of a scheme and of ``urls``."""
        known = frozenset(host for url in urls if (host := _host(url)))
        return cls(patterns=tuple(patterns), known=known, allows_http=token_url.startswith("http:"))

    def problem(self, url: str) -> str | None:
        """Why a URL may not be used, in words that follow its name; None where it may."""
        if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or set(url) & set(' \\"<>^`|{}'):
            return "is not a URL"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            return "is not a URL"
        schemes = ("https", "http") if self.allows_http else ("https",)
        if parts.scheme not in schemes or not is_host(host) or port == 0:
            return "is not an https URL"
        if "@" in parts.netloc or parts.query or parts.fragment:
            return "has a user, a query or a fragment"
        if host not in self.known and not any(is_host_of(host, one) for one in self.patterns):
            return "leads to a host that the scheme does not allow"
        return None


def collect(
    rules: Iterable[KeepRule],
    value_at: Callable[[str], Any],
    *,
    hosts: Hosts,
    secrets: SecretMatcher = NO_SECRETS,
) -> Kept:
    """What the rules keep. An absent value is left out; raises UnkeepableError for one that may not be kept."""
    values: dict[str, str] = {}
    variables: dict[str, str] = {}
    overrides: set[str] = set()
    for rule in rules:
        value = text_of(value_at(rule.source)).strip()
        if rule.target == ACCOUNT_NAME and not rule.variable and not rule.pattern:
            value = _one_line(value)  # for people alone: no odd name stops an authorisation
        if not value:
            continue
        if rule.target == ACCOUNT_NAME and not rule.variable and _shows_one(value, secrets):
            continue  # for people alone, as well
        value = _checked(rule, value, hosts, secrets)
        if rule.target:
            values[rule.target] = value
        if rule.variable and len(variables) < _MOST_VARIABLES:
            variables[rule.variable] = value
        if rule.overrides:
            overrides.update(name for name in (rule.target, rule.variable) if name)
    return Kept(
        base_url=values.get(BASE_URL, ""),
        account_id=values.get(ACCOUNT_ID, ""),
        account_name=values.get(ACCOUNT_NAME, ""),
        variables=variables,
        overrides=frozenset(overrides),
    )


def _one_line(text: str) -> str:
    """The beginning of a text, with a space for each run of what cannot be printed."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * MAX_NAME])
    return " ".join(shown.split())[:MAX_NAME]


def _shows_one(value: str, secrets: SecretMatcher) -> bool:
    return secrets.are_in(value) or any(map(secrets.are_in, value.split()))


def _checked(rule: KeepRule, value: str, hosts: Hosts, secrets: SecretMatcher) -> str:
    if len(value) > MAX_URL or (rule.target != BASE_URL and len(value) > MAX_VALUE):
        raise UnkeepableError(f'the value at "{rule.source}" is too long to be kept')
    if _shows_one(value, secrets):
        raise UnkeepableError(f'the value at "{rule.source}" shows a secret, and is not kept')
    if not value.isprintable():
        raise UnkeepableError(f'the value at "{rule.source}" is not printable text')
    if rule.pattern and not matches(rule.pattern, value):
        raise UnkeepableError(f'the value at "{rule.source}" does not match its pattern; correct the pattern')
    if rule.variable and not rule.pattern and rule.target != BASE_URL and not matches(_VARIABLE, value):
        raise UnkeepableError(
            f'the value at "{rule.source}" has other characters than letters, digits and -._~:@; give it a pattern'
        )
    if rule.target == BASE_URL and (problem := hosts.problem(value)):
        raise UnkeepableError(
            f'the base URL at "{rule.source}" {problem}; add its host to hosts of the scheme'
        )
    return value.rstrip("/") if rule.target == BASE_URL else value


def _host(url: str) -> str:
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return ""
    return host if is_host(host) else ""
