"""Places in a request that auth schemes name: headers, parameters, and fields of a JSON body or a form."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, cast

MAX_PATH = 256
HEADER_NAME = r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}"
FIELD_PATH = r"[!-+\--<>-~]+"
"""A dotted path, a JSON pointer, or the name of a parameter: ASCII without space, comma and equals sign."""
PLACE_PATTERN = rf"^(query:{FIELD_PATH}|header:{HEADER_NAME}|body:{FIELD_PATH}|form:{FIELD_PATH})$"
CONDITION_PATTERN = (
    rf"^(query:{FIELD_PATH}|header:{HEADER_NAME}|body:{FIELD_PATH}|form:{FIELD_PATH})(=[\s\S]{{0,128}})?$"
)
PLACE_WORDS = "query:NAME, header:NAME, body:PATH (a field of the JSON body) or form:NAME"
EACH = "*"

PlaceKind = Literal["query", "header", "body", "form"]

_PLACE = re.compile(PLACE_PATTERN)
_CONDITION = re.compile(CONDITION_PATTERN)


class FieldError(ValueError):
    """A body has no such field, or it cannot be read; the message holds no value."""


@dataclass(frozen=True)
class Place:
    """Where one value of a request is."""

    kind: PlaceKind
    name: str

    @classmethod
    def parse(cls, text: str) -> "Place":
        """The place that a text such as ``query:challenge`` names; raises ValueError."""
        if not _PLACE.fullmatch(text):
            raise ValueError(f'"{text[:50]}" names no place; a place is {PLACE_WORDS}')
        kind, _, name = text.partition(":")
        return cls(cast("PlaceKind", kind), name)


@dataclass(frozen=True)
class Condition:
    """A place that has a value, or a certain one."""

    place: Place
    equals: str | None = None

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """The condition that a text such as ``body:type=url_verification`` states; raises ValueError."""
        if not _CONDITION.fullmatch(text):
            raise ValueError(f'"{text[:50]}" is no condition; a condition is a place, or PLACE=TEXT')
        place, equals, value = text.partition("=")
        return cls(Place.parse(place), value if equals else None)


def steps(path: str) -> list[str]:
    """The steps of a dotted path, or of a JSON pointer (RFC 6901).

    >>> steps("data.items.0.id"), steps("/a~1b/c")
    (['data', 'items', '0', 'id'], ['a/b', 'c'])
    """
    if path.startswith("/"):
        return [step.replace("~1", "/").replace("~0", "~") for step in path[1:].split("/")]
    return path.split(".")


def values_at(content: Any, path: str) -> list[str]:
    """The scalars at a path as text, one for each item where the path has ``*``. Raises FieldError.

    >>> values_at({"value": [{"id": 1}, {"id": 2}]}, "value.*.id")
    ['1', '2']
    """
    found = [content]
    for step in steps(path):
        found = [inner for one in found for inner in _inner(one, step, path)]
    if any(isinstance(one, dict | list) for one in found):
        raise FieldError(f"its field {path} is an object or a list, not one value")
    return [scalar_text(one) for one in found]


def value_at(content: Any, path: str) -> str:
    """The one scalar at a path as text; an absent field or null is empty. Raises FieldError.

    >>> value_at({"items": [{"amount": {"value": 1130}}]}, "items.*.amount.value")
    '1130'
    """
    found = values_at(content, path)
    if len(found) != 1:
        raise FieldError(f"its field {path} occurs {len(found)} times; the signature covers one")
    return found[0]


def scalar_text(value: Any) -> str:
    """A JSON scalar as text."""
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
    return str(value)


def text_bytes(text: str) -> bytes:
    """Text of a request as bytes: a header's own, or those of a body's text. Raises FieldError.

    JSON can hold half a character, which has none.
    """
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise FieldError("its body has text that is not Unicode") from None


def no_duplicates(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """For ``object_pairs_hook``: an object whose keys differ. Another reader may take another one of two equal keys."""
    content: dict[str, Any] = {}
    for name, value in pairs:
        if name in content:
            raise FieldError("its JSON body has a key twice in one object")
        content[name] = value
    return content


def _inner(content: Any, step: str, path: str) -> list[Any]:
    if isinstance(content, list):
        if step == EACH:
            return list(content)
        if step.isascii() and step.isdigit() and len(step) < 6:
            return content[int(step) : int(step) + 1] or [None]
    if content is None:
        return [None]
    if isinstance(content, dict):
        return [content.get(step)]
    raise FieldError(f"its field {path} is not where the auth scheme says")
