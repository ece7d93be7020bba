"""Token requests (RFC 6749, section 3.2): oauthlib writes and reads them, aiohttp carries them.

Nothing that is raised here holds a secret: of an answer only a known error code is repeated, because
providers quote what they were sent in their descriptions.
"""

import json
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.parse import parse_qsl, quote_plus

import aiohttp
from oauthlib.oauth2.rfc6749.errors import OAuth2Error
from oauthlib.oauth2.rfc6749.parameters import (
    parse_token_response,
    prepare_token_request,
)
from yarl import URL

from tieline_core.oauth import token_response
from tieline_protocol.egress import EgressRefusedError

TIMEOUT = 20.0
MAX_ANSWER = 256 * 1024
LONGEST_PAUSE = 3600.0
"""Seconds for which a provider is left alone at most, whatever ``Retry-After`` says: tokens end meanwhile."""

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
# Additional parameters with such names have secrets for values, such as client_assertion.
_SECRET_NAME = re.compile("secret|password|token|assertion|key|code", re.IGNORECASE)
_PASSING_STATUSES = frozenset({408, 425, 429})


class TokenError(Exception):
    """No token came of a request."""


class RefusedError(TokenError):
    """The provider has said no to the credentials: asking again gives the same answer."""

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
class Endpoint:
    """Where tokens come from, and as whom they are asked for."""

    token_url: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    refresh_url: str = ""
    """Where tokens are refreshed, when that is not ``token_url``."""
    authentication: Literal["header", "body"] = "header"
    additional_params: str = field(default="", repr=False)
    """Form-encoded, sent with every request."""
    tls: ssl.SSLContext | None = field(default=None, repr=False)
    """For mutual TLS; see ``client_certificate``."""


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


def client_certificate(*, certificate: str, key: str, ca: str = "") -> ssl.SSLContext:
    """The TLS context of a certificate credential; MisconfiguredError where the three do not fit."""
    context = ssl.create_default_context()
    try:
        if ca:
            context.load_verify_locations(cadata=ca)
        # OpenSSL reads a chain from a file alone; this one is the process's own and gone at once.
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as chain:
            chain.write(f"{certificate.strip()}\n{key.strip()}\n")
            chain.flush()
            context.load_cert_chain(chain.name, password=lambda: b"")
    except (ssl.SSLError, ValueError):
        raise MisconfiguredError(
            "The client certificate cannot be used; give certificate and unencrypted key as PEM that fit"
        ) from None
    return context


class TokenClient:
    """Asks token endpoints. The session's connector decides what may be reached (see ``egress``)."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        timeout: float = TIMEOUT,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._session = session
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._now = now

    async def exchange(
        self,
        endpoint: Endpoint,
        *,
        code: str,
        redirect_uri: str,
        verifier: str = "",
        scopes: Sequence[str] = (),
    ) -> Tokens:
        """The tokens for an authorisation code, with the PKCE verifier where there is one (RFC 7636).

        ``scopes`` are those that the user was asked for: they are not sent, and kept where the answer names none.
        """
        return await self._ask(
            endpoint,
            "authorization_code",
            granted=scopes,
            code=code,
            redirect_uri=redirect_uri,
            code_verifier=verifier,
        )

    async def client_credentials(self, endpoint: Endpoint, *, scopes: Sequence[str] = ()) -> Tokens:
        """A token for the client itself."""
        return await self._ask(endpoint, "client_credentials", scopes=scopes)

    async def password(
        self, endpoint: Endpoint, *, username: str, password: str, scopes: Sequence[str] = ()
    ) -> Tokens:
        """A token for a user's name and password."""
        return await self._ask(endpoint, "password", scopes=scopes, username=username, password=password)

    async def refresh(self, endpoint: Endpoint, *, refresh_token: str, scopes: Sequence[str] = ()) -> Tokens:
        """New tokens. The refresh token stays the old one where the answer has none.

        ``scopes`` are those of the old tokens: they are not sent, and kept where the answer names none.
        """
        return await self._ask(
            endpoint, "refresh_token", keep=refresh_token, granted=scopes, refresh_token=refresh_token
        )

    async def _ask(
        self,
        endpoint: Endpoint,
        grant: str,
        *,
        scopes: Sequence[str] = (),
        granted: Sequence[str] = (),
        keep: str = "",
        **params: str,
    ) -> Tokens:
        url = (grant == "refresh_token" and endpoint.refresh_url) or endpoint.token_url
        body, headers = _written(endpoint, grant, scopes=scopes, params=params)
        asked_at = self._now()
        status, retry_after, answer = await self.send(url, body=body, headers=headers, tls=endpoint.tls)
        found = _read(status, answer, retry_after=retry_after)
        access_token, refresh_token = found["access_token"], token_response.token(found.get("refresh_token"))
        lifetime = _seconds(found.get("expires_in"))
        secrets = token_response.SecretMatcher(
            (
                access_token,
                refresh_token,
                token_response.token(found.get("id_token")),
                *_sent(endpoint, params),
            ),
            client=(endpoint.client_id, endpoint.client_secret),
        )
        return Tokens(
            access_token=access_token,
            refresh_token=refresh_token or keep,
            token_type=token_response.token_type(found.get("token_type"), secrets),
            # The granted ones may have been stored before anybody looked at what a provider had answered.
            scopes=token_response.scopes(found.get("scope"), secrets)
            or tuple(scopes)
            or token_response.scopes(granted, secrets),
            issued_at=asked_at,
            expires_at=None if lifetime is None else asked_at + timedelta(seconds=lifetime),
        )

    async def send(
        self,
        url: str | URL,
        *,
        body: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None = None,
        what: str = "token URL",
    ) -> tuple[int, float | None, bytes]:
        """Status, ``Retry-After`` (``LONGEST_PAUSE`` at most) and answer of a POST that is never redirected.

        Raises TokenError.
        """
        try:
            async with self._session.post(
                url,
                data=body.encode(),
                headers=headers,
                ssl=tls if tls is not None else True,
                allow_redirects=False,
                timeout=self._timeout,
            ) as response:
                answer = bytearray()
                async for chunk in response.content.iter_chunked(16 * 1024):
                    answer += chunk
                    if len(answer) > MAX_ANSWER:
                        raise MisconfiguredError(f"The {what}'s answer is too long for a token's")
                pause = _seconds(response.headers.get("Retry-After"))
                return response.status, pause and min(pause, LONGEST_PAUSE), bytes(answer)
        except aiohttp.InvalidURL:
            raise MisconfiguredError(_no_url(what)) from None
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, EgressRefusedError):
                raise MisconfiguredError(f"The {what} may not be reached: {error.os_error}") from None
            raise UnreachableError(f"The {what} cannot be connected to; it is tried again") from None
        except TimeoutError:
            raise UnreachableError(f"The {what} did not answer in time; it is tried again") from None
        except (aiohttp.ClientError, OSError):
            raise UnreachableError(f"The connection to the {what} broke; it is tried again") from None
        except (
            ValueError
        ):  # a name that cannot be encoded; some errors of connections are ValueErrors as well
            raise MisconfiguredError(_no_url(what)) from None


