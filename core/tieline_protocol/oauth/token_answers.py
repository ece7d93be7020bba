"""Answers of token endpoints: what was issued, or what an error means. No I/O here.

Nothing that is raised here holds a secret: of an answer's error its code and its text are repeated, without words that
share a part with anything that was sent or issued.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_protocol.answer_paths import value_at
from tieline_protocol.limit_answers import means_too_many, says_too_many
from tieline_protocol.oauth import token_response
from tieline_protocol.oauth.answers import parsed, text_of
from tieline_protocol.oauth.dialect import AnswerDialect, Dialect
from tieline_protocol.oauth.kept import NOTHING, Kept
from tieline_protocol.oauth.token_response import SecretMatcher

_REFUSALS = frozenset(
    {
        "access_denied",
        "bad_verification_code",
        "incorrect_client_credentials",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)
_PASSING = frozenset({"server_error", "temporarily_unavailable", "slow_down"})
_REFUSING_STATUSES = frozenset({400, 403})
_PASSING_STATUSES = frozenset({408, 425, 429})
_LONGEST_LIFETIME = 10 * 365 * 86400
REVOKED = "invalid_grant"


class TokenError(Exception):
    """No token came of a request."""


class RefusedError(TokenError):
    """The provider rejected the credentials; a retry gives the same answer."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class UnreachableError(TokenError):
    """The provider could not be asked or could not answer now: says nothing about the credentials."""

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class MisconfiguredError(TokenError):
    """The URL is no token endpoint that may be used: says nothing about the credentials."""


@dataclass(frozen=True, kw_only=True)
class Tokens:
    """What a provider has issued."""

    access_token: str = field(repr=False)
    refresh_token: str = field(default="", repr=False)
    token_secret: str = field(default="", repr=False)
    """What requests are signed with beside the consumer's secret, of OAuth 1.0."""
    token_type: str = "Bearer"  # noqa: S105  (the type's name)
    scopes: tuple[str, ...] = ()
    """What was granted; what was asked for where the answer does not say (RFC 6749, section 5.1)."""
    issued_at: datetime
    expires_at: datetime | None = None
    """None where the provider does not say."""
    renewable_from: datetime | None = None
    """When the provider allows a refresh, where that is not at any time."""
    kept: Kept = NOTHING
    """What the connection keeps beside the tokens."""


@dataclass(frozen=True, kw_only=True)
class RawAnswer:
    """An answer as it came."""

    status: int
    body: bytes = field(repr=False)
    retry_after: float | None = None


@dataclass(frozen=True, kw_only=True)
class Issued:
    """What a good answer has."""

    document: Any = field(repr=False)
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    token_type: object
    scope: object
    expires_at: datetime | None


def read(
    answer: RawAnswer,
    dialect: Dialect,
    secrets: SecretMatcher,
    *,
    asked_at: datetime,
    is_first: bool = True,
    is_refresh: bool = False,
) -> Issued:
    """What was issued. Raises TokenError. What a status says about the server goes before what the body says.

    ``is_first`` is False for answers that follow a first one: providers with a place of their own for the first tokens
    have later ones where RFC 6749 has them.
    """
    status = answer.status
    if status >= 500 or status in _PASSING_STATUSES:
        raise UnreachableError(f"The token URL answered {status}", retry_after=answer.retry_after)
    if 300 <= status < 400:
        raise MisconfiguredError(f"The token URL redirects ({status}); set it to where it redirects to")
    document = parsed(answer.body)
    problem = _problem(document, status, dialect, secrets)
    if problem is not None or status >= 300:
        _raise_refusal(answer, document, problem or _Problem(), dialect, is_refresh=is_refresh)
    if problem is None and status < 300:
        access_token = _token(document, dialect.answer.access_token, "access_token", is_first=is_first)
        if access_token:
            return Issued(
                document=document,
                access_token=access_token,
                refresh_token=_token(
                    document, dialect.answer.refresh_token, "refresh_token", is_first=is_first
                ),
                token_type=value_at(document, "token_type"),
                scope=value_at(document, dialect.answer.scope),
                expires_at=_expires_at(document, dialect.answer, access_token, asked_at, is_first=is_first),
            )
    raise MisconfiguredError(
        f"The token URL answered {status} without a token; check that it is a token endpoint, and where tokenAnswer "
        "of the auth scheme looks for the token"
    )


@dataclass(frozen=True, kw_only=True)
class _Problem:
    """An error in an answer: what is compared, and what may be shown."""

    code: str = ""
    shown: str = ""
    text: str = ""

    def said(self, status: int) -> str:
        name = self.shown or f"HTTP {status}"
        return f"{name}: {self.text}" if self.text else name


