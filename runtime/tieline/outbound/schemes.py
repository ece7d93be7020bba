"""The auth schemes that this version can apply, one function each, in one registry.

An applier gets the request as it will be sent and one credential. It is async, so that a scheme may
fetch a token first; it may read the body's exact bytes to sign them.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable

from tieline.configuration.snapshot import Connection, Credential
from tieline.errors import CredentialError, UnsupportedAuthSchemeError
from tieline.outbound.prepared import PreparedRequest, UnusableValueError

Applier = Callable[[PreparedRequest, Credential], Awaitable[None]]

_APPLIERS: dict[str, Applier] = {}


def applies(scheme: str) -> Callable[[Applier], Applier]:
    """Register the decorated function as the applier of an auth scheme type."""

    def register(applier: Applier) -> Applier:
        _APPLIERS[scheme] = applier
        return applier

    return register


def check(connection: Connection) -> None:
    """Refuse a connection with a credential that cannot be applied: raises UnsupportedAuthSchemeError."""
    for credential in connection.credentials:
        if credential.scheme not in _APPLIERS:
            raise UnsupportedAuthSchemeError(
                template=connection.template,
                credential=credential.id,
                scheme=credential.scheme,
                supported=_APPLIERS,
            )


async def authenticate(request: PreparedRequest, connection: Connection) -> None:
    """Apply the connection's credentials in their order; where two set the same thing, the later one holds.

    Raises UnsupportedAuthSchemeError and CredentialError.
    """
    check(connection)
    for credential in connection.credentials:
        try:
            await _APPLIERS[credential.scheme](request, credential)
        except UnusableValueError as error:
            raise CredentialError(
                template=connection.template, credential=credential.id, problem=str(error)
            ) from error


@applies("none")
async def _none(_request: PreparedRequest, _credential: Credential) -> None:
    return


@applies("api-key")
async def _api_key(request: PreparedRequest, credential: Credential) -> None:
    name = str(credential.options.get("name") or "")
    if not name:
        raise UnusableValueError("its auth scheme has no apiKey.name")
    value = _value(credential)
    match credential.options.get("in"):
        case "header":
            request.set_header(name, value)
        case "query":
            request.set_query(name, value)
        case "cookie":
            request.set_cookie(name, value)
        case other:
            raise UnusableValueError(f"its auth scheme's apiKey.in is {other!r}, not header, query or cookie")


@applies("basic-auth")
async def _basic_auth(request: PreparedRequest, credential: Credential) -> None:
    """RFC 7617, in UTF-8."""
    username, password = _field(credential, "username"), _field(credential, "password")
    if ":" in username:
        raise UnusableValueError(
            "a user name with a colon cannot be sent with basic authentication (RFC 7617)"
        )
    token = base64.b64encode(f"{username}:{password}".encode()).decode()
    request.set_header("Authorization", f"Basic {token}")


def _value(credential: Credential) -> str:
    if "valueBase64" not in credential.data:
        return _field(credential, "value")
    try:
        return base64.b64decode(_field(credential, "valueBase64"), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise UnusableValueError("its binary value is no text, and an API key must be one") from None


def _field(credential: Credential, name: str) -> str:
    value = credential.data.get(name)
    if not isinstance(value, str):
        raise UnusableValueError(
            f"it has no {name!r}; a credential of type {credential.type} for {credential.scheme} needs "
            f"the key {name!r} in its Secret"
        )
    return value
