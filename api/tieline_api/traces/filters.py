"""The ``filter`` of a list of traces: ``attribute:value`` pairs, separated by spaces.

Either side may be put in double quotes, in which ``\\"`` and ``\\\\`` stand for themselves:
``http.request.method:POST "shop.order id":"A 1"``. The attribute ends at its first colon outside quotes.
"""

import re
from collections.abc import Iterator

MAX_TERMS = 10
_PART = r'(?:"(?:[^"\\]|\\.)*"|[^\s:"][^\s:]*)'
_VALUE = r'(?:"(?:[^"\\]|\\.)*"|[^\s"]\S*)?'
_TERM = re.compile(rf"\s*(?P<key>{_PART}):(?P<value>{_VALUE})(?=\s|$)")


class BadFilterError(Exception):
    """The text is no filter; the message says what to write."""


def parse_filter(text: str) -> tuple[tuple[str, str], ...]:
    """The pairs of attribute and value; raises BadFilterError."""
    return tuple(_terms(text))


def _terms(text: str) -> Iterator[tuple[str, str]]:
    position, end = 0, len(text.rstrip())
    for _ in range(MAX_TERMS):
        if position >= end:
            return
        found = _TERM.match(text, position, end)
        if found is None:
            raise BadFilterError(
                "must be attribute:value pairs separated by spaces, such as http.request.method:POST; "
                'put what holds spaces or quotes in double quotes: "order id":"A 1"'
            )
        yield _plain(found["key"]), _plain(found["value"])
        position = found.end()
    if position < end:
        raise BadFilterError(f"may have at most {MAX_TERMS} attribute:value pairs")


def _plain(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL) if text.startswith('"') else text
