"""Python names and literals from what others wrote: whatever it is, the result is a name, or a literal of that text."""

import keyword
import re
import unicodedata
from collections.abc import Iterable

_MAX_NAME = 60
# Digits belong to the letters before them: k8s, getV2Orders, iso8601Date.
_WORDS = re.compile(r"[A-Z]+(?![a-z])[0-9]*|[A-Z]?[a-z][a-z0-9]*|[0-9]+[a-z]*")
# Of which directions letters are, that do not turn around what stands beside them.
_LEFT_TO_RIGHT = frozenset({"L", "EN", "ES", "ET", "CS", "WS", "ON", "NSM"})


def class_name(text: str, *, default: str = "Value") -> str:
    """``shop-order`` becomes ``ShopOrder``; ``default`` where there is no letter of ASCII.

    >>> class_name("créé order"), class_name("1: __import__('os')"), class_name("日本")
    ('CreeOrder', 'N1ImportOs', 'Value')
    """
    words = re.split(r"[^A-Za-z0-9]+", _ascii(text))
    name = "".join(word[:1].upper() + word[1:] for word in words)[:_MAX_NAME] or default
    if name[0].isdigit():
        name = f"N{name}"
    return f"{name}_" if keyword.iskeyword(name) else name


def snake_name(text: str, *, default: str = "value") -> str:
    """``createOrder`` becomes ``create_order``.

    >>> snake_name("getHTTPOrders"), snake_name("X-Request-Id"), snake_name("from"), snake_name("__class__")
    ('get_http_orders', 'x_request_id', 'from_', 'class_')
    >>> snake_name("k8s"), snake_name("getV2Orders"), snake_name("2faCode"), snake_name("HTTP2Push")
    ('k8s', 'get_v2_orders', 'n2fa_code', 'http2_push')
    """
    name = "_".join(word.lower() for word in _WORDS.findall(_ascii(text)))[:_MAX_NAME].strip("_") or default
    if name[0].isdigit():
        name = f"n{name}"
    return f"{name}_" if keyword.iskeyword(name) or keyword.issoftkeyword(name) else name


class Names:
    """Gives every thing a name of its own, in the order in which they ask."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def free(self, name: str) -> str:
        """``name``, or with a number behind it where it is taken."""
        found, number = name, self._next.get(name, 2)
        while found in self._taken:
            found = f"{name.rstrip('_')}_{number}"
            number += 1
        # The numbers before it are taken: descriptions may have the same name thousands of times.
        self._next[name] = number
        self._taken.add(found)
        return found


def literal(text: str) -> str:
    r"""A Python literal of a text, on one line.

    >>> print(literal('say "hi"\r\n'), literal("größe"), literal("\u202e"))
    "say \"hi\"\x0d\x0a" "größe" "\u202e"
    """
    return f'"{"".join(map(_escaped, text))}"'


def docstring(text: str, *, longest: int = 300) -> str:
    r"""A docstring's content: one line, without what could end it, or turn around what stands beside it.

    >>> docstring('An order.\n' + 3 * '"' + '\nimport os #')
    "An order. ''' import os #"
    """
    plain = "".join(letter if is_plain(letter) else " " for letter in text[: longest * 4])
    line = " ".join(plain.replace('"', "'").replace("\\", "/").split())
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def is_plain(letter: str) -> bool:
    """Whether a letter can stand in source code as it is."""
    return letter.isprintable() and unicodedata.bidirectional(letter) in _LEFT_TO_RIGHT


def _escaped(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    if is_plain(letter):
        return letter
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _ascii(text: str) -> str:
    """The letters of ASCII that a text is made of; accents are dropped."""
    decomposed = unicodedata.normalize("NFKD", text[:1000])
    return "".join(
        letter if letter.isascii() else " " for letter in decomposed if not unicodedata.combining(letter)
    )
