"""URLs with variables: what a value may be, where a variable may stand, and the URL with its values.

A value comes from a person, a client or ``kubectl``, and the URL that it becomes part of gets tokens, codes and client
secrets. So no value can move a URL to a host that its author did not name:

- a value in the host holds letters, digits, hyphens, underscores and dots, one in a path or query also ``~``. Nothing
  else is possible, whatever its pattern says. By default there are no dots;
- a variable in the host stands in front of a fixed domain (``{shop}.myshopify.com``), unless its input lists hosts;
- values are checked each time a URL is made, not only when they are stored.

Patterns come from people, too. They run in linear time, without back-references or look-around.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from tieline_protocol.egress import is_host
from tieline_protocol.patterns import is_usable, matches

MAX_VALUE = 253
"""Characters of a value: as many as a host name has."""
MAX_PATTERN = 256
LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
DEFAULT_PATTERN = f"^{LABEL}$"
"""What a value may be where its input says nothing: one part of a host name."""
HOST_NAME_PATTERN = rf"^{LABEL}(?:\.{LABEL})*$"
"""What it may be by default where its input lists hosts."""
ANY_VALUE = "^.*$"
"""A pattern that leaves it at the characters that every value may have."""
HOST_PATTERN = r"^(\*\.)?[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$"
"""A host of an input or a scheme: a name, or ``*.`` and a domain whose subdomains are meant."""

_VARIABLE = re.compile(r"\{([A-Za-z0-9_-]{1,64})\}")
_URL = re.compile(r"(https?)://([^/?#\\]*)([^\\]*)", re.DOTALL)
_IN_HOST = re.compile(r"[A-Za-z0-9._-]+")
_ANCHORED = re.compile(r"\^(?:.*[^\\])?(?:\\\\)*\$", re.DOTALL)  # the last $ has no backslash of its own
_IN_PATH = re.compile(r"[A-Za-z0-9._~-]+")
# Second levels under which countries register domains, as in example.co.uk.
_REGISTRIES = frozenset(
    {"ac", "co", "com", "edu", "go", "gob", "gov", "mil", "ne", "net", "nom", "or", "org"}
)


class UrlInputError(ValueError):
    """A URL cannot be made. The message says what to do, and holds no value."""


class UrlTemplateError(UrlInputError):
    """The URL is wrong before its variables have values."""


class MissingValueError(UrlInputError):
    """A variable has no value."""

    def __init__(self, name: str) -> None:
        super().__init__(f'the variable "{name}" has no value; set it in variables of the connection')
        self.name = name


@dataclass(frozen=True, kw_only=True)
class UrlInput:
    """What the values of one variable may be."""

    pattern: str = ""
    """A regular expression for the whole value, from ^ to $."""
    hosts: tuple[str, ...] = ()
    """The hosts that URLs with this variable in their host may lead to."""
    example: str = ""

    def value_problem(self, value: str) -> str | None:
        """What is wrong with a value, in words that follow its name; None where nothing is."""
        hint = f", such as {self.example}" if self.example else ""
        if not value:
            return f"is empty; give a value{hint}"
        if len(value) > MAX_VALUE:
            return f"has more than {MAX_VALUE} characters; give a shorter value{hint}"
        if not _IN_PATH.fullmatch(value):
            return (
                "may hold letters, digits and hyphens only (. _ ~ where its pattern has them); give the value alone, "
                f"not a URL{hint}"
            )
        if pattern_problem(self.effective_pattern):
            return "cannot be checked: the pattern of its input cannot be used; correct that in the system"
        if not matches(self.effective_pattern, value):
            if self.pattern:
                return f"does not match {self.pattern}; correct it{hint}"
            return (
                "may hold letters, digits and hyphens only, and starts and ends with a letter or digit; "
                f"correct it{hint}"
            )
        return None

    @property
    def effective_pattern(self) -> str:
        """The pattern, or what stands in its place."""
        return self.pattern or (HOST_NAME_PATTERN if self.hosts else DEFAULT_PATTERN)


UrlInputs = Mapping[str, UrlInput]
"""By the variable's name. A variable without an input has the default pattern, and no hosts."""
_DEFAULT = UrlInput()


def url_inputs(system: Mapping[str, Any]) -> dict[str, UrlInput]:
    """The inputs in a System's spec."""
    return {
        item["name"]: UrlInput(
            pattern=item.get("pattern") or "",
            hosts=tuple(item.get("hosts") or ()),
            example=item.get("example") or "",
        )
        for item in system.get("inputs") or ()
    }


