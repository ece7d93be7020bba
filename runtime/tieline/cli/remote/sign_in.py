"""The headers that authenticate a context's requests."""

import time
from collections.abc import Callable

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote import device_login, kubeconfig
from tieline.cli.remote.contexts import Context, ContextFile
from tieline.cli.remote.token_store import TokenStore, token_store

_CACHE_SECONDS = 3000
_JWT_DOTS = 2


def auth_headers(context: Context) -> dict[str, str]:
    """The headers for a context's requests. Raises CommandError (``NOT_SIGNED_IN``)."""
    return header_of(context.token or _stored(context, token_store(ContextFile().folder)))


def header_of(token: str) -> dict[str, str]:
    """A token as a header: JWTs are bearer tokens, others API keys. Raises CommandError."""
    if not token.isascii() or any(character.isspace() for character in token):
        raise CommandError("The token has characters that no token has", ExitCode.NOT_SIGNED_IN)
    if token.count(".") == _JWT_DOTS:
        return {"Authorization": f"Bearer {token}"}
    return {"X-API-Key": token}


def _stored(context: Context, store: TokenStore, now: Callable[[], float] = time.time) -> str:
    values = store.get(context.name) or {}
    sign_in = context.sign_in
    token = values.get("token")
    if token and float(values.get("expires", now() + 1)) > now():
        return str(token)
    if sign_in.kind == "kubeconfig":
        token, expires = _from_kubeconfig(context)
        if expires is not None:
            store.put(context.name, {"token": token, "expires": expires})
        return token
    if sign_in.kind == "oidc" and sign_in.issuer and sign_in.client_id and values.get("refresh"):
        issuer = device_login.discover(sign_in.issuer, ca_file=context.ca_file)
        tokens = device_login.refresh(
            issuer, sign_in.client_id, str(values["refresh"]), ca_file=context.ca_file
        )
        keep(store, context.name, tokens)
        return tokens.access
    raise CommandError(
        f"There is no valid token for the context {context.name!r}; run `tieline login {context.url}`",
        ExitCode.NOT_SIGNED_IN,
    )


def keep(store: TokenStore, context: str, tokens: device_login.OidcTokens) -> None:
    """Stores an issuer's tokens."""
    refresh = {"refresh": tokens.refresh} if tokens.refresh else {}
    store.put(context, {"token": tokens.access, "expires": tokens.expires, **refresh})


def _from_kubeconfig(context: Context) -> tuple[str, float | None]:
    sign_in = context.sign_in
    if sign_in.service_account:
        token = kubeconfig.service_account_token(sign_in.kube_context, sign_in.service_account)
        return token, time.time() + _CACHE_SECONDS
    return kubeconfig.user_token(sign_in.kube_context)
