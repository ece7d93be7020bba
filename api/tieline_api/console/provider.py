"""The OpenID Connect issuer that signs people in: discovery, requests for tokens, and what comes of them.

Administrators name it, so it is reached as the issuers of JWTs are: redirects are not followed, answers are bounded,
and nothing that is raised here repeats what the issuer has written.
"""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus, urlencode, urlsplit

import aiohttp
import jwt
import orjson
from jwt.exceptions import PyJWTError

from tieline_api.auth.issuers import Issuer
from tieline_api.auth.jwks import JwksCache, KeysUnavailableError
from tieline_api.auth.ttl_cache import TtlCache
from tieline_api.console.sessions import expiry_of
from tieline_api.console_settings import ConsoleSettings

logger = logging.getLogger(__name__)

_WELL_KNOWN = "/.well-known/openid-configuration"
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_LARGEST = 512 * 1024
_KEEP = 600.0
_SKEW = 60.0


class ProviderError(Exception):
    """The issuer cannot be used now, or what it answers cannot."""


class RefusedError(ProviderError):
    """The issuer has said no."""


@dataclass(frozen=True, kw_only=True)
class Endpoints:
    """What an issuer tells of itself."""

    authorization: str
    token: str
    jwks: str
    end_session: str = ""
    revocation: str = ""
    takes_basic: bool = True
    """Whether clients may send their secret in the header Authorization."""


@dataclass(frozen=True, kw_only=True)
class Granted:
    """What comes of a request for tokens."""

    token: str = field(repr=False)
    """The one that the API is called with."""
    expires: int | None
    """Seconds since 1970."""
    subject: str
    refresh_token: str = field(default="", repr=False)


class Provider:
    """One issuer, and the console's client there."""

    def __init__(self, settings: ConsoleSettings) -> None:
        self._settings = settings
        self._keys = JwksCache()
        self._found: TtlCache[str, Endpoints] = TtlCache(size=1)

    @property
    def name(self) -> str:
        """What people know it as."""
        settings = self._settings
        return settings.console_oidc_name or urlsplit(settings.console_oidc_issuer).netloc

    @property
    def issuer(self) -> str:
        """Its ``iss``."""
        return self._settings.console_oidc_issuer

    @property
    def redirect_uri(self) -> str:
        """Where it sends people back to."""
        return f"{self._settings.public_api_url}/console/callback"

    async def endpoints(self) -> Endpoints:
        """Where it is asked. Raises ProviderError."""

        async def load() -> tuple[Endpoints, float]:
            base = self.issuer.rstrip("/")
            status, body = await _answer("GET", f"{base}{_WELL_KNOWN}")
            if status != 200:
                raise ProviderError(f"{base}{_WELL_KNOWN} answers HTTP {status}")
            return parse_endpoints(body, issuer=self.issuer), _KEEP

        return await self._found.get(self.issuer, load)

    async def authorize_url(self, *, state: str, nonce: str, challenge: str) -> str:
        """Where somebody signs in. Raises ProviderError."""
        settings = self._settings
        base = (await self.endpoints()).authorization
        query = {
            "response_type": "code",
            "client_id": settings.console_oidc_client_id,
            "redirect_uri": self.redirect_uri,
            "scope": " ".join(settings.console_oidc_scopes.split()),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        return f"{base}{'&' if '?' in base else '?'}{urlencode(query)}"

    async def logout_url(self) -> str:
        """Where somebody signs out of the issuer as well; empty where it has no such page, or cannot tell now."""
        try:
            base = (await self.endpoints()).end_session
        except ProviderError:
            return ""
        back = {
            "client_id": self._settings.console_oidc_client_id,
            "post_logout_redirect_uri": f"{self._settings.public_api_url}/console/",
        }
        return f"{base}{'&' if '?' in base else '?'}{urlencode(back)}" if base else ""

    async def exchange(self, code: str, *, verifier: str, nonce: str) -> Granted:
        """The tokens for a code. Raises RefusedError and ProviderError."""
        answer = await self._ask(
            grant_type="authorization_code",
            code=code,
            redirect_uri=self.redirect_uri,
            code_verifier=verifier,
        )
        claims = await self._verified(_text(answer, "id_token"))
        if claims.get("nonce") != nonce:
            raise RefusedError("The ID token was made for another sign-in")
        return self._granted(answer, subject=str(claims["sub"]))

    async def refresh(self, refresh_token: str, *, subject: str) -> Granted:
        """New tokens of the same person. Raises RefusedError and ProviderError."""
        answer = await self._ask(grant_type="refresh_token", refresh_token=refresh_token)
        if "id_token" in answer:
            claims = await self._verified(_text(answer, "id_token"))
            if claims["sub"] != subject:
                raise RefusedError("The new ID token belongs to another user")
        return self._granted({"refresh_token": refresh_token, **answer}, subject=subject)

    async def revoke(self, refresh_token: str) -> None:
        """Makes a refresh token void at the issuer, if it can; what fails is logged."""
        try:
            endpoints = await self.endpoints()
            if endpoints.revocation:
                form = {"token": refresh_token, "token_type_hint": "refresh_token"}
                status, _ = await self._post(endpoints, endpoints.revocation, form)
                if status != 200:
                    raise ProviderError(f"HTTP {status}")
        except ProviderError as error:
            logger.warning("The issuer has not revoked a refresh token: %s", error)

    async def _ask(self, **form: str) -> Mapping[str, Any]:
        endpoints = await self.endpoints()
        status, body = await self._post(endpoints, endpoints.token, form)
        answer = _object(body)
        if status in (400, 401, 403) and isinstance(answer.get("error"), str):
            code = answer["error"] if answer["error"].replace("_", "").isalnum() else "error"
            raise RefusedError(f"The issuer has refused the request for tokens ({code[:40]})")
        if status != 200:
            raise ProviderError(f"The issuer's token endpoint answers HTTP {status}")
        return answer

    async def _post(self, endpoints: Endpoints, url: str, form: Mapping[str, str]) -> tuple[int, bytes]:
        client, secret = self._settings.console_oidc_client_id, self._secret()
        headers, sent = {"Accept": "application/json"}, dict(form)
        if secret and endpoints.takes_basic:
            # Both are form-encoded first (RFC 6749, section 2.3.1).
            headers["Authorization"] = aiohttp.encode_basic_auth(quote_plus(client), quote_plus(secret))
        else:
            sent |= {"client_id": client} | ({"client_secret": secret} if secret else {})
        return await _answer("POST", url, data=sent, headers=headers)

    def _secret(self) -> str:
        """The client's secret; empty for a public client."""
        file = self._settings.console_oidc_client_secret_file
        try:
            return file.read_text(encoding="utf-8").strip() if file else ""
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError):
            raise ProviderError("TIELINE_CONSOLE_OIDC_CLIENT_SECRET_FILE cannot be read") from None

    async def _verified(self, token: str) -> Mapping[str, Any]:
        """The claims of an ID token that this issuer has made for this client."""
        settings = self._settings
        jwks = (await self.endpoints()).jwks
        signer = Issuer.model_validate(
            {"issuer": self.issuer, "jwksUrl": jwks, "audiences": [settings.console_oidc_client_id]}
        )
        try:
            header = jwt.get_unverified_header(token)
            identifier = header.get("kid")
            key = await self._keys.key(signer, identifier if isinstance(identifier, str) else None)
            if key is None or header.get("alg") not in key.algorithms:
                raise RefusedError("The ID token is not signed with a key of the issuer")
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                algorithms=list(key.algorithms),
                audience=settings.console_oidc_client_id,
                issuer=self.issuer,
                leeway=_SKEW,
                options={"require": ["exp", "iat", "iss", "aud", "sub"]},
            )
        except KeysUnavailableError:
            raise ProviderError("The issuer's keys cannot be read") from None
        except (PyJWTError, ValueError, TypeError) as error:
            raise RefusedError(f"The ID token is not good ({type(error).__name__})") from None
        if claims.get("azp", settings.console_oidc_client_id) != settings.console_oidc_client_id:
            raise RefusedError("The ID token was made for another client")
        return claims

    def _granted(self, answer: Mapping[str, Any], *, subject: str) -> Granted:
        token = _text(answer, f"{self._settings.console_oidc_token}_token")
        refresh = answer.get("refresh_token")
        return Granted(
            token=token,
            expires=expiry_of(token) or _from_now(answer.get("expires_in")),
            subject=subject,
            refresh_token=refresh if isinstance(refresh, str) else "",
        )


