"""Signing in with OpenID Connect on another device (RFC 8628), and refreshing the tokens."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.remote.http import Answer, send

_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_FORM = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
_SLOWER_SECONDS = 5
_MAX_SECONDS = 1800
_EARLY_SECONDS = 30
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, kw_only=True)
class Issuer:
    """What an issuer's discovery document says."""

    token_endpoint: str
    device_endpoint: str | None


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

    access: str
    refresh: str | None
    expires: float
    """When the access token should no longer be used: a Unix time."""


def discover(issuer: str, *, ca_file: str | None = None) -> Issuer:
    """Reads ``/.well-known/openid-configuration``. Raises CommandError."""
    _check(issuer)
    answer = send("GET", f"{issuer.rstrip('/')}/.well-known/openid-configuration", ca_file=ca_file)
    document = _object(answer)
    if answer.status != 200 or "token_endpoint" not in document:
        raise CommandError(f"{issuer} has no OpenID Connect configuration (HTTP {answer.status})")
    if str(document.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise CommandError(f"The configuration of {issuer} is another issuer's")
    device = document.get("device_authorization_endpoint")
    for endpoint in filter(None, (document["token_endpoint"], device)):
        _check(str(endpoint))
    return Issuer(token_endpoint=document["token_endpoint"], device_endpoint=device)


def begin(issuer: Issuer, client_id: str, scopes: str, *, ca_file: str | None = None) -> DeviceCode:
    """Requests a code for the user. Raises CommandError."""
    if not issuer.device_endpoint:
        raise CommandError("The issuer does not offer sign-in on another device (RFC 8628)")
    answer = _post(issuer.device_endpoint, {"client_id": client_id, "scope": scopes}, ca_file)
    document = _object(answer)
    try:
        return DeviceCode(
            user_code=document["user_code"],
            url=document["verification_uri"],
            complete_url=document.get("verification_uri_complete"),
            device_code=document["device_code"],
            interval=float(document.get("interval", _SLOWER_SECONDS)),
            expires_in=min(float(document["expires_in"]), _MAX_SECONDS),
        )
    except (KeyError, TypeError, ValueError):
        raise _refused("gives no code", document, answer.status) from None


def poll(
    issuer: Issuer,
    client_id: str,
    code: DeviceCode,
    *,
    ca_file: str | None = None,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.time,
) -> OidcTokens:
    """Waits until the user has signed in. Raises CommandError if the user refuses, or the code expires."""
    interval, end = code.interval, now() + code.expires_in
    form = {"grant_type": _GRANT, "device_code": code.device_code, "client_id": client_id}
    while now() < end:
        sleep(interval)
        answer = _post(issuer.token_endpoint, form, ca_file)
        document = _object(answer)
        if answer.status == 200:
            return _tokens(document, now())
        error = document.get("error")
        if error == "slow_down":
            interval += _SLOWER_SECONDS
        elif error != "authorization_pending":
            raise _refused("refuses the sign-in", document, answer.status)
    raise CommandError("The code has expired; run `tieline login` again", ExitCode.NOT_SIGNED_IN)


def refresh(
    issuer: Issuer,
    client_id: str,
    token: str,
    *,
    ca_file: str | None = None,
    now: Callable[[], float] = time.time,
) -> OidcTokens:
    """New tokens for a refresh token. Raises CommandError (``NOT_SIGNED_IN``) if the issuer refuses it."""
    form = {"grant_type": "refresh_token", "refresh_token": token, "client_id": client_id}
    answer = _post(issuer.token_endpoint, form, ca_file)
    document = _object(answer)
    if answer.status >= 500:
        raise CommandError(f"The issuer answers {answer.status}; try again later", ExitCode.UNAVAILABLE)
    if answer.status != 200:
        raise CommandError("Your sign-in has expired; run `tieline login` again", ExitCode.NOT_SIGNED_IN)
    tokens = _tokens(document, now())
    return (
        tokens if tokens.refresh else OidcTokens(access=tokens.access, refresh=token, expires=tokens.expires)
    )


def _tokens(document: Mapping[str, Any], now: float) -> OidcTokens:
    try:
        return OidcTokens(
            access=str(document["access_token"]),
            refresh=document.get("refresh_token"),
            expires=now + float(document.get("expires_in", 300)) - _EARLY_SECONDS,
        )
    except (KeyError, TypeError, ValueError):
        raise CommandError("The issuer answers without a token") from None


def _post(url: str, form: Mapping[str, str], ca_file: str | None) -> Answer:
    return send("POST", url, headers=_FORM, body=urlencode(form).encode(), ca_file=ca_file)


def _object(answer: Answer) -> Mapping[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _check(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise UsageError(f"{url} is not HTTPS, so a token could be read on its way")


def _refused(what: str, document: Mapping[str, Any], status: int) -> CommandError:
    reason = document.get("error_description") or document.get("error") or f"HTTP {status}"
    return CommandError(f"The issuer {what}: {reason}", ExitCode.NOT_SIGNED_IN)
