"""The signature of the query with which a provider sends the user back, by the client secret.

It shows that the code is the provider's, and of the account that the authorisation was begun for.
"""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Self
from urllib.parse import unquote_plus

from tieline_protocol.request_limits import seconds_of
from tieline_protocol.url_inputs import variables_of, with_values

_MOST_PARAMETERS = 32
Pair = tuple[str, str]


class CallbackRefusedError(Exception):
    """A callback that is not used; the message says why, and shows no value of it."""


@dataclass(frozen=True, kw_only=True)
class CallbackSignature:
    """What a callback must have; see CallbackSignature in ``tieline_core.resources.oauth2_dialect``."""

    parameter: str
    in_base64: bool = False
    unsigned: frozenset[str] = frozenset()
    expect: tuple[Pair, ...] = ()
    """Parameters and their values, with variables in curly braces."""
    timestamp_parameter: str = ""
    max_age: timedelta | None = None
    code_parameter: str = "code"

    @classmethod
    def of(cls, authorization: Mapping[str, Any]) -> Self | None:
        """That of a scheme's ``authorization``, where it has one."""
        given = authorization.get("callbackSignature")
        if not isinstance(given, Mapping) or not given.get("parameter"):
            return None
        return cls(
            parameter=str(given["parameter"]),
            in_base64=given.get("encoding") == "base64",
            unsigned=frozenset(map(str, given.get("unsigned") or ())),
            expect=tuple(
                (str(one.get("parameter")), str(one.get("value")))
                for one in given.get("expect") or ()
                if isinstance(one, Mapping)
            ),
            timestamp_parameter=str(given.get("timestampParameter") or ""),
            max_age=_duration(given.get("maxAge")),
            code_parameter=str(authorization.get("codeParameter") or "code"),
        )

    def check(
        self,
        query: str,
        *,
        secret: str,
        code: str,
        state: str,
        variables: Mapping[str, str],
        now: datetime,
    ) -> None:
        """Raises CallbackRefusedError where the query is not the provider's, or not for this authorisation.

        ``code`` and ``state`` are those that were stored, ``variables`` the connection's values.
        """
        raw = _pairs(query)
        found = {unquote_plus(name): unquote_plus(value) for name, value in raw}
        if len(found) != len(raw):
            raise CallbackRefusedError("has a parameter twice")
        if not secret:
            raise CallbackRefusedError("cannot be checked without the client secret; store that")
        if not self._is_signed(raw, found, secret):
            raise CallbackRefusedError(
                f'is not signed by the client secret (parameter "{self.parameter}"); correct the client secret'
            )
        wanted = [(self.code_parameter, code), ("state", state), *self._expected(variables)]
        for name, value in wanted:
            if not _is_same(found.get(name, ""), value):
                raise CallbackRefusedError(f'is for another authorisation (parameter "{name}")')
        if self.max_age is not None and not self._is_young(found, now):
            raise CallbackRefusedError(f'is too old, or has no time (parameter "{self.timestamp_parameter}")')

    def _is_signed(self, raw: list[Pair], found: Mapping[str, str], secret: str) -> bool:
        given = found.get(self.parameter, "")
        # A signature that leaves out the code, or its time, shows nothing.
        left_out = {self.parameter, *(self.unsigned - {self.code_parameter, self.timestamp_parameter})}
        signed = [pair for pair in raw if unquote_plus(pair[0]) not in left_out]
        # Libraries of one provider differ: some sign the query as it is sent, others its values.
        readings = (_sent(signed), _decoded(signed))
        return any(_is_same(given, self._signature(text, secret)) for text in readings)

    def _signature(self, text: str, secret: str) -> str:
        digest = hmac.new(secret.encode(), text.encode("utf-8", "replace"), hashlib.sha256).digest()
        return base64.b64encode(digest).decode() if self.in_base64 else digest.hex()

    def _expected(self, variables: Mapping[str, str]) -> Iterable[Pair]:
        for name, template in self.expect:
            if missing := [one for one in variables_of(template) if not variables.get(one)]:
                raise CallbackRefusedError(
                    f'cannot be checked without a value for "{missing[0]}"; give the connection one'
                )
            yield name, with_values(template, variables.__getitem__)

    def _is_young(self, found: Mapping[str, str], now: datetime) -> bool:
        text = found.get(self.timestamp_parameter, "")
        if self.max_age is None or not (text.isascii() and text.isdigit() and len(text) <= 12):
            return False
        return abs(now.timestamp() - int(text)) <= self.max_age.total_seconds()


def _pairs(query: str) -> list[Pair]:
    """Names and values as they were sent, which may be percent-encoded."""
    parts = [part for part in query.removeprefix("?").split("&") if part]
    if len(parts) > _MOST_PARAMETERS:
        raise CallbackRefusedError(f"has more than {_MOST_PARAMETERS} parameters")
    return [(name, value) for name, _, value in (part.partition("=") for part in parts)]


def _sent(pairs: Iterable[Pair]) -> str:
    return "&".join(f"{name}={value}" for name, value in sorted(pairs))


def _decoded(pairs: Iterable[Pair]) -> str:
    """By values, in which only those characters are escaped that separate parameters: no value can be two."""
    values = sorted((unquote_plus(name), unquote_plus(value)) for name, value in pairs)
    return "&".join(f"{_escaped(name).replace('=', '%3D')}={_escaped(value)}" for name, value in values)


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("&", "%26")


def _is_same(found: str, wanted: str) -> bool:
    return hmac.compare_digest(found.encode("utf-8", "replace"), wanted.encode("utf-8", "replace"))


def _duration(text: Any) -> timedelta | None:
    try:
        return timedelta(seconds=seconds_of(str(text))) if text else None
    except ValueError:
        return None
