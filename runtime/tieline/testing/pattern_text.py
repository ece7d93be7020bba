"""A text that matches a regular expression of JSON Schema, for examples."""

import re
from collections.abc import Iterator

_LONGEST = 1_000
_DEEPEST = 40
_TRIES = 64
_CLASSES = {"d": "0", "D": "a", "w": "a", "W": "-", "s": " ", "S": "a"}
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v", "0": "\0"}
_LETTERS = "aA0-_.:/ @#"
"""What stands for any letter: the first of them that is allowed."""
_SETS = {
    "d": frozenset("0"),
    "D": frozenset(_LETTERS) - frozenset("0"),
    "w": frozenset("aA0_"),
    "W": frozenset(_LETTERS) - frozenset("aA0_"),
    "s": frozenset(" "),
    "S": frozenset(_LETTERS) - frozenset(" "),
}
_COUNT = re.compile(r"\{(\d{1,6})(,(\d{0,6}))?\}")
_HEX = re.compile(r"x([0-9a-fA-F]{2})|x\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|u\{([0-9a-fA-F]{1,6})\}")
_PROPERTY = re.compile(r"[pP](\{[\w=^ ]{1,40}\}|[A-Z])")


class _UnknownPatternError(Exception):
    """The pattern is beyond what is understood here."""


def text_matching(pattern: str, *, shortest: int = 0, longest: int | None = None) -> str | None:
    """A text that should match; None where none is found. Callers check it: not all of a pattern is understood.

    >>> text_matching("^[A-Z]{3}-[0-9]+$"), text_matching("^(?:cus|sub)_[a-z]+$", shortest=6)
    ('AAA-0', 'cus_aa')
    >>> text_matching("(?=a)b")
    """
    best = None
    for more in range(_TRIES):
        try:
            text = _Reader(pattern, more).text()
        except _UnknownPatternError:
            return best
        if len(text) >= shortest and (longest is None or len(text) <= longest):
            return text
        best = best or text
        if len(text) >= shortest:
            return best
    return best


class _Reader:
    """Reads a pattern, and writes the text as it goes; what may be repeated is there ``more`` times than it must."""

    def __init__(self, pattern: str, more: int) -> None:
        self._pattern = pattern
        self._more = more
        self._at = 0
        self._depth = 0

    def text(self) -> str:
        """Raises _UnknownPatternError."""
        text = self._alternatives()
        if self._at < len(self._pattern):
            raise _UnknownPatternError
        return text

    def _alternatives(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownPatternError
        chosen = self._sequence()
        while self._took("|"):
            self._sequence()
        self._depth -= 1
        return chosen

    def _sequence(self) -> str:
        parts: list[str] = []
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            atom = self._atom()
            count = self._count()
            if sum(map(len, parts)) + len(atom) * count > _LONGEST:
                raise _UnknownPatternError
            parts.append(atom * count)
        return "".join(parts)

    def _atom(self) -> str:
        letter = self._next()
        if letter == "(":
            return self._group()
        if letter == "[":
            return self._set()
        if letter == "\\":
            return self._escape()
        if letter in "^$":
            return ""
        if letter in "*+?":
            raise _UnknownPatternError
        return "a" if letter == "." else letter

    def _group(self) -> str:
        if self._took("?"):
            named = re.compile(r":|P?<[A-Za-z_]\w{0,60}>").match(self._pattern, self._at)
            if named is None:
                raise _UnknownPatternError
            self._at = named.end()
        text = self._alternatives()
        if not self._took(")"):
            raise _UnknownPatternError
        return text

    def _escape(self) -> str:
        found = self._code()
        if found is not None:
            return found
        if (known := _PROPERTY.match(self._pattern, self._at)) is not None:
            self._at = known.end()
            negated = known.group().startswith("P")
            is_number = "N" in known.group(1)[:2]
            return "0" if is_number is not negated else "a"
        letter = self._next()
        if letter in "bBAzZ":
            return ""
        if letter.isalnum() and letter not in _CLASSES | _CONTROLS:
            raise _UnknownPatternError
        return _CLASSES.get(letter) or _CONTROLS.get(letter) or letter

    def _code(self) -> str | None:
        found = _HEX.match(self._pattern, self._at)
        if found is None:
            return None
        self._at = found.end()
        number = int(next(digits for digits in found.groups() if digits), 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            raise _UnknownPatternError
        return chr(number)

    def _set(self) -> str:
        negated = self._took("^")
        ranges = list(self._ranges())
        if not negated:
            return ranges[0][0] if ranges else ""
        for letter in _LETTERS:
            if not any(first <= letter <= last for first, last in ranges):
                return letter
        raise _UnknownPatternError

    def _ranges(self) -> Iterator[tuple[str, str]]:
        is_first = True
        while is_first or self._pattern[self._at : self._at + 1] != "]":
            is_first = False
            if self._pattern[self._at : self._at + 1] == "\\" and (
                letters := _SETS.get(self._pattern[self._at + 1 : self._at + 2])
            ):
                self._at += 2
                yield from ((one, one) for one in _LETTERS if one in letters)
                continue
            first = self._member()
            last = first
            rest = self._pattern[self._at : self._at + 2]
            if rest[:1] == "-" and rest[1:] not in ("]", ""):
                self._at += 1
                last = self._member()
            yield first, last
        self._at += 1

    def _member(self) -> str:
        letter = self._next()
        return self._escape() if letter == "\\" else letter

    def _count(self) -> int:
        found = _COUNT.match(self._pattern, self._at)
        if found is not None:
            self._at = found.end()
            least = int(found[1])
            most = least if found[2] is None else int(found[3]) if found[3] else None
        else:
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(
                self._pattern[self._at : self._at + 1], (1, 1)
            )
            self._at += self._pattern[self._at : self._at + 1] in ("*", "+", "?") and self._at < len(
                self._pattern
            )
        if found is not None or (least, most) != (1, 1):
            self._took("?")
        return least + self._more if most is None else min(most, least + self._more)

    def _next(self) -> str:
        if self._at >= len(self._pattern):
            raise _UnknownPatternError
        self._at += 1
        return self._pattern[self._at - 1]

    def _took(self, letter: str) -> bool:
        is_there = self._pattern[self._at : self._at + 1] == letter
        self._at += is_there
        return is_there
