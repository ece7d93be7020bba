"""Texts without the escapes of JSON, JavaScript, Python, HTML and URLs, and from where in the text each part comes.

A writer may escape any letter, so the forms of a secret cannot be listed: what was escaped is searched unescaped.
"""

import html
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

_MOST_LAYERS = 3
"""JSON in JSON in a URL. What is escaped more often is not recognised."""
_SIGNS = ("%", "&", "\\u", "\\/", "\\x", "\\U")
# The set of letters at the beginning is what makes both expressions quick: most of a text is passed over.
_UNUSUAL = re.compile(r"[%&\\](?:(?<=%)[0-9A-Fa-f]{2}|(?<=&)\#?\w{1,8};|(?<=\\)[uUx/])")
_ESCAPE = re.compile(
    r"""[%&\\](?:
      (?<=%)[0-9A-Fa-f]{2}(?:%[0-9A-Fa-f]{2})*
    | (?<=\\)(?:
        u[0-9A-Fa-f]{4}(?:\\u[0-9A-Fa-f]{4})* | x[0-9A-Fa-f]{2}(?:\\x[0-9A-Fa-f]{2})*
      | U[0-9A-Fa-f]{8} | u\{[0-9A-Fa-f]{1,6}\} | ["'\\/bfnrt])
    | (?<=&)(?:\#[0-9]{1,7}|\#[xX][0-9A-Fa-f]{1,6}|[A-Za-z]{2,8});
    )""",
    re.VERBOSE,
)
_PARTIAL_ESCAPE = re.compile(r"(?:\\+(?:[uUx]\{?[0-9A-Fa-f]{0,8})?|%[0-9A-Fa-f]?|&\#?\w{0,8})\Z")
_LONGEST_ESCAPE = 16
"""Letters, with the backslashes of several layers. The expression takes the square of a text's length."""
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def without_partial_escape(text: str) -> str:
    """The text without what may be the first part of an escape at its end."""
    found = _PARTIAL_ESCAPE.search(text, max(0, len(text) - _LONGEST_ESCAPE))
    return text[: found.start()] if found else text


@dataclass(frozen=True)
class Unescaped:
    """A text without one layer of escapes."""

    text: str
    _escaped: str
    _outer: "Unescaped | None" = None

    def source(self, span: tuple[int, int]) -> tuple[int, int]:
        """Where a part of ``text`` comes from, with whole escapes."""
        begins, sources = self._places
        first, last = bisect_right(begins, span[0]) - 1, bisect_right(begins, span[1] - 1) - 1
        begin = sources[first][0] + (0 if sources[first][1] else span[0] - begins[first])
        end = sources[last][0] + (sources[last][1] or span[1] - begins[last])
        return self._outer.source((begin, end)) if self._outer is not None else (begin, end)

    @cached_property
    def _places(self) -> tuple[list[int], list[tuple[int, int]]]:
        """Where parts begin in ``text``; and for each where it comes from, and the length of its escape or 0."""
        begins, sources = [0], [(0, 0)]
        length = offset = 0
        for found in _ESCAPE.finditer(self._escaped):
            length += found.start() - offset
            offset = found.start()
            # Each letter of a run by itself, so that no more than a secret is masked.
            for letter, size in _letters(found[0]):
                begins.append(length)
                sources.append((offset, size))
                length += len(letter)
                offset += size
            begins.append(length)
            sources.append((offset, 0))
        return begins, sources


def unescaped(text: str) -> Iterator[Unescaped]:
    """The text without one layer of escapes, and without further ones; nothing for a text whose escapes are usual.

    Usual are quotes, backslashes and line breaks alone: in these forms secrets are known anyway.
    """
    if not _has_unusual(text):
        return
    outer = None
    for _ in range(_MOST_LAYERS):
        plain = _ESCAPE.sub(_plain, text)
        if plain == text:
            return
        outer = Unescaped(plain, text, outer)
        text = plain
        yield outer


def _has_unusual(text: str) -> bool:
    # Looking for letters is quicker than the expression, and most texts have none of them.
    return any(map(text.__contains__, _SIGNS)) and _UNUSUAL.search(text) is not None


def _plain(found: re.Match[str]) -> str:
    return _text(found[0])


@lru_cache(maxsize=4096)
def _text(escape: str) -> str:
    return "".join(letter for letter, _ in _letters(escape))


def _letters(escape: str) -> list[tuple[str, int]]:
    """What an escape stands for, each letter with the length of its escape; itself where it stands for nothing."""
    kind = escape[:2]
    if kind[0] == "%" or kind == "\\x":
        width = len(kind) + 2 if kind == "\\x" else 3
        content = bytes.fromhex(escape.replace("%", "").replace("\\x", ""))
        letters = content.decode("utf-8", "surrogateescape")
        return [(one, width * len(one.encode("utf-8", "surrogateescape"))) for one in letters]
    if kind[0] == "&":
        return [(html.unescape(escape), len(escape))]
    if kind == "\\U" or escape[2:3] == "{":
        code = int(escape[2:].strip("{}"), 16)
        return [(chr(code) if code <= 0x10FFFF else escape, len(escape))]
    if kind == "\\u":
        units = bytes.fromhex(escape.replace("\\u", ""))
        return [(one, 12 if ord(one) > 0xFFFF else 6) for one in units.decode("utf-16-be", "surrogatepass")]
    return [(_LETTERS.get(escape[1], escape[1]), 2)]
