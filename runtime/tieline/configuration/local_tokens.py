"""Access tokens on your own machine: there is no platform that obtains them, so the runtime asks for them itself.

Client credentials, a user's name and password, and refresh tokens (RFC 6749, sections 4.3, 4.4 and 6) work, in the
dialect of the auth scheme. A user's consent and mutual TLS towards the token URL need the platform. The requests are
made as there (``tieline_protocol.oauth``).
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import aiohttp
from yarl import URL

from tieline.configuration.connections_file import object_of
from tieline.configuration.snapshot import Connection, Credential, client_id_of
from tieline.errors import CredentialError
from tieline.telemetry.client_spans import shown
from tieline_common.bounded_dict import BoundedDict
from tieline_common.single_flight import SingleFlight
from tieline_protocol.oauth.dialect import Dialect, RefreshDialect
from tieline_protocol.oauth.token_client import Endpoint, TokenClient, TokenError, Tokens

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
    """Gets each token before anybody uses it, so that it never shows in a log."""
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
        try:
            found = await _asked(TokenClient(self.client), credential, known.data if known else {})
        except TokenError as error:
            raise _NoTokenError(f"the token URL {_where(credential)} gave no token: {error}") from None
        data: dict[str, Any] = {"accessToken": found.access_token, "tokenType": found.token_type}
        if found.refresh_token:
            data["refreshToken"] = found.refresh_token
        self.learn([str(value) for name, value in data.items() if name != "tokenType"])
        if found.kept.variables:
            data["variables"] = {**object_of(credential.data.get("variables")), **found.kept.variables}
        lifetime = (found.expires_at - found.issued_at).total_seconds() if found.expires_at else None
        ends_at = None if lifetime is None else asked_at + lifetime
        self._tokens[key] = _Token(data=data, asked_at=asked_at, ends_at=ends_at)


def problem_of(credential: Credential) -> str | None:
    """Why no token can be obtained for an OAuth 2.0 credential here, with what to do; None when one can be."""
    data = credential.data
    if data.get("accessToken") and not data.get("refreshToken") and _kind(credential) == "oauth2-token":
        return None
    return _problem(credential)


def _problem(credential: Credential) -> str | None:
    """Why no token can be obtained, also where there is one already."""
    data, options, kind = credential.data, credential.options, _kind(credential)
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
    if _kind(credential) == "oauth2-token" and not _refresh_token(credential):
        return False
    return _problem(credential) is None


def _needed(credential: Credential, kind: str) -> Mapping[str, object]:
    data = credential.data
    client_id, client_secret = _client(credential)
    needed: dict[str, object] = {"tokenUrl": _asked_url(credential), "clientId": client_id}
    match kind:
        case "oauth2-client":
            needed["clientSecret"] = client_secret
        case "oauth2-password":
            needed |= {"username": data.get("username"), "password": data.get("password")}
        case _:
            needed["refreshToken"] = _refresh_token(credential)
    return needed


def _refresh_token(credential: Credential, known: Mapping[str, Any] = MappingProxyType({})) -> str:
    """What new tokens are asked for with: with some providers the access token itself. ``known`` is newer data."""
    refresh = RefreshDialect.of(object_of(credential.options.get("refresh")))
    name = "accessToken" if refresh.by_access_token else "refreshToken"
    return str(known.get(name) or credential.data.get(name) or "")


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
    secret = credential.data.get("clientSecret") or named.get("clientSecret") or ""
    return client_id_of(credential.options, credential.data), str(secret)


def _token_url(credential: Credential) -> str:
    return str(credential.data.get("tokenUrl") or credential.options.get("tokenUrl") or "")


def _asked_url(credential: Credential) -> str:
    """The URL that is asked for tokens."""
    refresh_url = credential.options.get("refreshUrl") if _kind(credential) == "oauth2-token" else ""
    return str(refresh_url or _token_url(credential))


def _where(credential: Credential) -> str:
    """The URL that is asked, for messages; URLs can hold passwords and keys."""
    try:
        return shown(URL(_asked_url(credential)))
    except ValueError:
        return "of its auth scheme"


async def _asked(client: TokenClient, credential: Credential, known: Mapping[str, Any]) -> Tokens:
    data, kind = credential.data, _kind(credential)
    scopes = data.get("scopes") or credential.options.get("defaultScopes") or ()
    wanted = scopes.split() if isinstance(scopes, str) else [str(scope) for scope in scopes]
    endpoint = _endpoint(credential)
    match kind:
        case "oauth2-password":
            username, password = str(data["username"]), str(data["password"])
            return await client.password(endpoint, username=username, password=password, scopes=wanted)
        case "oauth2-token":
            return await client.refresh(endpoint, refresh_token=_refresh_token(credential, known))
    return await client.client_credentials(endpoint, scopes=wanted)


def _endpoint(credential: Credential) -> Endpoint:
    data, options = credential.data, credential.options
    client_id, client_secret = _client(credential)
    given = options.get("clientAuthentication")
    return Endpoint(
        token_url=_token_url(credential),
        refresh_url=str(options.get("refreshUrl") or ""),
        client_id=client_id,
        client_secret=client_secret,
        authentication=given if given in ("body", "both", "none") else "header",
        additional_params=str(data.get("additionalParams") or options.get("additionalTokenParams") or ""),
        dialect=Dialect.of({**options, "tokenUrl": _token_url(credential)}),
        variables=object_of(data.get("variables")),
    )


def _key(credential: Credential) -> str:
    """What tells credentials apart, also when a connections file is changed; the same with a token as without."""
    if key := credential.data.get(_KEY):
        return str(key)
    inputs = [credential.id, credential.type, credential.options, credential.data]
    return hashlib.sha256(json.dumps(inputs, default=str, sort_keys=True).encode()).hexdigest()
