"""Tags of runs: business ids such as the number of an order, by which people find a run again."""

import re
from collections.abc import Mapping

MAX_TAGS = 10
"""Of a run."""
MAX_VALUE = 200
NAME_PATTERN = "[a-z][a-z0-9_-]{0,39}"
_NAME = re.compile(NAME_PATTERN)
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Control characters, line separators, and halves of characters."""


def is_name(name: object) -> bool:
    """Whether a tag may have this name.

    >>> [is_name(name) for name in ("order", "order-id_2", "Order", "2nd", "a" * 41, None)]
    [True, True, False, False, False, False]
    """
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def is_value(value: object) -> bool:
    r"""Whether a tag may have this value.

    >>> [is_value(value) for value in ("N-1101", "Müller & Söhne", "", "a\nb", "x" * 201, 7)]
    [True, True, False, False, False, False]
    """
    return isinstance(value, str) and 1 <= len(value) <= MAX_VALUE and not has_unseen(value)


def has_unseen(value: str) -> bool:
    """Whether a text has control characters, or what cannot be stored."""
    return _UNSEEN.search(value) is not None


def without_unseen(value: str) -> str:
    """The text with a space in place of each control character, and of what cannot be stored."""
    return _UNSEEN.sub(" ", value)


def parse_tag(text: str, *, separator: str = ":") -> tuple[str, str] | None:
    """The name and the value of a tag as filters have it; None for what is no tag.

    >>> parse_tag("order:N-1101"), parse_tag("order=a=b", separator="="), parse_tag("order"), parse_tag("Bad:x")
    (('order', 'N-1101'), ('order', 'a=b'), None, None)
    """
    name, found, value = text.partition(separator)
    return (name, value) if found and is_name(name) and is_value(value) else None


def valid_tags(found: object) -> dict[str, str]:
    """The tags of a record that may be there, at most 10.

    >>> valid_tags({"order": "N-1101", "Bad": "x", "total": 7})
    {'order': 'N-1101'}
    >>> valid_tags("none")
    {}
    """
    if not isinstance(found, Mapping):
        return {}
    tags: dict[str, str] = {}
    for name, value in found.items():
        if len(tags) == MAX_TAGS:
            break
        if is_name(name) and is_value(value):
            tags[name] = value
    return tags
