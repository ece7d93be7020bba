"""Access tokens at one's own desk: there is no platform that obtains them, so the runtime asks for them itself.

Client credentials, a user's name and password, and refresh tokens (RFC 6749, sections 4.3, 4.4 and 6) work. A user's
consent and mutual TLS towards the token URL need the platform. oauthlib writes and reads the requests, as there.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote_plus

import aiohttp
from oauthlib.oauth2.rfc6749.errors import OAuth2Error
from oauthlib.oauth2.rfc6749.parameters import parse_token_response, prepare_token_request

from tieline.configuration.connections_file import object_of
from tieline.configuration.snapshot import Connection, Credential
from tieline.errors import CredentialError
from tieline.telemetry.client_spans import shown
from tieline_common.bounded_dict import BoundedDict
from tieline_common.single_flight import SingleFlight

_TIMEOUT = aiohttp.ClientTimeout(total=20, connect=5)
_MAX_ANSWER = 256 * 1024
_EARLY = 30.0
"""Seconds before its end at which a token is not used any more."""
_PAUSE = 30.0
"""Seconds in which a token is not asked for again after one was rejected that had just been issued."""
_REMEMBERED = 1000
_KEY = "obtainedWith"
"""The entry of a credential's data that says which token it has."""
_GRANTS = {
    "oauth2-client": "client_credentials",
    "oauth2-password": "password",
    "oauth2-token": "refresh_token",
}
_TYPES = {"clientCredentials": "oauth2-client", "password": "oauth2-password"}
# Codes of RFC 6749, section 5.2. Anything else of an answer may repeat what was sent.
_CODES = frozenset(
    {
        "access_denied",
        "invalid_client",
        "invalid_grant",
        "invalid_request",
        "invalid_scope",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)


class _NoTokenError(Exception):
    """There is no token; the message says what to do, and has no secret."""


@dataclass(frozen=True, kw_only=True)
class _Token:
    data: Mapping[str, Any] = field(repr=False)
    asked_at: float
    ends_at: float | None


@dataclass
class LocalAccessTokens:
    """See configuration.tokens.AccessTokens. One request at a time for each credential, however many want its token."""

    client: aiohttp.ClientSession
    learn: Callable[[Iterable[str]], None]
    """Told each token before anybody uses it, so that it never shows in a log."""
    now: Callable[[], float] = time.monotonic
    _tokens: BoundedDict[str, _Token] = field(default_factory=lambda: BoundedDict(_REMEMBERED))
    _requests: SingleFlight[str, None] = field(default_factory=SingleFlight)

    def newest(self, connection: Connection) -> Connection:
        """The connection with the tokens that are known."""
        credentials = tuple(self._with_token(credential) for credential in connection.credentials)
        return replace(connection, credentials=credentials)

    async def ready(self, connection: Connection) -> Connection:
        """The connection with tokens that hold; raises CredentialError where there are none to be had."""
        for credential in connection.credentials:
            if credential.scheme == "oauth2" and not self._holds(credential):
                await self._obtain(connection, credential)
        return self.newest(connection)

    async def instead_of(self, connection: Connection) -> Connection | None:
        """The connection with other tokens than these, which were rejected; None where there are none."""
        found = False
        for credential in connection.credentials:
            if credential.scheme != "oauth2" or not _renewable(credential):
                continue
            key = _key(credential)
            known = self._tokens.get(key)
            if known is not None and self.now() - known.asked_at < _PAUSE:
                continue
            try:
                await self._obtain(connection, credential)
            except CredentialError:
                continue
            found = True
        return self.newest(connection) if found else None

    def _with_token(self, credential: Credential) -> Credential:
        if credential.scheme != "oauth2" or (known := self._tokens.get(key := _key(credential))) is None:
            return credential
        return replace(credential, data={**credential.data, **known.data, _KEY: key})

    def _holds(self, credential: Credential) -> bool:
        known = self._tokens.get(_key(credential))
        if known is None:
            return bool(credential.data.get("accessToken"))
        return known.ends_at is None or self.now() < known.ends_at - _EARLY

    async def _obtain(self, connection: Connection, credential: Credential) -> None:
        key = _key(credential)
        try:
            await self._requests.run(key, lambda: self._request(key, credential))
        except _NoTokenError as error:
            raise CredentialError(
                template=connection.template, credential=credential.id, problem=str(error)
            ) from None

    async def _request(self, key: str, credential: Credential) -> None:
        if problem := problem_of(credential):
            raise _NoTokenError(problem)
        asked_at = self.now()
        known = self._tokens.get(key)
        found = await self._send(*_request_of(credential, known.data if known else {}))
        data = {"accessToken": found["access_token"], "tokenType": found.get("token_type") or "Bearer"}
        if found.get("refresh_token"):
            data["refreshToken"] = found["refresh_token"]
        self.learn([str(value) for name, value in data.items() if name != "tokenType"])
        lifetime = found.get("expires_in")
        ends_at = asked_at + lifetime if isinstance(lifetime, int | float) and lifetime > 0 else None
        self._tokens[key] = _Token(data=data, asked_at=asked_at, ends_at=ends_at)

    async def _send(self, url: str, body: str, headers: Mapping[str, str]) -> Mapping[str, Any]:
        try:
            async with self.client.post(
                url, data=body.encode(), headers=headers, timeout=_TIMEOUT, allow_redirects=False
            ) as response:
                answer = bytearray()
                async for chunk in response.content.iter_chunked(16 * 1024):
                    answer += chunk
                    if len(answer) > _MAX_ANSWER:
                        raise _NoTokenError(f"the answer of the token URL {url} is too long for a token's")
                where = shown(response.url)
                return _read(where, response.status, bytes(answer))
        except aiohttp.InvalidURL:
            raise _NoTokenError("its tokenUrl is not a URL; correct it in the connections file") from None
        except TimeoutError:
            raise _NoTokenError(
                "the token URL did not answer within 20 seconds; see whether it is up"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise _NoTokenError(
                f"the token URL cannot be reached ({type(error).__name__}); correct tokenUrl, or see whether it is up"
            ) from None


def problem_of(credential: Credential) -> str | None:
    """Why no token can be obtained for an OAuth 2.0 credential at a desk, with what to do; None when one can be."""
    data, options, kind = credential.data, credential.options, _kind(credential)
    if data.get("accessToken") and not data.get("refreshToken") and kind == "oauth2-token":
        return None
    if options.get("mtlsEnabled") or str(data.get("mTLSEnabled", "")).lower() == "true":
        return "mutual TLS towards the token URL needs the platform; give the credential an accessToken"
    if kind not in _GRANTS:
        return (
            "a user's consent needs the platform; give the credential the type oauth2-token, and an accessToken "
            "(with a refreshToken it is kept fresh)"
        )
    missing = [name for name, value in _needed(credential, kind).items() if not value]
    if missing:
        return f"it has no {' and no '.join(missing)}; a token is asked for with that"
    return None


def _renewable(credential: Credential) -> bool:
    if _kind(credential) == "oauth2-token" and not credential.data.get("refreshToken"):
        return False
    return problem_of(credential) is None


def _needed(credential: Credential, kind: str) -> Mapping[str, object]:
    data = credential.data
    client_id, client_secret = _client(credential)
    needed: dict[str, object] = {"tokenUrl": _token_url(credential), "clientId": client_id}
    match kind:
        case "oauth2-client":
            needed["clientSecret"] = client_secret
        case "oauth2-password":
            needed |= {"username": data.get("username"), "password": data.get("password")}
        case _:
            needed["refreshToken"] = data.get("refreshToken")
    return needed


def _kind(credential: Credential) -> str:
    """The credential's type; without one it follows from the scheme's grant, or from what there is."""
    if credential.type in _GRANTS or credential.type == "oauth2-code":
        return credential.type
    if credential.data.get("accessToken") or credential.data.get("refreshToken"):
        return "oauth2-token"
    return _TYPES.get(str(object_of(credential.options.get("grant")).get("type")), "")


def _client(credential: Credential) -> tuple[str, str]:
    """The client's id and secret: the credential's own, or else those of the scheme's grant."""
    grant = object_of(credential.options.get("grant"))
    named = object_of(grant.get(str(grant.get("type"))))
    sources = (credential.data, named)
    found = [
        next((str(source[name]) for source in sources if source.get(name)), "")
        for name in ("clientId", "clientSecret")
    ]
    return found[0], found[1]


def _token_url(credential: Credential) -> str:
    return str(credential.data.get("tokenUrl") or credential.options.get("tokenUrl") or "")


def _request_of(credential: Credential, known: Mapping[str, Any]) -> tuple[str, str, dict[str, str]]:
    """URL, body and headers of the request for a token."""
    data, options, kind = credential.data, credential.options, _kind(credential)
    scopes = data.get("scopes") or options.get("defaultScopes") or ()
    scope = scopes if isinstance(scopes, str) else " ".join(map(str, scopes))
    url = _token_url(credential)
    parameters: dict[str, Any] = {"scope": scope} if scope else {}
    match kind:
        case "oauth2-password":
            parameters |= {"username": str(data["username"]), "password": str(data["password"])}
        case "oauth2-token":
            url = str(options.get("refreshUrl") or url)
            parameters = {"refresh_token": str(known.get("refreshToken") or data["refreshToken"])}
    headers = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
    client_id, client_secret = _client(credential)
    if client_secret and options.get("clientAuthentication") != "body":
        # Both are form-encoded before they are joined (RFC 6749, section 2.3.1).
        headers["Authorization"] = aiohttp.encode_basic_auth(quote_plus(client_id), quote_plus(client_secret))
    else:
        parameters["client_id"] = client_id
        if client_secret:
            parameters["client_secret"] = client_secret
    additional = str(data.get("additionalParams") or options.get("additionalTokenParams") or "")
    body: str = prepare_token_request(_GRANTS[kind], body=additional, **parameters)
    return url, body, headers


def _read(where: str, status: int, answer: bytes) -> Mapping[str, Any]:
    try:
        text = answer.decode()
        if status < 300:
            found: Mapping[str, Any] = parse_token_response(text)
            if isinstance(found.get("access_token"), str):
                return found
        code = json.loads(text).get("error")
    except (OAuth2Error, ValueError, TypeError, AttributeError) as error:
        code = getattr(error, "error", None)
    named = f" ({code})" if code in _CODES else ""
    raise _NoTokenError(
        f"the token URL {where} answered {status}{named} without a token; correct the client, or what it asks for"
    )


def _key(credential: Credential) -> str:
    """What tells credentials apart, also when a connections file is changed; the same with a token as without."""
    if key := credential.data.get(_KEY):
        return str(key)
    inputs = [credential.id, credential.type, credential.options, credential.data]
    return hashlib.sha256(json.dumps(inputs, default=str, sort_keys=True).encode()).hexdigest()