def _problem(document: Any, status: int, dialect: Dialect, secrets: SecretMatcher) -> _Problem | None:
    """The error that an answer describes; None for a good one."""
    if not isinstance(document, Mapping | list):
        return None
    answer, refresh = dialect.answer, dialect.refresh
    found = value_at(document, answer.error)
    if answer.success is not None and status < 300:
        if answer.success.holds(status, document):
            return None
        found = found or "unknown"
    if not found:
        return None
    code = text_of(found) or "unknown"
    text = text_of(value_at(document, answer.error_description))
    is_known = code in _REFUSALS | refresh.retry_on | refresh.revoked_on
    return _Problem(
        code=code,
        shown=code if is_known else token_response.shown_code(code, secrets) if code != "unknown" else "",
        text=token_response.masked(text, secrets) if text != code else "",
    )


def _raise_refusal(
    answer: RawAnswer, document: Any, problem: _Problem, dialect: Dialect, *, is_refresh: bool
) -> None:
    """Raises what an error means; returns where the answer is none of a token endpoint."""
    status, code = answer.status, problem.code
    names = {code, str(status)} - {""}
    if is_refresh and names & dialect.refresh.retry_on and not names & dialect.refresh.revoked_on:
        raise UnreachableError(
            f"The provider does not refresh the token now ({problem.said(status)})",
            retry_after=answer.retry_after,
        )
    if code in _PASSING:
        raise UnreachableError(f"The provider answered {code}", retry_after=answer.retry_after)
    if is_refresh and names & dialect.refresh.revoked_on:
        raise RefusedError(
            f"The provider has ended the authorisation ({problem.said(status)}); connect again", code=REVOKED
        )
    if _is_too_many(answer, document, code):
        raise UnreachableError(
            f"The provider has had too many requests ({problem.said(status)}); it is tried again",
            retry_after=answer.retry_after,
        )
    if code in _REFUSALS or _is_refusal(status, code, answer.body, is_refresh=is_refresh):
        raise RefusedError(
            f"The provider refused the credentials ({problem.said(status)}); connect again, or correct the client",
            code=code if code in _REFUSALS else "",
        )


def _is_too_many(answer: RawAnswer, document: Any, code: str) -> bool:
    """Whether an answer means "too many requests", as those of APIs do; see ``limit_answers``."""
    if code in _REFUSALS:
        return False
    asks_to_wait = answer.status == 403 and answer.retry_after is not None
    return asks_to_wait or means_too_many(code) or says_too_many(document)


def _is_refusal(status: int, code: str, body: bytes, *, is_refresh: bool) -> bool:
    """Whether an answer without an error code of RFC 6749 says no to the credentials.

    Providers have error codes of their own (``token_revoked`` with 200), and answers without any. An endpoint that has
    issued tokens is a token endpoint: what it refuses as a bad refresh request is the token. HTML comes from another
    server, such as a firewall.
    """
    if status == 401:
        return True
    if code:
        return status < 300 or status in _REFUSING_STATUSES
    return is_refresh and status in _REFUSING_STATUSES and not body.lstrip().startswith(b"<")


def _token(document: Any, path: str, name: str, *, is_first: bool) -> str:
    found = token_response.token(value_at(document, path))
    return found if found or is_first else token_response.token(value_at(document, name))


def _expires_at(
    document: Any, dialect: AnswerDialect, access_token: str, asked_at: datetime, *, is_first: bool
) -> datetime | None:
    value = value_at(document, dialect.expires_in)
    if value is None and not is_first:
        value = value_at(document, "expires_in")
    if dialect.expires_unit == "jwt":
        value = _claims(access_token).get("exp")
    found = moment_of(value, dialect.expires_unit, asked_at)
    if found is None and dialect.expires_after is not None:
        return asked_at + dialect.expires_after
    return found


def moment_of(value: Any, unit: str, asked_at: datetime) -> datetime | None:
    """The moment at which a token ends; None for what says none, and for more than ten years.

    >>> at_noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    >>> [moment_of(value, unit, at_noon).isoformat()[11:19] for value, unit in (
    ...     ("60", "seconds"), (60_000, "milliseconds"), (1767268860, "epochSeconds"),
    ...     ("2026-01-01T12:01:00Z", "iso8601"))]
    ['12:01:00', '12:01:00', '12:01:00', '12:01:00']
    """
    if unit == "iso8601":
        return _within(_read_time(value), asked_at)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if unit in ("milliseconds", "epochMilliseconds"):
        number /= 1000
    if unit in ("epochSeconds", "epochMilliseconds", "jwt"):
        number -= asked_at.timestamp()
    return asked_at + timedelta(seconds=number) if 0 < number < _LONGEST_LIFETIME else None


def _read_time(value: Any) -> datetime | None:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _within(found: datetime | None, asked_at: datetime) -> datetime | None:
    if found is None:
        return None
    try:
        seconds = (found - asked_at).total_seconds()
    except OverflowError:
        return None
    return asked_at + timedelta(seconds=seconds) if 0 < seconds < _LONGEST_LIFETIME else None


def _claims(token: str) -> Mapping[str, Any]:
    """The claims of a JWT, unverified: they decide nothing but when it is refreshed."""
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
