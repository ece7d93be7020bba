"""Keeps known secrets out of what is written: logs, spans, error texts and the termination message.

Texts are masked before they are split or cut: half a secret is no longer recognised. Every step takes time in
proportion to the text, whatever the text is: callers choose parts of it.
"""

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple
from urllib.parse import quote, quote_plus

from tieline.telemetry.unescaping import unescaped, without_partial_escape
from tieline_common.bounded_dict import BoundedDict

MASK = "***"

# Signed tokens are made anew all the time, here (jwt-bearer) and elsewhere; all begin with '{"' in base64url.
_JWT_BEGIN = "eyJ"
_JWT_RUN = re.compile(rf"{_JWT_BEGIN}[\w.-]*", re.ASCII)
_JWT_PARTS = (len(_JWT_BEGIN) + 8, 8, 16)
_LONGEST_JWT = 8192

# Shorter values would blank out ordinary words and say nothing about where they came from.
SHORTEST = 6
"""Shorter values are not masked."""
_BEGIN = 4
"""Letters by which the beginning of a form is recognised."""
# The same for a line of a longer secret, and for what is left of an encoded one between its neighbours.
_SHORTEST_PART = 8
_MAX_LINES = 1000
_COMPARED = 300
_LINE_BREAKS = re.compile(r"\r\n|\r|\n|\\r\\n|\\n")
# Rotated values stay known for a while: what uses the old one may still log it.
_REMEMBERED = 1000
# Up to so many forms, looking for each is quicker than one expression for all, which also has to be compiled.
_FEW = 150
_PREFIX = 8

Span = tuple[int, int]
"""Begin and end of a part of a text."""


_SameLength = tuple[int, str, frozenset[str]]
"""Texts of one length: the only one, or else all of them."""


class _Forms(NamedTuple):
    """The texts by which a secret is recognised."""

    all: frozenset[str] = frozenset()
    minimal: frozenset[str] = frozenset()
    """Those that contain no other one: a text without these has none of them."""


current_redactor: ContextVar[Callable[[], "Redactor"] | None] = ContextVar("tieline_redactor", default=None)
"""Knows secrets that only the current task or thread has to do with: those of the run's user."""