def inputs_for(url: str, inputs: UrlInputs, hosts: tuple[str, ...]) -> UrlInputs:
    """The inputs for a URL whose domain is a variable's, where ``hosts`` says where such URLs may lead."""
    if not hosts or has_fixed_domain(url):
        return inputs
    found = {name: inputs.get(name, _DEFAULT) for name in variables_of(url)}
    return {**inputs, **{name: replace(one, hosts=one.hosts or hosts) for name, one in found.items()}}


def pattern_problem(pattern: str) -> str | None:
    """Why a pattern cannot be used, in words that follow its name; None where it can.

    >>> pattern_problem("^[a-z]+$"), pattern_problem("[a-z]+")
    (None, 'must start with ^ and end with $, so that it describes the whole value')
    """
    if len(pattern) > MAX_PATTERN:
        return f"has more than {MAX_PATTERN} characters; shorten it"
    if not _ANCHORED.fullmatch(pattern):
        return "must start with ^ and end with $, so that it describes the whole value"
    if not is_usable(pattern):
        return (
            "is no regular expression that can be used: it must be valid, without look-around and back-references, "
            "and with small counts; correct it"
        )
    return None


def variables_of(url: str) -> list[str]:
    """The names of the variables in a URL or path, each once.

    >>> variables_of("https://{shop}.example.com/{shop}/{id}")
    ['shop', 'id']
    """
    return list(dict.fromkeys(_VARIABLE.findall(url)))


def with_samples(url: str) -> str:
    """A URL with a letter in the place of each variable, to see what the rest of it is like.

    >>> with_samples("https://{shop}.example.com/{id}")
    'https://x.example.com/x'
    """
    return with_values(url, lambda _name: "x")


def with_values(text: str, value_of: Callable[[str], str]) -> str:
    """A text with the values of its variables, unchecked; see ``filled_url`` for what becomes a URL.

    >>> with_values("Bearer {token} {no name}", {"token": "t"}.__getitem__)
    'Bearer t {no name}'
    """
    return _VARIABLE.sub(lambda found: value_of(found[1]), text)


def template_problem(url: str, inputs: UrlInputs) -> str | None:
    """What is wrong with a URL before its variables have values, in words that follow its name."""
    bare = _VARIABLE.sub("", url)
    if "{" in bare or "}" in bare:
        return "has an invalid variable name in curly braces; use letters, digits, _ and -"
    found = _URL.fullmatch(url)
    if found is None:
        return "must start with http:// or https://"
    authority = found[2]
    names = variables_of(authority)
    if not names:
        return None
    if "@" in authority or _VARIABLE.search(authority.partition(":")[2]):
        return "has a variable before an @ or in the port; variables stand in host, path or query"
    if has_fixed_domain(url):
        return None
    unbound = [name for name in names if not inputs.get(name, _DEFAULT).hosts]
    if not unbound:
        return next(filter(None, (host_problem(one) for name in names for one in inputs[name].hosts)), None)
    return (
        f"leaves the host's domain to the variable {unbound[0]}, so a value could send tokens to any host; write the "
        f"domain after the variable ({{{unbound[0]}}}.example.com), or list the allowed hosts in hosts of its input"
    )


def has_fixed_domain(url: str) -> bool:
    """Whether no value can change the domain that a URL's host belongs to.

    >>> has_fixed_domain("https://{shop}.example.com/"), has_fixed_domain("https://{shop}example.com/")
    (True, False)
    >>> has_fixed_domain("https://{shop}.co.uk/"), has_fixed_domain("https://example.com/{shop}")
    (False, True)
    """
    found = _URL.fullmatch(url)
    if found is None:
        return False
    host = found[2].rpartition("@")[2].partition(":")[0]
    return "{" not in host or bool(domain_behind(host))


def domain_behind(host: str) -> str:
    """The domain behind the variables of a host; empty where a value can change it.

    >>> domain_behind("{shop}.example.com"), domain_behind("{host}"), domain_behind("{shop}.co.uk")
    ('example.com', '', '')
    """
    label, _, domain = host.rpartition("}")[2].partition(".")
    return domain if not label and _is_domain(domain) else ""