def parse_endpoints(body: bytes, *, issuer: str) -> Endpoints:
    """The endpoints in a discovery document. Raises ProviderError."""
    found = _object(body)
    if found.get("issuer") != issuer:
        raise ProviderError(
            "The issuer's own document names another issuer than TIELINE_CONSOLE_OIDC_ISSUER: they must be the same, "
            "letter by letter"
        )
    encrypted = issuer.startswith("https:")

    def url(name: str, *, needed: bool) -> str:
        text = found.get(name)
        if isinstance(text, str) and text.startswith("https://" if encrypted else ("https://", "http://")):
            return text
        if needed:
            raise ProviderError(f"The issuer's document has no usable {name}")
        return ""

    methods = found.get("token_endpoint_auth_methods_supported")
    return Endpoints(
        authorization=url("authorization_endpoint", needed=True),
        token=url("token_endpoint", needed=True),
        jwks=url("jwks_uri", needed=True),
        end_session=url("end_session_endpoint", needed=False),
        revocation=url("revocation_endpoint", needed=False),
        takes_basic=not isinstance(methods, list) or "client_secret_basic" in methods,
    )


async def _answer(
    method: str, url: str, *, data: Mapping[str, str] | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of an answer. Raises ProviderError."""
    try:
        async with (
            aiohttp.ClientSession(
                timeout=_TIMEOUT, cookie_jar=aiohttp.DummyCookieJar(), trust_env=True
            ) as session,
            session.request(method, url, data=data, headers=headers, allow_redirects=False) as response,
        ):
            body = b""
            while len(body) <= _LARGEST and (more := await response.content.read(_LARGEST)):
                body += more
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ProviderError(f"The issuer cannot be reached: {type(error).__name__}") from None
    if len(body) > _LARGEST:
        raise ProviderError("The issuer's answer is too large")
    return response.status, body


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        found = None
    if not isinstance(found, dict):
        raise ProviderError("The issuer's answer is no JSON object")
    return found


def _text(answer: Mapping[str, Any], name: str) -> str:
    found = answer.get(name)
    if not isinstance(found, str) or not found:
        raise RefusedError(f"The issuer's answer has no {name}")
    return found


def _from_now(seconds: Any) -> int | None:
    return int(time.time() + seconds) if isinstance(seconds, (int, float)) and seconds < 1e9 else None
