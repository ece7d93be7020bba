"""Token requests, sent: aiohttp carries what ``token_requests`` writes and ``token_answers`` reads."""

import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import parse_qsl

import aiohttp
from yarl import URL

from tieline_protocol.answer_paths import value_at
from tieline_protocol.egress import EgressRefusedError
from tieline_protocol.oauth import token_response
from tieline_protocol.oauth.answers import parsed
from tieline_protocol.oauth.dialect import LongLived
from tieline_protocol.oauth.kept import NOTHING, Kept, UnkeepableError, collect
from tieline_protocol.oauth.token_answers import (
    Issued,
    MisconfiguredError,
    RawAnswer,
    RefusedError,
    TokenError,
    Tokens,
    UnreachableError,
    read,
)
from tieline_protocol.oauth.token_requests import (
    Endpoint,
    Request,
    account_request,
    long_lived_request,
    token_request,
)

__all__ = [
    "Endpoint",
    "MisconfiguredError",
    "RefusedError",
    "TokenClient",
    "TokenError",
    "Tokens",
    "UnreachableError",
    "client_certificate",
]

TIMEOUT = 20.0
MAX_ANSWER = 256 * 1024
LONGEST_PAUSE = 3600.0
"""Seconds for which a provider is left alone at most, whatever ``Retry-After`` says: tokens end meanwhile."""
UNKEEPABLE = "unkeepable"
_ACCOUNT_TRIES = 2
# Additional parameters with such names have secrets for values, such as client_assertion.
_TOKEN_NAME = re.compile(r"(^|_)token$", re.IGNORECASE)
_SECRET_NAME = re.compile("secret|password|token|assertion|key|code", re.IGNORECASE)