def filled_url(url: str, values: Mapping[str, str], inputs: UrlInputs) -> str:
    """The URL with its values. Raises UrlInputError where it has none, or one that may not be there."""
    problem = template_problem(url, inputs)
    if problem:
        raise UrlTemplateError(f"the URL {problem}")
    found = _URL.fullmatch(url)
    if found is None:  # template_problem has looked
        raise UrlTemplateError("the URL must start with http:// or https://")
    scheme, authority, rest = found.groups()
    names = variables_of(authority)
    for name in names:
        if not _IN_HOST.fullmatch(_value(name, values, inputs)):
            raise UrlInputError(
                f'the variable "{name}" has a value that cannot be part of a host; correct it'
            )
    authority = _filled(authority, values, inputs)
    if names:
        _check_host(authority.partition(":")[0], [inputs.get(name, _DEFAULT).hosts for name in names])
    return f"{scheme}://{authority}{filled_path(rest, values, inputs)}"


def filled_path(path: str, values: Mapping[str, str], inputs: UrlInputs) -> str:
    """A path, perhaps with a query, with its values. Raises UrlInputError as ``filled_url`` does."""
    if not _VARIABLE.search(path):
        return path
    made = _filled(path, values, inputs)
    fixed = made.partition("?")[0].partition("#")[0]
    if not {".", ".."}.isdisjoint(fixed.split("/")):
        raise UrlInputError("the variables make a part . or .. of the path; correct their values")
    return made


def value_in(pasted: str, suffix: str) -> str:
    """The value in what a person has pasted: a URL or host with the suffix is cut down, all else stays as it is.

    >>> value_in(" https://my-shop.myshopify.com/admin ", ".myshopify.com"), value_in("my-shop", ".myshopify.com")
    ('my-shop', 'my-shop')
    >>> value_in("https://evil.example/my-shop.myshopify.com", ".myshopify.com")
    'https://evil.example/my-shop.myshopify.com'
    """
    text = pasted.strip()
    if not suffix:
        return text
    host = re.split(r"[/?#\\]", re.sub(r"(?i)^https?://", "", text), maxsplit=1)[0]
    value = host[: -len(suffix)]
    return value if value and host.lower().endswith(suffix.lower()) else text


def _filled(text: str, values: Mapping[str, str], inputs: UrlInputs) -> str:
    return with_values(text, lambda name: _value(name, values, inputs))


def _value(name: str, values: Mapping[str, str], inputs: UrlInputs) -> str:
    value = values.get(name)
    if value is None or value == "":
        raise MissingValueError(name)
    problem = inputs.get(name, _DEFAULT).value_problem(value)
    if problem:
        raise UrlInputError(f'the variable "{name}" {problem}')
    return value


def _check_host(host: str, allowed: list[tuple[str, ...]]) -> None:
    if not is_host(host) or not _is_name(host):
        raise UrlInputError("the variables make no host of the URL; correct their values")
    for hosts in allowed:
        if hosts and not any(is_host_of(host, one) for one in hosts):
            raise UrlInputError(
                f"the variables lead to a host that is none of {', '.join(hosts)}; correct them"
            )


def _is_name(host: str) -> bool:
    """Whether a host is a name: its last part begins with a letter, as that of no address does (RFC 3696)."""
    return host.rstrip(".").rpartition(".")[2][:1].isalpha()


def is_host_of(host: str, allowed: str) -> bool:
    """Whether a host is the one that is allowed, or a subdomain of it where that begins with ``*.``."""
    name, allowed = host.lower().rstrip("."), allowed.lower()
    return name.endswith(allowed[1:]) if allowed.startswith("*.") else name == allowed


def host_problem(allowed: str) -> str | None:
    """Why URLs may not lead to a host of an input or a scheme, in words that follow its name; None where they may.

    >>> host_problem("*.shop.example"), host_problem("shop.co.uk")
    (None, None)
    >>> host_problem("*.co.uk")
    'may lead to *.co.uk, which is no domain of one owner; name a whole domain, such as *.example.com'
    """
    if not allowed.startswith("*.") or _is_domain(allowed[2:]):
        return None
    return (
        f"may lead to {allowed}, which is no domain of one owner; name a whole domain, such as *.example.com"
    )


def _is_domain(domain: str) -> bool:
    """Whether a name is a registrable domain or one below it, as far as its form shows."""
    labels = domain.lower().rstrip(".").split(".")
    if len(labels) < 2 or not all(labels) or not _is_name(domain) or not is_host(domain):
        return False
    return len(labels) > 2 or len(labels[1]) > 2 or labels[0] not in _REGISTRIES
