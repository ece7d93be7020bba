"""Finds texts in a text, however many they are, in time proportional to it."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from tieline.telemetry.secret_forms import SHORTEST, Forms

Span = tuple[int, int]
"""Begin and end of a part of a text."""
_BEGIN = 4
"""Letters by which the beginning of a form is recognised."""
# Up to so many forms, looking for each is quicker than one expression for all, which also has to be compiled.
_FEW = 150
_PREFIX = 8
_SameLength = tuple[int, str, frozenset[str]]
"""Texts of one length: the only one, or else all of them."""


class Matcher:
    """Finds all occurrences of texts, overlapping ones too, in time proportional to the text."""

    def __init__(self, known: Sequence[Forms]) -> None:
        self.forms = tuple(frozenset[str]().union(*(forms.all for forms in known)))
        """All texts that are looked for."""
        self.longest = max(map(len, self.forms), default=0)
        # By length: a short text, such as a path, is compared with those alone that fit into it.
        self._minimal = sorted({form for forms in known for form in forms.minimal}, key=len)
        self._lengths = [len(form) for form in self._minimal]
        self._pattern: re.Pattern[str] | None = None
        self._by_prefix: dict[str, list[_SameLength]] = {}
        if len(self._minimal) > _FEW:
            self._by_prefix = _by_prefix(self.forms)
            self._pattern = re.compile(_expression(self._by_prefix))

    def suspects(self, text: str) -> bool:
        """Whether one of the texts is there."""
        if self._pattern is None:
            # A loop over `in` is the quickest that Python has for some tens of texts.
            for form in self._minimal[: bisect_right(self._lengths, len(text))]:  # noqa: SIM110
                if form in text:
                    return True
            return False
        return next(self._candidates(text, self._pattern), None) is not None

    def spans(self, text: str) -> list[Span]:
        """Where they are."""
        if self._pattern is not None:
            return list(self._candidates(text, self._pattern))
        if not self.suspects(text):
            return []
        return [span for form in self.forms for span in _occurrences(text, form)]

    def _candidates(self, text: str, pattern: re.Pattern[str]) -> Iterator[Span]:
        offset = 0
        while found := pattern.search(text, offset):
            begin = found.start()
            for length, only, forms in self._by_prefix[found[0]]:
                # Comparing in place ends at the first letter that differs; several are looked up at once.
                if text.startswith(only, begin) if only else text[begin : begin + length] in forms:
                    yield begin, begin + length
            offset = begin + 1


def _occurrences(text: str, form: str) -> Iterator[Span]:
    offset = text.find(form)
    while offset >= 0:
        yield offset, offset + len(form)
        offset = text.find(form, offset + 1)


def unfinished_at(text: str, form: str) -> int:
    """Where ``text`` ends with the beginning of ``form``; its length when it does not."""
    offset = text.find(form[:_BEGIN], max(0, len(text) - len(form)))
    while offset >= 0:
        if form.startswith(text[offset:]):
            return offset
        offset = text.find(form[:_BEGIN], offset + 1)
    return len(text)


def _by_prefix(forms: Iterable[str]) -> dict[str, list[_SameLength]]:
    """The forms that a text may have where it has a prefix: those that begin with it, and those that it begins with.

    By their lengths: keys of one issuer have a prefix in common, and a length.
    """
    found: dict[str, list[str]] = {}
    for form in forms:
        found.setdefault(form[:_PREFIX], []).append(form)
    return {
        prefix: _by_length(
            chain(own, *(found.get(prefix[:size], ()) for size in range(SHORTEST, len(prefix))))
        )
        for prefix, own in found.items()
    }


def _by_length(forms: Iterable[str]) -> list[_SameLength]:
    found: dict[int, set[str]] = {}
    for form in forms:
        found.setdefault(len(form), set()).add(form)
    return [
        (length, next(iter(same)), frozenset()) if len(same) == 1 else (length, "", frozenset(same))
        for length, same in found.items()
    ]


def _expression(prefixes: Iterable[str]) -> str:
    """A regular expression for the longest of ``prefixes`` that a text has at a place, as a tree of letters.

    >>> _expression(["abcd", "abef", "abcdxy"])
    'ab(?:cd(?:xy)?|ef)'
    """
    root: dict[str, Any] = {}
    for prefix in prefixes:
        node = root
        for letter in prefix:
            node = node.setdefault(letter, {})
        node[""] = {}
    return _branches(root)


def _branches(node: Mapping[str, Any]) -> str:
    variants = [re.escape(letter) + _branches(further) for letter, further in sorted(node.items()) if letter]
    if not variants:
        return ""
    if "" in node:
        return f"(?:{'|'.join(variants)})?"
    return variants[0] if len(variants) == 1 else f"(?:{'|'.join(variants)})"
