"""What of a provider's answer is kept: all of it is a stranger's text, and some of it is shown.

Scopes and the type of a token are stored beside it and shown to everybody who may see the connection. A provider
that echoes what it was sent must not put a secret there.
"""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from urllib.parse import quote, quote_plus

BEARER = "Bearer"
MOST_SCOPES = 512
"""As many as a person may ask for."""

_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,256}")  # RFC 6749, section 3.3
_TYPE = re.compile(r"[A-Za-z0-9._-]{1,32}")  # RFC 6749, appendix A.11
_TOKEN = re.compile(r"[\x20-\x7e]+")  # RFC 6749, appendices A.12 and A.17
# Shorter ones are in many words by chance: those have to be the whole word.
_TELLING = 8
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
        self._telling = tuple(form for form in forms if len(form) >= _TELLING)

    def are_in(self, word: str) -> bool:
        """Whether a word shows one of them, or a long part of one."""
        if word in self._forms or any(form in word for form in self._telling):
            return True
        return len(word) >= _LONG_PART and any(word in form for form in self._telling)


NO_SECRETS = SecretMatcher(())


def scopes(given: object, secrets: SecretMatcher = NO_SECRETS) -> tuple[str, ...]:
    """The scopes in an answer, each once; empty where none of it can be a list of scopes.

    ``given`` is text with spaces between them (RFC 6749, section 3.3), or a list. Dropped are words that cannot be
    a scope, those that show a secret, and what exceeds ``MOST_SCOPES``. Where the text as a whole shows one, a
    secret with spaces in it, all are dropped.
    """
    words = [word for word in _words(given) if not secrets.are_in(word)]
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


def _words(given: object) -> Sequence[str]:
    if isinstance(given, str):
        return given.split()
    if isinstance(given, list | tuple):
        return [word for item in given if isinstance(item, str) for word in item.split()]
    return ()
