"""The auth schemes, one applier each, in one table.

An applier gets the request as it will be sent and one credential. It is async, because it may read the
body's exact bytes to sign them. Its module is imported when a connection first needs it: pods that sign no
tokens load no cryptography.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module

from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.configuration.snapshot import Connection, Credential, has_expired, without_replaced
from tieline.errors import CredentialError, UnsupportedAuthSchemeError

Applier = Callable[[PreparedRequest, Credential], Awaitable[None]]

_MODULES: Mapping[str, str] = {
    "none": "static_values:apply_nothing",
    "api-key": "static_values:apply_api_key",
    "basic-auth": "static_values:apply_basic",
    "oauth2": "static_values:apply_access_token",
    "secret": "static_values:apply_secret",
    "hmac": "hmac_signatures:apply",
    "jwt-bearer": "jwt_bearer:apply",
    "certificate": "mutual_tls:apply",
    "oauth1": "oauth1:apply",
}
SCHEMES = frozenset(_MODULES)
"""The types of auth schemes that can be applied."""


def check(connection: Connection) -> None:
    """Refuse a connection with a credential that cannot be applied: raises UnsupportedAuthSchemeError."""
    for credential in connection.credentials:
        if credential.scheme not in _MODULES:
            raise UnsupportedAuthSchemeError(
                template=connection.template,
                credential=credential.id,
                scheme=credential.scheme,
                supported=_MODULES,
            )


async def authenticate(request: PreparedRequest, connection: Connection) -> None:
    """Apply the connection's credentials in their order; where two set the same thing, the later one holds.

    Of several for one auth scheme, those that have expired are left out. Raises UnsupportedAuthSchemeError and
    CredentialError.
    """
    check(connection)
    now = datetime.now(UTC)
    credentials: Sequence[Credential] = connection.credentials
    if any(has_expired(one, now) for one in credentials):
        credentials = without_replaced(credentials, now)
    for credential in credentials:
        if has_expired(credential, now):
            raise CredentialError(
                template=connection.template,
                credential=credential.id,
                problem="it has expired; give the connection another one",
            )
        try:
            await _applier(credential.scheme)(request, credential)
        except InvalidCredentialError as error:
            raise CredentialError(
                template=connection.template, credential=credential.id, problem=str(error)
            ) from error


@cache
def _applier(scheme: str) -> Applier:
    module, _, name = _MODULES[scheme].partition(":")
    applier: Applier = getattr(import_module(f"tieline.auth.{module}"), name)
    return applier
