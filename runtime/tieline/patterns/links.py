"""The header Link, as RFC 8288 has it: what an answer says other URLs are to it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_SEPARATORS = re.compile(r"[\s,]*")
_TARGET = re.compile(r"<([^<>]*)>")
# A parameter: a name, and perhaps a value that is a quoted string (with escapes) or a token.
_PARAMETER = re.compile(r"""\s*;\s*([^\s=;,"<>]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*)))?|\s*;""")
_ESCAPED = re.compile(r"\\(.)")
_LONGEST = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Link:
    """One link of a header."""

    url: str
    """Perhaps relative to the URL that was requested."""
    relations: frozenset[str]
    """In lower case."""
    parameters: Mapping[str, str]
    """The others, by their names in lower case."""


def links_of(headers: Iterable[str]) -> Iterator[Link]:
    """The links of all headers Link of an answer. What is none is passed over.

    >>> [(link.url, sorted(link.relations)) for link in links_of(['</a?b=1,2>; REL="next last"; title="a, <b>; c"'])]
    [('/a?b=1,2', ['last', 'next'])]
    """
    for header in headers:
        text, position = header[:_LONGEST], 0
        while position < len(text):
            if separators := _SEPARATORS.match(text, position):
                position = separators.end()
            if (found := _TARGET.match(text, position)) is None:
                position = _next_link(text, position)
                continue
            position = found.end()
            parameters: dict[str, str] = {}
            while (parameter := _PARAMETER.match(text, position)) is not None:
                position = parameter.end()
                name, quoted, token = parameter.groups()
                if name is not None:
                    value = _ESCAPED.sub(r"\1", quoted) if quoted is not None else token or ""
                    parameters.setdefault(name.lower(), value)  # the first one counts
            relations = frozenset(parameters.pop("rel", "").lower().split())
            yield Link(url=found[1].strip(), relations=relations, parameters=parameters)
            position = _next_link(text, position)


def target_of(headers: Iterable[str], relation: str) -> str | None:
    """The URL of the first link with a relation; None where there is none.

    Ignores links of another resource, and links to an empty page (``results="false"``, as on Sentry's last page).
    """
    wanted = relation.lower()
    return next(
        (
            link.url
            for link in links_of(headers)
            if wanted in link.relations
            and "anchor" not in link.parameters
            and link.parameters.get("results") != "false"
        ),
        None,
    )


def _next_link(text: str, position: int) -> int:
    """After the comma that ends a link; what stands before it is passed over."""
    comma = text.find(",", position)
    return len(text) if comma < 0 else comma + 1
