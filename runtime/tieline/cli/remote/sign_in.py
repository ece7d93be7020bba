"""The headers that authenticate a context's requests."""

import time
from collections.abc import Callable

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote import device_login, kubeconfig
from tieline.cli.remote.contexts import Context, ContextFile
from tieline.cli.remote.private_files import locked
from tieline.cli.remote.token_store import TokenStore, Values, token_store

_CACHE_SECONDS = 3000
_JWT_DOTS = 2


class Authentication:
    """The headers for a context's requests, renewed when its token ends."""

    def __init__(self, context: Context, now: Callable[[], float] = time.time) -> None:
        self._context = context
        self._now = now
        self._headers: dict[str, str] = {}
        self._expires: float | None = 0

    def headers(self) -> dict[str, str]:
        """The headers. Raises CommandError (``NOT_SIGNED_IN``)."""
        if self._expires is not None and self._expires <= self._now():
            token, self._expires = self._token()
            self._headers = header_of(token)
        return self._headers

    def _token(self) -> tuple[str, float | None]:
        if self._context.token:
            return self._context.token, None
        folder = ContextFile().folder
        return stored_token(self._context, token_store(folder), now=self._now)


def header_of(token: str) -> dict[str, str]:
    """A token as a header: JWTs are bearer tokens, others API keys. Raises CommandError."""
    if not token.isascii() or not token.isprintable() or any(character.isspace() for character in token):
        raise CommandError("The token has characters that no token has", ExitCode.NOT_SIGNED_IN)
    if token.count(".") == _JWT_DOTS:
        return {"Authorization": f"Bearer {token}"}
    return {"X-API-Key": token}


def stored_token(
    context: Context, store: TokenStore, now: Callable[[], float] = time.time
) -> tuple[str, float | None]:
    """A context's token, a new one if the stored one has ended, and the Unix time at which it ends, if known."""
    sign_in = context.sign_in
    values = store.get(context.name) or {}
    if found := _valid(values, now()):
        return found
    if sign_in.kind == "kubeconfig":
        token, expires = _from_kubeconfig(context)
        if expires is not None:
            store.put(context.name, {"token": token, "expires": expires})
        return token, expires
    if sign_in.kind == "oidc" and values.get("refresh"):
        # Issuers may accept a refresh token once only: of several commands one refreshes, the others take its result.
        with locked(ContextFile().folder):
            values = store.get(context.name) or {}
            if found := _valid(values, now()):
                return found
            tokens = _refreshed(context, str(values.get("refresh", "")))
            keep(store, context.name, tokens)
            return tokens.token, tokens.expires
    raise CommandError(
        f"There is no valid token for the context {context.name!r}; run `tieline login {context.url}`",
        ExitCode.NOT_SIGNED_IN,
    )


def keep(store: TokenStore, context: str, tokens: device_login.OidcTokens) -> None:
    """Stores an issuer's tokens."""
    refresh = {"refresh": tokens.refresh} if tokens.refresh else {}
    store.put(context, {"token": tokens.token, "expires": tokens.expires, **refresh})


def revoke(context: Context, store: TokenStore) -> bool:
    """Makes a context's refresh token void at its issuer; whether it is. Raises CommandError."""
    sign_in = context.sign_in
    refresh = (store.get(context.name) or {}).get("refresh")
    if not (sign_in.issuer and sign_in.client_id and refresh):
        return False
    issuer = device_login.discover(sign_in.issuer, ca_file=context.ca_file)
    return device_login.revoke(issuer, sign_in.client_id, str(refresh), ca_file=context.ca_file)


def _valid(values: Values, now: float) -> tuple[str, float | None] | None:
    token, expires = values.get("token"), values.get("expires")
    if not token or (expires is not None and float(expires) <= now):
        return None
    return str(token), None if expires is None else float(expires)


def _refreshed(context: Context, refresh: str) -> device_login.OidcTokens:
    sign_in = context.sign_in
    issuer = device_login.discover(str(sign_in.issuer), ca_file=context.ca_file)
    return device_login.refresh(
        issuer, str(sign_in.client_id), refresh, wanted=sign_in.oidc_token, ca_file=context.ca_file
    )


def _from_kubeconfig(context: Context) -> tuple[str, float | None]:
    sign_in = context.sign_in
    if sign_in.service_account:
        token = kubeconfig.service_account_token(sign_in.kube_context, sign_in.service_account)
        return token, time.time() + _CACHE_SECONDS
    return kubeconfig.user_token(sign_in.kube_context)
