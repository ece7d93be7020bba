"""Keeps known secret values out of what is written: logs and the termination message."""

import base64
import json
import re
from collections.abc import Iterable
from urllib.parse import quote, quote_plus

MASK = "***"
# Signed tokens are made anew all the time, here (jwt-bearer) and elsewhere; all begin with '{"' in base64url.
_JWT_BEGIN = "eyJ"
_JWT = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{16,}", re.ASCII)
# Shorter values would blank out ordinary words and say nothing about where they came from.
_SHORTEST = 4
# Rotated values stay known for a while: what uses the old one may still log it.
_REMEMBERED = 1000


class Redactor:
    """Replaces every secret value it was told of, in the forms in which they travel.

    A value is recognised as it is, as JSON writes it, percent-encoded (once or twice), and (for user
    names with passwords) as the base64 of HTTP's basic authentication. JWTs are recognised by their form.
    """

    def __init__(self) -> None:
        self._forms: dict[str, None] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, secrets: Iterable[str], basic: Iterable[tuple[str, str]] = ()) -> None:
        """Remember ``secrets`` and the pairs (user name, password) of ``basic``."""
        learnt = [form for secret in secrets if len(secret) >= _SHORTEST for form in _forms(secret)]
        learnt += [
            base64.b64encode(f"{user}:{password}".encode()).decode() for user, password in basic if password
        ]
        if all(form in self._forms for form in learnt):
            return
        for form in learnt:
            self._forms.pop(form, None)
            self._forms[form] = None
        for form in list(self._forms)[:-_REMEMBERED]:
            del self._forms[form]
        longest_first = sorted(self._forms, key=len, reverse=True)
        self._pattern = re.compile("|".join(re.escape(form) for form in longest_first))

    def __call__(self, text: str) -> str:
        """``text`` with every known secret and every JWT replaced."""
        masked = self._pattern.sub(MASK, text) if self._pattern else text
        return _JWT.sub(MASK, masked) if _JWT_BEGIN in masked else masked


def _forms(secret: str) -> set[str]:
    stripped = secret.strip()
    forms = {
        secret,
        stripped if len(stripped) >= _SHORTEST else secret,
        _escaped(secret),
        json.dumps(secret)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        quote(quote(secret, safe=""), safe=""),  # OAuth 1.0's PLAINTEXT signatures
    }
    # Log lines are JSON themselves: each form also as it looks within a line.
    return forms | {_escaped(form) for form in forms}


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
