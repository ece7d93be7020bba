"""Signing in with OpenID Connect on another device (RFC 8628), refreshing the tokens, and revoking them."""

import base64
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.contexts import OidcToken
from tieline.cli.remote.http import Answer, send

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_SLOWER_SECONDS = 5
_PAUSES = (1.0, 60.0)
"""The shortest and the longest pause between two questions, whatever the issuer asks for."""
_MAX_SECONDS = 1800
_EARLY_SECONDS = 30
_TOKEN_SECONDS, _LONGEST_LIFETIME = 300.0, 366 * 86400.0
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """What an issuer's discovery document says."""

    token_endpoint: str
    device_endpoint: str | None = None
    revocation_endpoint: str | None = None


@dataclass(frozen=True, kw_only=True)
class DeviceCode:
    """What the user is asked to do."""

    user_code: str
    url: str
    """The page where the code is entered."""
    complete_url: str | None
    """The same page with the code filled in."""
    device_code: str
    interval: float
    expires_in: float


@dataclass(frozen=True, kw_only=True)
class OidcTokens:
    """Tokens of an issuer."""

    token: str
    """The ID token or the access token: the one that the API is called with."""
    refresh: str | None
    expires: float
    """When ``token`` should no longer be used: a Unix time."""


def discover(issuer: str, *, ca_file: str | None = None) -> Issuer:
    """Reads ``/.well-known/openid-configuration``. Raises CommandError."""
    _check(issuer)
    answer = send("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration", ca_file=ca_file)
    if answer.status >= 500:
        raise _away(answer)
    document = _object(answer)
    if answer.status != 200 or "token_endpoint" not in document:
        raise CommandError(f"{issuer} has no OpenID Connect configuration (HTTP {answer.status})")
    if str(document.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise CommandError(f"The configuration of {issuer} is another issuer's")
    found = Issuer(
        token_endpoint=str(document["token_endpoint"]),
        device_endpoint=_text(document.get("device_authorization_endpoint")),
        revocation_endpoint=_text(document.get("revocation_endpoint")),
    )
    for endpoint in filter(None, (found.token_endpoint, found.device_endpoint, found.revocation_endpoint)):
        _check(endpoint)
    return found


def begin(issuer: Issuer, client_id: str, scopes: str, *, ca_file: str | None = None) -> DeviceCode:
    """Requests a code for the user. Raises CommandError."""
    if not issuer.device_endpoint:
        raise CommandError("The issuer does not offer sign-in on another device (RFC 8628)")
    answer = _post(issuer.device_endpoint, {"client_id": client_id, "scope": scopes}, ca_file)
    if answer.status >= 500:
        raise _away(answer)
    document = _object(answer)
    try:
        return DeviceCode(
            user_code=str(document["user_code"]),
            url=str(document["verification_uri"]),
            complete_url=_text(document.get("verification_uri_complete")),
            device_code=str(document["device_code"]),
            interval=_seconds(document.get("interval", _SLOWER_SECONDS), *_PAUSES),
            expires_in=_seconds(document["expires_in"], 0, _MAX_SECONDS),
        )
    except (KeyError, TypeError, ValueError):
        raise _refused("gives no code", document, answer.status) from None


def poll(
    issuer: Issuer,
    client_id: str,
    code: DeviceCode,
    *,
    wanted: OidcToken = "id",
    ca_file: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> OidcTokens:
    """Waits until the user has signed in. Raises CommandError if the user refuses, or the code expires.

    An issuer that is away meanwhile is asked again, less and less often, until the code expires.
    """
    interval, end = code.interval, now() + code.expires_in
    form = {"grant_type": _GRANT, "device_code": code.device_code, "client_id": client_id}
    away: CommandError | None = None
    while now() + interval < end:
        sleep(interval)
        try:
            answer = _post(issuer.token_endpoint, form, ca_file)
            away = _away(answer) if answer.status >= 500 else None
        except CommandError as error:
            if error.code is not ExitCode.UNAVAILABLE:
                raise
            away = error
        if away:
            interval = min(2 * interval, _PAUSES[1])
            continue
        document = _object(answer)
        if answer.status == 200:
            return _tokens(document, wanted, now())
        match document.get("error"):
            case "authorization_pending":
                pass
            case "slow_down":
                interval += _SLOWER_SECONDS
            case "expired_token":
                break
            case _:
                raise _refused("refuses the sign-in", document, answer.status)
    if away:
        raise away
    raise CommandError("The code has expired; run `tieline login` again", ExitCode.NOT_SIGNED_IN)


def refresh(
    issuer: Issuer,
    client_id: str,
    token: str,
    *,
    wanted: OidcToken = "id",
    ca_file: str | None = None,
    now: Callable[[], float] = time.time,
) -> OidcTokens:
    """New tokens for a refresh token. Raises CommandError (``NOT_SIGNED_IN``) if the issuer refuses it."""
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    answer = _post(issuer.token_endpoint, form, ca_file)
    if answer.status >= 500 or answer.status == 429:
        raise _away(answer)
    if answer.status != 200:
        raise CommandError("Your sign-in has expired; run `tieline login` again", ExitCode.NOT_SIGNED_IN)
    document = _object(answer)
    return _tokens({**document, "refresh_token": document.get("refresh_token") or token}, wanted, now())


def revoke(issuer: Issuer, client_id: str, token: str, *, ca_file: str | None = None) -> bool:
    """Makes a refresh token void at the issuer (RFC 7009); whether it is. Raises CommandError."""
    if not issuer.revocation_endpoint:
        return False
    form = {"token": token, "token_type_hint": "refresh_token", "client_id": client_id}
    return _post(issuer.revocation_endpoint, form, ca_file).status == 200


def _tokens(document: Mapping[str, Any], wanted: OidcToken, now: float) -> OidcTokens:
    token, refresh_token = document.get(f"{wanted}_token"), document.get("refresh_token")
    if not isinstance(token, str) or not token:
        other = "ask for the scope openid, or use --oidc-token access" if wanted == "id" else "it needs one"
        raise CommandError(
            f"The issuer answers without an {_NAMES[wanted]} token; {other}", ExitCode.NOT_SIGNED_IN
        )
    return OidcTokens(
        token=token,
        refresh=refresh_token if isinstance(refresh_token, str) else None,
        expires=now + _lifetime(token, wanted, document) - _EARLY_SECONDS,
    )


_NAMES: Mapping[OidcToken, str] = {"id": "ID", "access": "access"}


def _lifetime(token: str, wanted: OidcToken, document: Mapping[str, Any]) -> float:
    """Seconds for which a new token is good, also where this machine's clock is wrong."""
    if wanted == "id":
        # `expires_in` is about the access token.
        try:
            payload = token.split(".")[1]
            claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
            return float(claims["exp"]) - float(claims["iat"])
        except (IndexError, KeyError, TypeError, ValueError):
            pass
    try:
        return _seconds(document.get("expires_in"), 0, _LONGEST_LIFETIME)
    except (TypeError, ValueError):
        return _TOKEN_SECONDS


def _seconds(value: Any, least: float, most: float) -> float:
    """A number of seconds within bounds. Raises TypeError and ValueError."""
    number = float(value)
    if math.isnan(number):
        raise ValueError(value)
    return min(max(number, least), most)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _post(url: str, form: Mapping[str, str], ca_file: str | None) -> Answer:
    return send("POST", url, headers=_FORM, body=urlencode(form).encode(), ca_file=ca_file)


def _object(answer: Answer) -> Mapping[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError(f"{url!r} is no address of an issuer") from None
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise UsageError(f"{url} is not HTTPS, so a token could be read on its way")


def _away(answer: Answer) -> CommandError:
    return CommandError(f"The issuer answers HTTP {answer.status}; try again later", ExitCode.UNAVAILABLE)


def _refused(what: str, document: Mapping[str, Any], status: int) -> CommandError:
    reason = document.get("error_description") or document.get("error") or f"HTTP {status}"
    return CommandError(f"The issuer {what}: {str(reason)[:500]}", ExitCode.NOT_SIGNED_IN)
