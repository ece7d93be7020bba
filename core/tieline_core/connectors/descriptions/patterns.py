"""Which regular expressions of a description are none, found at a cost that follows their length.

Only the syntax matters here, and what makes compiling dear is not syntax: large counts, Unicode classes (thousands of
ranges each) and case folding. They are replaced before the pattern is compiled.
"""

import re
from collections.abc import Iterable

import jsonschema_rs

MAX_PATTERN = 4096
"""The longest pattern that counts as one, in characters."""
# What checking all patterns of a description may cost: about a second.
_BUDGET = 1024 * 1024
_EACH = 128
_COUNT = re.compile(r"(?<!\\[pPxuU])\{(\d+)(?:(,)(\d*))?\}")
_CLASS = re.compile(r"\\[pP]\{[^{}]*\}")
_FOLDING = re.compile(r"\(\?[a-zA-Z-]*i[a-zA-Z-]*(?=[:)])")


class Patterns:
    """Checks patterns one after the other, until its budget is used up."""

    def __init__(self) -> None:
        self._left = _BUDGET
        self._known_classes: dict[str, None] = {}
        self.unchecked = 0
        """How many patterns were not checked."""

    def invalid(self, patterns: Iterable[str]) -> set[str]:
        """Those of ``patterns`` that are no regular expressions. The same for the same patterns in this order."""
        return {pattern for pattern in dict.fromkeys(patterns) if not self._is_fine(pattern)}

    def _is_fine(self, pattern: str) -> bool:
        if len(pattern) > MAX_PATTERN:
            return False
        self._left -= len(pattern) + _EACH
        if self._left < 0:
            self.unchecked += 1
            return True
        return _compiles(self._cheap(pattern))

    def _cheap(self, pattern: str) -> str:
        """A pattern that is valid if ``pattern`` is, and cheap to compile."""
        pattern = _COUNT.sub(_small_count, pattern)
        pattern = _FOLDING.sub("(?s", pattern)
        return _CLASS.sub(self._once, pattern)

    def _once(self, found: re.Match[str]) -> str:
        """A Unicode class where it is met first, to see whether it exists; a letter after that."""
        name = found[0]
        if name in self._known_classes:
            return "a"
        if _compiles(name):
            self._known_classes[name] = None
            return "a"
        return name


def _small_count(found: re.Match[str]) -> str:
    least, comma, most = found.groups()
    if not comma:
        return "{1}"
    if not most:
        return "{1,}"
    return "{1,2}" if _number(least) <= _number(most) else "{2,1}"


def _number(digits: str) -> tuple[int, str]:
    """Orders numbers of any length without reading them."""
    digits = digits.lstrip("0")
    return len(digits), digits


def _compiles(pattern: str) -> bool:
    try:
        jsonschema_rs.validator_for({"type": "string", "pattern": pattern}, offline=True)
    except ValueError:
        return False
    return True
