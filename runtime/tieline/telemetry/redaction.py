"""Keeps known secrets out of what is written: logs, spans, error texts and the termination message.

Texts are masked before they are split or cut: half a secret is no longer recognised. Every step takes time in
proportion to the text, whatever the text is: callers choose parts of it.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from tieline.telemetry.secret_forms import forms_of
from tieline.telemetry.secret_matcher import Matcher, Span, unfinished_at
from tieline.telemetry.unescaping import unescaped, without_partial_escape
from tieline_common.bounded_dict import BoundedDict

MASK = "***"

# Signed tokens are made anew all the time, here (jwt-bearer) and elsewhere; all begin with '{"' in base64url.
_JWT_BEGIN = "eyJ"
_JWT_RUN = re.compile(rf"{_JWT_BEGIN}[\w.-]*", re.ASCII)
_JWT_PARTS = (len(_JWT_BEGIN) + 8, 8, 16)
_LONGEST_JWT = 8192

# Rotated values stay known for a while: what uses the old one may still log it.
_REMEMBERED = 1000

current_redactor: ContextVar[Callable[[], "Redactor"] | None] = ContextVar("tieline_redactor", default=None)
"""Knows secrets that only the current task or thread has to do with: those of the run's user."""


class Redactor:
    """Replaces every secret that it was given, in the forms in which secrets travel.

    A value is recognised as it is; as JSON, Python, HTML and URLs write it; in hexadecimal; in base64 and base64url,
    also inside of a longer encoded text; and each longer line of a value with several lines by itself. Letters may be
    escaped as JSON, JavaScript, HTML and URLs allow it, also those that need no escape. JWTs are recognised by their
    form. Values of fewer than 6 characters are not masked.
    """

    def __init__(self, *, jwts: bool = True) -> None:
        """Without ``jwts``, tokens are masked only if they are known."""
        self._jwts = jwts
        self._current: dict[str, frozenset[str | bytes]] = {}
        self._former: BoundedDict[str | bytes, None] = BoundedDict(_REMEMBERED)
        self._known: frozenset[str | bytes] = frozenset()
        self._built = (self._known, Matcher(()))

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
    def _matcher(self) -> Matcher:
        """Made when a text is looked at: secrets often change several times in between."""
        known = self._known
        of, matcher = self._built
        if of is not known and of != known:
            matcher = Matcher([forms_of(secret) for secret in known])
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

    def _spans(self, text: str, matchers: tuple[Matcher, ...]) -> list[Span]:
        spans = self._plain_spans(text, matchers)
        for view in unescaped(text):
            spans += map(view.source, self._plain_spans(view.text, matchers))
        return spans

    def _plain_spans(self, text: str, matchers: tuple[Matcher, ...]) -> list[Span]:
        spans = jwts(text) if self._jwts else []
        for matcher in matchers:
            spans += matcher.spans(text)
        return spans

    def _matchers(self) -> tuple[Matcher, ...]:
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
        return [end for form in forms if (end := unfinished_at(text, form)) < len(text)]

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