def _no_url(what: str) -> str:
    return f"The {what} is not a URL that requests can be sent to"


def _sent(endpoint: Endpoint, params: Mapping[str, str]) -> Iterator[str]:
    """The secret values of a request, beside the client's secret."""
    for name, value in params.items():
        if name != "redirect_uri":
            yield value
    for name, value in parse_qsl(endpoint.additional_params):
        if _SECRET_NAME.search(name):
            yield value


def _written(
    endpoint: Endpoint, grant: str, *, scopes: Sequence[str], params: dict[str, str]
) -> tuple[str, dict[str, str]]:
    """Body and headers. A public client (without secret) names itself in the body (section 3.2.1)."""
    given: dict[str, Any] = {name: value for name, value in params.items() if value}
    if scopes:
        given["scope"] = " ".join(scopes)
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    by_header = endpoint.authentication == "header" and bool(endpoint.client_secret)
    if by_header:
        # Both are form-encoded before they are joined (section 2.3.1): a colon or an umlaut survives.
        name, secret = quote_plus(endpoint.client_id), quote_plus(endpoint.client_secret)
        headers["Authorization"] = aiohttp.encode_basic_auth(name, secret)
    else:
        given["client_id"] = endpoint.client_id
        if endpoint.client_secret:
            given["client_secret"] = endpoint.client_secret
    reserved = {"grant_type", *given}
    extra = [
        (name, value)
        for name, value in parse_qsl(endpoint.additional_params, keep_blank_values=True)
        if name not in reserved
    ]
    encoded = "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in extra)
    body: str = prepare_token_request(grant, body=encoded, **given)
    return body, headers


def _read(status: int, answer: bytes, *, retry_after: float | None) -> dict[str, Any]:
    """The answer's parameters. What a status says about the server goes before what the body says."""
    if status >= 500 or status in _PASSING_STATUSES:
        raise UnreachableError(f"The token URL answered {status}; it is tried again", retry_after=retry_after)
    if 300 <= status < 400:
        raise MisconfiguredError(f"The token URL redirects ({status}); set it to where it redirects to")
    try:
        text = answer.decode()
        code = _error_code(text)
        if code in _PASSING:
            raise UnreachableError(
                f"The provider answered {code}; it is tried again", retry_after=retry_after
            )
        if code in _REFUSALS or status == 401:
            named = code if code in _REFUSALS else "HTTP 401"
            raise RefusedError(
                f"The provider refused the credentials ({named}); connect again, or correct the client",
                code=code if code in _REFUSALS else "",
            )
        if status < 300 and not code:
            found: dict[str, Any] = parse_token_response(text)
            if token_response.token(found.get("access_token")):
                return found
    except (OAuth2Error, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        pass
    raise MisconfiguredError(
        f"The token URL answered {status} without a token; check that it is a token endpoint"
    )


def _error_code(text: str) -> str:
    try:
        found = json.loads(text)
    except ValueError:
        found = dict(parse_qsl(text))
    code = found.get("error") if isinstance(found, dict) else None
    return code if isinstance(code, str) else "unknown" if code else ""


def _seconds(value: Any) -> float | None:
    """A duration in seconds; None where it is absent, no number (a date), or not positive."""
    try:
        seconds = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 < seconds < 10 * 365 * 86400 else None
