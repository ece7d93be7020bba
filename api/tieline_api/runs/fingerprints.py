"""Which issue a failed run is of: the same for runs that failed the same way, whatever their numbers and versions."""

import hashlib
import re
from functools import lru_cache
from typing import Final

import orjson

from tieline_protocol.run_records import RunFacts

FAILED: Final = ("failed", "dead")
"""The statuses of runs that are of an issue."""
MAX_WORDS = 200
"""Characters of a message that tell issues apart."""
_LOOKED_AT = 1000
_REMEMBERED = 200
"""Messages: runs that fail for one reason say the same, thousands of times."""
_DIGITS = 20
_TOO_MANY_REQUESTS = 429
_SERVER_ERROR = 500
_LONG = 32
_QUOTED = re.compile(r'"[^"\n]*"|`[^`\n]*`|(?<!\w)\'[^\'\n]*\'(?!\w)')
_OPEN_QUOTE = re.compile(r'["`][^"`\n]*$|(?<!\w)\'[^\'\n]*$')
"""Of a message that was cut."""
_NAME = re.compile(r"['\"`][A-Za-z_][A-Za-z_.]{0,60}['\"`]")
"""Quoted text that names something of the code."""
_ABOUT_CODE = (
    "AttributeError",
    "ImportError",
    "KeyError",
    "ModuleNotFoundError",
    "NameError",
    "UnboundLocalError",
)
"""Types whose messages quote names of the code, which tell failures apart."""
_ADDRESS = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]{0,20}://\S*|[^\s<>@]{1,64}@[^\s<>@]{1,255}")
_IPV6 = re.compile(r"(?<![\w:])(?:[0-9a-fA-F]{0,4}:){2,7}[0-9a-fA-F.]{0,16}(?![\w:])")
_WORD = re.compile(r"[\w.-]+")
_REPEATED = re.compile(r"\*(?:[\s,;:/|+=-]*\*)+")
_SPACE = re.compile(r"\s+")


def issue_of(environment: str, run: RunFacts) -> str | None:
    """The id of a run's issue; None for a run that has not failed.

    Kind, task and type of the error tell issues apart, then the system that refused a request, and the words of the
    message. Of a system in trouble (429, 500 and above) the status is enough: what it says differs with each answer.
    """
    if run.status not in FAILED:
        return None
    error = run.error
    upstream = error.upstream if error else None
    troubled = upstream is not None and (
        upstream.status >= _SERVER_ERROR or upstream.status == _TOO_MANY_REQUESTS
    )
    parts = [
        environment,
        run.kind,
        run.task,
        error.type if error else "",
        upstream.system if upstream else "",
        upstream.status if upstream else 0,
        "" if error is None or troubled else words(error.message, names=error.type in _ABOUT_CODE),
    ]
    return hashlib.blake2b(orjson.dumps(parts), digest_size=_DIGITS // 2).hexdigest()


def is_issue_id(text: str) -> bool:
    """Whether a text can be the id of an issue."""
    return re.fullmatch(rf"[0-9a-f]{{{_DIGITS}}}", text) is not None


def words(message: str, *, names: bool = False) -> str:
    """A message without what differs from run to run: quoted text, addresses, numbers, ids and dates.

    With ``names``, quoted names of the code stay.

    >>> words("Order N-1101 of ann@example.com is unknown")
    'Order * of * is unknown'
    >>> words('shop answered GET https://shop.example/orders/7 with 404: {"error": "no order 7"}')
    'shop answered GET * with *: {*}'
    >>> words("KeyError: 'DATABASE_URL'", names=True)
    "KeyError: 'DATABASE_URL'"
    """
    # One letter more says that the message was cut.
    return _words(message[: _LOOKED_AT + 1], names)


@lru_cache(maxsize=_REMEMBERED)
def _words(message: str, names: bool) -> str:
    text = message[:_LOOKED_AT]
    text = _QUOTED.sub(lambda found: found[0] if names and _NAME.fullmatch(found[0]) else "*", text)
    if len(message) > _LOOKED_AT:
        text = _OPEN_QUOTE.sub("*", text)
    text = _ADDRESS.sub("*", text)
    text = _IPV6.sub("*", text)
    text = _WORD.sub(_masked, text)
    text = _SPACE.sub(" ", _REPEATED.sub("*", text))
    return text.strip()[:MAX_WORDS]


def _masked(found: re.Match[str]) -> str:
    """A word with a digit is a number, an id or a date, and one that is very long is a token; what ends it stays."""
    word = found[0]
    if len(word) >= _LONG or any(character.isdigit() for character in word):
        return "*" + word[len(word.rstrip(".-")) :]
    return word
