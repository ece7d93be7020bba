"""What of a provider's answer is kept: all of it is untrusted text, and some of it is shown.

Scopes and the type of a token are stored beside it and shown to everybody who may see the connection. A provider
that echoes what it was sent must not put a secret there.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus

from tieline_protocol.oauth.answers import text_of

BEARER = "Bearer"
MOST_SCOPES = 512
"""As many as a person may ask for."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")  # RFC 6749, section 3.3
_TYPE = re.compile(r"[A-Za-z0-9._-]{1,32}")  # RFC 6749, appendix A.11
_TOKEN = re.compile(r"[\x20-\x7e]+")  # RFC 6749, appendices A.12 and A.17
_CODE = re.compile(r"[A-Za-z0-9_.: -]{1,64}")
_WORD = re.compile(r"\S+")
_LONGEST_TEXT = 300
_SHORT_PART = 5
MASK = "***"
# Shorter ones are in many words by chance: those have to be the whole word.
_MIN_SUBSTRING = 8
# A word as long as this that is a part of a secret is no scope.
_LONG_PART = 16


class SecretMatcher:
    """Values that must not be shown, in the forms that they have on their way to a provider."""

    def __init__(self, values: Iterable[str], *, client: tuple[str, str] = ("", "")) -> None:
        """``client`` is the client's id and secret, which travel together in a header."""
        found = {value for value in (*values, client[1]) if value}
        forms = {
            form
            for value in found
            for form in (value, " ".join(value.split()), quote(value, safe=""), quote_plus(value))
        }
        if client[1]:
            for pair in (client, map(quote_plus, client)):
                forms.add(b64encode(":".join(pair).encode()).decode().rstrip("="))
        self._forms = frozenset(forms)
        self._small = frozenset(form.lower() for form in forms)
        self._long_forms = tuple(form for form in forms if len(form) >= _MIN_SUBSTRING)

    def share(self, word: str) -> bool:
        """Whether a word has a part of one of them: ``_SHORT_PART`` letters in a row, or all of a shorter one."""
        small = word.lower()
        for form in self._small:
            if len(form) <= _SHORT_PART:
                if form in small:
                    return True
            elif any(small[at : at + _SHORT_PART] in form for at in range(len(small) - _SHORT_PART + 1)):
                return True
        return False

    def are_in(self, word: str) -> bool:
        """Whether a word shows one of them, or a long part of one."""
        if word in self._forms or any(form in word for form in self._long_forms):
            return True
        return len(word) >= _LONG_PART and any(word in form for form in self._long_forms)


NO_SECRETS = SecretMatcher(())


def scopes(given: object, secrets: SecretMatcher = NO_SECRETS, *, separators: str = " ") -> tuple[str, ...]:
    """The scopes in an answer, each once; empty where none of it can be a list of scopes.

    ``given`` is a list, or text with spaces (RFC 6749, section 3.3) or any of the ``separators`` between them. Dropped
    are words that cannot be a scope, those that show a secret, and what exceeds ``MOST_SCOPES``. Where the text as a
    whole shows one, a secret with spaces in it, all are dropped.
    """
    words = [word for word in _words(given, separators) if not secrets.are_in(word)]
    if secrets.are_in(" ".join(words)):
        return ()
    return tuple(dict.fromkeys(word for word in words if _SCOPE.fullmatch(word)))[:MOST_SCOPES]


def token_type(given: object, secrets: SecretMatcher = NO_SECRETS) -> str:
    """The type of a token in an answer; ``Bearer`` where it is none, and for bearer tokens however they are written."""
    if not isinstance(given, str) or not _TYPE.fullmatch(given) or secrets.are_in(given):
        return BEARER
    return BEARER if given.lower() == "bearer" else given


def token(given: object) -> str:
    """A token in an answer; empty where it is none that a request can carry."""
    return given if isinstance(given, str) and _TOKEN.fullmatch(given) else ""


def shown_code(given: object, secrets: SecretMatcher) -> str:
    """An error code in an answer, as it may be shown; empty where it is none, or shows a secret."""
    text = text_of(given)
    return text if _CODE.fullmatch(text) and masked(text, secrets) == text else ""


def masked(text: str, secrets: SecretMatcher) -> str:
    """An error's text for people: one line, bounded, and with every word masked that shares a part with a secret."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[:_LONGEST_TEXT])
    words = " ".join(shown.split())
    return _WORD.sub(lambda word: MASK if secrets.share(word[0]) else word[0], words)


def _words(given: object, separators: str) -> Sequence[str]:
    if isinstance(given, str):
        return re.split(f"[\\s{re.escape(separators)}]+", given)
    if isinstance(given, list | tuple):
        return [word for item in given if isinstance(item, str) for word in item.split()]
    return ()