def client_certificate(*, certificate: str, key: str, ca: str = "") -> ssl.SSLContext:
    """The TLS context of a certificate credential; MisconfiguredError where the three do not fit."""
    context = ssl.create_default_context()
    try:
        if ca:
            context.load_verify_locations(cadata=ca)
            # Authorities of one's own often lack what RFC 5280 wants of them since Python 3.13.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
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
        kept: Kept = NOTHING,
    ) -> Tokens:
        """The tokens for an authorisation code, with the PKCE verifier where there is one (RFC 7636).

        ``scopes`` are those that the user was asked for: they are not sent, and kept where the answer names none.
        ``kept`` is what the callback's query has brought.
        """
        return await self._ask(
            endpoint,
            "authorization_code",
            granted=scopes,
            kept=kept,
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

    async def refresh(
        self, endpoint: Endpoint, *, refresh_token: str, scopes: Sequence[str] = (), kept: Kept = NOTHING
    ) -> Tokens:
        """New tokens. The refresh token stays the old one where the answer has none.

        ``scopes`` are those of the old tokens: they are not sent, and kept where the answer names none. So is ``kept``.
        """
        return await self._ask(
            endpoint,
            "refresh_token",
            keep=refresh_token,
            granted=scopes,
            kept=kept,
            refresh_token=refresh_token,
        )

    async def _ask(
        self,
        endpoint: Endpoint,
        grant: str,
        *,
        scopes: Sequence[str] = (),
        granted: Sequence[str] = (),
        keep: str = "",
        kept: Kept = NOTHING,
        **params: str,
    ) -> Tokens:
        dialect, is_refresh = endpoint.dialect, grant == "refresh_token"
        sent = [*_secrets_of(endpoint, params)]
        asked_at = self._now()
        request = token_request(endpoint, grant, scopes=scopes, params=params)
        answer = await self._sent(request, tls=endpoint.tls)
        client = (endpoint.client_id, endpoint.client_secret)
        issued = read(
            answer,
            dialect,
            token_response.SecretMatcher(sent, client=client),
            asked_at=asked_at,
            is_first=not is_refresh,
            is_refresh=is_refresh,
        )
        sent += _issued(issued)
        secrets = token_response.SecretMatcher(sent, client=client)
        # A refresh must not lose its tokens for a value that is not kept: the old one stays.
        new = _kept(endpoint, issued.document, secrets, is_strict=not is_refresh)
        tokens = Tokens(
            access_token=issued.access_token,
            refresh_token=issued.refresh_token or keep,
            token_type=token_response.token_type(issued.token_type, secrets),
            # The granted ones may have been stored before anybody looked at what a provider had answered.
            scopes=token_response.scopes(issued.scope, secrets, separators=dialect.answer.scope_separators)
            or tuple(scopes)
            or token_response.scopes(granted, secrets),
            issued_at=asked_at,
            expires_at=issued.expires_at,
            kept=kept.merged(new),
        )
        if grant == "authorization_code" and (wanted := dialect.request.long_lived):
            longer, issued = await self._long_lived(endpoint.with_kept(tokens.kept), wanted, tokens)
            secrets = token_response.SecretMatcher((*sent, *_issued(issued)), client=client)
            tokens = longer
        if dialect.refresh.by_access_token:
            tokens = replace(tokens, refresh_token=tokens.access_token)
        tokens = await self._with_account(endpoint, tokens, secrets, is_required=not is_refresh)
        return _timed(tokens, endpoint)

    async def _long_lived(
        self, endpoint: Endpoint, wanted: LongLived, tokens: Tokens
    ) -> tuple[Tokens, Issued]:
        """The token that lasts, for one that does not, and what the answer with it has."""
        asked_at, client = self._now(), (endpoint.client_id, endpoint.client_secret)
        request = long_lived_request(endpoint, wanted, token=tokens.access_token)
        answer = await self._sent(request, tls=endpoint.tls, what="URL of longLived")
        secrets = token_response.SecretMatcher((tokens.access_token,), client=client)
        issued = read(answer, endpoint.dialect, secrets, asked_at=asked_at, is_first=False)
        longer = replace(
            tokens,
            access_token=issued.access_token,
            refresh_token=issued.refresh_token or tokens.refresh_token,
            issued_at=asked_at,
            expires_at=issued.expires_at,
        )
        return longer, issued

    async def _with_account(
        self,
        endpoint: Endpoint,
        tokens: Tokens,
        secrets: token_response.SecretMatcher,
        *,
        is_required: bool,
    ) -> Tokens:
        """With what a request after the token says. A code is used up by now, so it is tried twice."""
        after = endpoint.dialect.after
        if after is None or (tokens.kept.account_id and _knows_all(tokens.kept, endpoint)):
            return tokens
        problem = ""
        for _ in range(_ACCOUNT_TRIES):
            try:
                return replace(
                    tokens, kept=tokens.kept.merged(await self._account(endpoint, tokens, secrets))
                )
            except (TokenError, UnkeepableError) as error:
                problem = str(error)
        if after.required and is_required:
            raise RefusedError(
                f"The provider does not say which account the token is for ({problem}); connect again",
                code=UNKEEPABLE,
            )
        return tokens

    async def _account(
        self, endpoint: Endpoint, tokens: Tokens, secrets: token_response.SecretMatcher
    ) -> Kept:
        request = account_request(endpoint.with_kept(tokens.kept), token=tokens.access_token)
        after = endpoint.dialect.after
        if request is None or after is None:
            return NOTHING
        answer = await self._sent(request, what="URL of afterToken")
        if answer.status >= 300:
            raise UnreachableError(f"afterToken answered {answer.status}")
        document = parsed(answer.body)
        found = collect(
            after.keep, lambda path: value_at(document, path), hosts=endpoint.dialect.hosts, secrets=secrets
        )
        if not found:
            raise UnreachableError("the answer to afterToken has none of the values to keep")
        return found

    async def _sent(
        self, request: Request, *, tls: ssl.SSLContext | None = None, what: str = "token URL"
    ) -> RawAnswer:
        status, retry_after, body = await self.send(
            request.url, body=request.body, headers=request.headers, method=request.method, tls=tls, what=what
        )
        return RawAnswer(status=status, body=body, retry_after=retry_after)

    async def send(
        self,
        url: str | URL,
        *,
        body: str = "",
        headers: Mapping[str, str],
        method: str = "POST",
        tls: ssl.SSLContext | None = None,
        what: str = "token URL",
    ) -> tuple[int, float | None, bytes]:
        """Status, ``Retry-After`` (``LONGEST_PAUSE`` at most) and answer of a request that is never redirected.

        Raises TokenError.
        """
        try:
            async with self._session.request(
                method,
                url,
                data=body.encode() if method != "GET" else None,
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
                pause = _pause(response.headers.get("Retry-After"), self._now())
                return response.status, pause and min(pause, LONGEST_PAUSE), bytes(answer)
        except aiohttp.InvalidURL:
            raise MisconfiguredError(_no_url(what)) from None
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, EgressRefusedError):
                raise MisconfiguredError(f"The {what} may not be reached: {error.os_error}") from None
            raise UnreachableError(f"The {what} cannot be reached") from None
        except TimeoutError:
            raise UnreachableError(f"The {what} did not answer in time") from None
        except (aiohttp.ClientError, OSError):
            raise UnreachableError(f"The connection to the {what} broke") from None
        except (
            ValueError
        ):  # a name that cannot be encoded; some errors of connections are ValueErrors as well
            raise MisconfiguredError(_no_url(what)) from None


def _no_url(what: str) -> str:
    return f"The {what} is not a URL that requests can be sent to"


def _timed(tokens: Tokens, endpoint: Endpoint) -> Tokens:
    """With the moment from which the provider allows a refresh."""
    refresh, moments = endpoint.dialect.refresh, []
    if refresh.minimum_age is not None:
        moments.append(tokens.issued_at + refresh.minimum_age)
    if refresh.earliest is not None and tokens.expires_at is not None:
        moments.append(tokens.expires_at - refresh.earliest)
    return replace(tokens, renewable_from=max(moments)) if moments else tokens


def _kept(
    endpoint: Endpoint, document: Any, secrets: token_response.SecretMatcher, *, is_strict: bool
) -> Kept:
    dialect = endpoint.dialect
    try:
        return collect(
            dialect.answer.keep, lambda path: value_at(document, path), hosts=dialect.hosts, secrets=secrets
        )
    except UnkeepableError as error:
        if not is_strict:
            return NOTHING
        raise RefusedError(
            f"The provider's answer cannot be used: {error}, and connect again", code=UNKEEPABLE
        ) from None


def _knows_all(kept: Kept, endpoint: Endpoint) -> bool:
    after = endpoint.dialect.after
    return after is None or all(not rule.variable or rule.variable in kept.variables for rule in after.keep)


def _secrets_of(endpoint: Endpoint, params: Mapping[str, str]) -> Iterator[str]:
    """The secret values of a request, beside the client's secret."""
    for name, value in params.items():
        if name not in ("redirect_uri", "username"):
            yield value
    for name, value in parse_qsl(endpoint.additional_params):
        if _SECRET_NAME.search(name):
            yield value


def _issued(issued: Issued) -> Iterator[str]:
    """The secret values of an answer: all that its fields with such names hold, wherever they are."""
    yield issued.access_token
    yield issued.refresh_token
    pending, most = [issued.document], 1000
    while pending and most:
        most -= 1
        found = pending.pop()
        if isinstance(found, list):
            pending += found
        elif isinstance(found, Mapping):
            for name, value in found.items():
                if isinstance(value, Mapping | list):
                    pending.append(value)
                elif isinstance(value, str) and _TOKEN_NAME.search(str(name)):
                    yield value


def _pause(value: str | None, now: datetime) -> float | None:
    """The seconds of ``Retry-After``: a number, or a date of HTTP or ISO 8601; None where it says none."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        seconds = _seconds_until(value, now)
    return seconds if 0 < seconds < 10 * 365 * 86400 else None


def _seconds_until(value: str, now: datetime) -> float:
    for parse in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            found = parse(value)
            return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() - now.timestamp()
        except (ValueError, TypeError, OverflowError):
            continue
    return 0.0