class Redactor:
    """Replaces every secret that it was given, in the forms in which secrets travel.

    A value is recognised as it is; as JSON, Python, HTML and URLs write it; in hexadecimal; in base64 and base64url,
    also inside of a longer encoded text; and each longer line of a value with several lines by itself. Letters may be
    escaped as JSON, JavaScript, HTML and URLs allow it, also those that need no escape. JWTs are recognised by their
    form. Values of fewer than ``SHORTEST`` characters are not masked.
    """

    def __init__(self, *, jwts: bool = True) -> None:
        """Without ``jwts``, tokens are masked only if they are known."""
        self._jwts = jwts
        self._current: dict[str, frozenset[str | bytes]] = {}
        self._former: BoundedDict[str | bytes, None] = BoundedDict(_REMEMBERED)
        self._known: frozenset[str | bytes] = frozenset()
        self._built = (self._known, _Matcher(()))

    def learn(self, secrets: Iterable[str | bytes]) -> None:
        """Remember ``secrets``, with the 1,000 last ones that came this way."""
        self._remember(secrets)
        self._refresh()

    def replace(self, source: str, secrets: Iterable[str | bytes]) -> None:
        """Know the ``secrets`` that ``source`` holds now. Former ones are remembered."""
        new = frozenset(secrets)
        old = self._current.get(source, frozenset())
        if new == old:
            return
        self._current[source] = new
        self._remember(old - new)
        self._refresh()

    def _remember(self, secrets: Iterable[str | bytes]) -> None:
        for secret in secrets:
            self._former[secret] = None

    def _refresh(self) -> None:
        self._known = frozenset(self._former).union(*self._current.values())

    @property
    def _matcher(self) -> "_Matcher":
        """Made when a text is looked at: secrets often change several times in between."""
        known = self._known
        of, matcher = self._built
        if of is not known and of != known:
            matcher = _Matcher([_forms(secret) for secret in known])
        self._built = (known, matcher)
        return matcher

    def __call__(self, text: str) -> str:
        """``text`` with every known secret and every JWT replaced."""
        return replaced(text, self._spans(text, (self._matcher,)))

    def for_run(self, text: str, *, longest: int | None = None) -> str:
        """The same, with the secrets of the current run's user; not more than ``longest`` letters of it."""
        if longest is None or len(text) <= longest:
            return replaced(text, self.spans(text))[:longest]
        # What begins before the end is looked for beyond it; nothing more of a long text has to be read.
        window = text[: longest + self.reach]
        spans = [span for span in self.spans(window) if span[0] < longest]
        end = max([longest, *(span[1] for span in spans)])
        return replaced(window[:end], spans)[:longest]

    def spans(self, text: str) -> list[Span]:
        """Where secrets of the process and of the current run's user are; they may overlap."""
        return self._spans(text, self._matchers())

    def _spans(self, text: str, matchers: "tuple[_Matcher, ...]") -> list[Span]:
        spans = self._plain_spans(text, matchers)
        for view in unescaped(text):
            spans += map(view.source, self._plain_spans(view.text, matchers))
        return spans

    def _plain_spans(self, text: str, matchers: "tuple[_Matcher, ...]") -> list[Span]:
        spans = jwts(text) if self._jwts else []
        for matcher in matchers:
            spans += matcher.spans(text)
        return spans

    def _matchers(self) -> "tuple[_Matcher, ...]":
        """Those of the process and of the current run's user."""
        own = current_redactor.get()
        other = own() if own else self
        return (self._matcher,) if other is self else (self._matcher, other._matcher)

    def unfinished(self, text: str) -> int:
        """Where the last part of ``text`` begins that may be the beginning of a secret; its length without one."""
        ends = [len(text)]
        for part in {text, without_partial_escape(text)}:
            ends += self._begun(part)
            for view in unescaped(part):
                for shown in {view.text, without_partial_escape(view.text)}:
                    ends += (view.source((begun, len(shown)))[0] for begun in self._begun(shown))
        return min(ends)

    def _begun(self, text: str) -> list[int]:
        """Where beginnings of secrets are at the end of ``text``."""
        forms = (form for matcher in self._matchers() for form in matcher.forms)
        return [begun for form in forms if (begun := _begun(text, form)) < len(text)]

    def suspects(self, text: str) -> bool:
        """Whether ``text`` may hold a secret: quicker than masking it, and true rather too often."""
        matchers = self._matchers()
        if _JWT_BEGIN in text or any(matcher.suspects(text) for matcher in matchers):
            return True
        return any(matcher.suspects(view.text) for view in unescaped(text) for matcher in matchers)

    def masked(self, value: Any) -> Any:
        """JSON-like data with all its texts masked, names as well, and numbers that are secrets."""
        if isinstance(value, str):
            return self.for_run(value)
        if isinstance(value, Mapping):
            return {self.masked(name): self.masked(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.masked(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            text = str(value)
            return MASK if (0, len(text)) in self.spans(text) else value
        return value

    @property
    def reach(self) -> int:
        """How many letters the longest thing has that is recognised."""
        return max(_LONGEST_JWT, *(matcher.longest for matcher in self._matchers()))


class _Matcher:
    """Finds all occurrences of texts, overlapping ones too, in time proportional to the text."""

    def __init__(self, known: Sequence[_Forms]) -> None:
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


def _begun(text: str, form: str) -> int:
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


def jwts(text: str) -> list[Span]:
    """Where JWTs are: three parts in base64url, the first of which begins with ``eyJ`` somewhere."""
    if _JWT_BEGIN not in text:  # the usual case, and quicker to see than by the expression
        return []
    # A run is as long as can be, so no later token begins within it.
    return [span for run in _JWT_RUN.finditer(text) for span in _jwts_of_run(run[0], run.start())]


def _jwts_of_run(run: str, offset: int) -> Iterator[Span]:
    parts = run.split(".")
    begins = [offset]
    for part in parts[:-1]:
        begins.append(begins[-1] + len(part) + 1)
    index = 0
    while index + 2 < len(parts):
        begin = parts[index].find(_JWT_BEGIN)
        lengths = (len(parts[index]) - begin, len(parts[index + 1]), len(parts[index + 2]))
        if begin >= 0 and all(length >= least for length, least in zip(lengths, _JWT_PARTS, strict=True)):
            yield begins[index] + begin, begins[index + 2] + lengths[2]
            index += 3
        else:
            index += 1


def replaced(text: str, spans: Sequence[Span]) -> str:
    """``text`` with one mask for each part that ``spans`` cover together."""
    if not spans:
        return text
    spans = sorted(spans)
    parts: list[str] = []
    begin, end = spans[0]
    offset = 0
    for span in spans:
        if span[0] > end:
            parts += (text[offset:begin], MASK)
            offset, (begin, end) = end, span
        elif span[1] > end:
            end = span[1]
    parts += (text[offset:begin], MASK, text[end:])
    return "".join(parts)


@lru_cache(maxsize=2 * _REMEMBERED)
def _forms(secret: str | bytes) -> _Forms:
    """Whitespace at both ends is left out: it says nothing, and is often lost on the way."""
    value = secret.strip() if isinstance(secret, str) else secret
    if len(value) < SHORTEST:
        return _Forms()
    if isinstance(value, bytes):
        colons = value.hex(":")
        found = {*_written(repr(value)[2:-1]), *_encoded(value), colons, colons.upper()}
    else:
        # Of a JSON text in base64 the secret is what JSON makes of it.
        inner = (
            {variant.encode() for variant in (_escaped(value), json.dumps(value)[1:-1])}
            if "\\" in json.dumps(value)
            else ()
        )
        encoded = (form for variant in inner for form in _encoded(variant))
        own = _encoded(value.encode(errors="surrogatepass"))
        found = {*own, *_written(value), *encoded, *_of_lines(value)}
    forms = sorted(found, key=len)
    minimal: list[str] = []
    for form in forms:
        # Comparing each with each is for few of them.
        if len(forms) > _COMPARED or not any(other in form for other in minimal):
            minimal.append(form)
    return _Forms(frozenset(found), frozenset(minimal))


def _of_lines(text: str) -> Iterator[str]:
    """The forms of each line by itself, and of all together without breaks: keys in PEM are printed so.

    Line breaks may be escaped already, as in a JSON file that holds such a key.
    """
    lines = [line.strip() for line in _LINE_BREAKS.split(text, maxsplit=_MAX_LINES)[:_MAX_LINES]]
    if len(lines) < 2:
        return
    # What stands around a key in PEM is no secret.
    inner = [line for line in lines if line and not line.startswith("-----")]
    for part in (*inner, "".join(inner)):
        if len(part) >= _SHORTEST_PART:
            yield from _written(part)


def _written(text: str) -> Iterator[str]:
    """``text`` as it is, and as JSON, Python, HTML and URLs write it."""
    path = quote(text, safe="")
    variants = {
        text,
        _escaped(text),
        json.dumps(text)[1:-1],
        # PHP escapes slashes, Go what HTML would take for its own.
        json.dumps(text)[1:-1].replace("/", r"\/"),
        _escaped(text).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
        repr(text)[1:-1],
        ascii(text)[1:-1],
        repr(text.encode(errors="surrogatepass"))[2:-1],
        repr(repr(text)[1:-1])[1:-1],
        repr(repr(text))[2:-2],
        html.escape(text),
        path,
        re.sub("%..", lambda found: found[0].lower(), path),
        quote(text),
        quote_plus(text),
        quote(path, safe=""),  # OAuth 1.0's PLAINTEXT signatures
    }
    # Log lines are JSON themselves: each form also as it looks within a line.
    for variant in variants:
        yield variant
        yield _escaped(variant)
        yield _escaped(_escaped(variant))


def _encoded(content: bytes) -> Iterator[str]:
    """In hexadecimal and base64; the latter as it is, and as it is inside of a longer encoded text."""
    if len(content) >= SHORTEST:
        yield content.hex()
        yield content.hex().upper()
    for shift in range(3):
        whole = base64.b64encode(bytes(shift) + content).decode()
        # Of the letters at both ends some bits belong to the neighbours.
        begin, size = (0, 2, 3)[shift], shift + len(content)
        forms = {whole[begin : size // 3 * 4], whole[begin : size * 8 // 6], *([] if shift else [whole])}
        for form in forms:
            if len(form) >= _SHORTEST_PART:
                yield form
                yield form.replace("+", "-").replace("/", "_")


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
