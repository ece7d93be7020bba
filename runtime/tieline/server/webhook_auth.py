"""Who calls a webhook: checks requests against the credentials of the webhook's connection.

All comparisons take the same time wherever two values differ. A refusal says nothing of its reason, except for
signatures; the log does.
"""

import base64
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from tieline.auth.credential_values import field, text
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.configuration.snapshot import Connection, Credential
from tieline.server import handshakes
from tieline.server.refused_error import RefusedError
from tieline.server.webhook_signatures import Sender, SignatureError, verify_signature

logger = logging.getLogger("tieline.inbound")


class _MismatchError(Exception):
    """The request does not prove what it should; the message is for the log."""


def unauthenticated(detail: str = "") -> RefusedError:
    """The answer to everyone who is not let in."""
    message = "The request is not authenticated as this webhook needs it"
    return RefusedError(401, "unauthenticated", f"{message}: {detail}" if detail else message)


async def verify(
    connection: Connection, request: web.Request, *, public_url: str, explain: bool = True
) -> Sender:
    """Let through only what satisfies every api-key, basic-auth, hmac and secret credential, and at least one.

    Credentials of other schemes are for outbound requests. The body stays readable. ``explain`` is whether callers
    are told what is wrong with a signature. Raises RefusedError.
    """
    try:
        return await _verified(connection, request, public_url)
    except (_MismatchError, SignatureError, InvalidCredentialError) as error:
        logger.warning(
            "Refused a request to %s by the connection of template %s: %s",
            request.path,
            connection.template,
            error,
        )
        detail = str(error) if explain and isinstance(error, SignatureError) else ""
        raise unauthenticated(detail) from None


async def _verified(connection: Connection, request: web.Request, public_url: str) -> Sender:
    verify_token = handshakes.verify_token(connection)
    if verify_token is not None and handshakes.is_subscription(request):
        await _value(verify_token, request)
        return Sender("meta")
    checked = [
        item for item in connection.credentials if item.scheme in _CHECKED and item is not verify_token
    ]
    if not checked:
        raise _MismatchError(
            "the connection has no api-key, basic-auth, hmac or secret credential to check requests with"
        )
    sender = Sender()
    for credential in checked:
        if credential.scheme == "hmac":
            signed = await verify_signature(credential, request, public_url=public_url)
            sender = sender if sender.delivery_id else signed
        else:
            await _CHECKS[credential.scheme](credential, request)
    return sender


async def _value(credential: Credential, request: web.Request) -> None:
    expected = text(credential)
    if not expected or not _same(_presented(credential, request), expected):
        raise _MismatchError("the key is another one")


async def _basic(credential: Credential, request: web.Request) -> None:
    """RFC 7617."""
    word, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        given = base64.b64decode(token.strip(), validate=True) if word.lower() == "basic" else b""
    except ValueError:  # no base64, or no ASCII
        given = b""
    expected = f"{field(credential, 'username')}:{field(credential, 'password')}".encode()
    if expected == b":" or not hmac.compare_digest(given, expected):
        raise _MismatchError("user name or password are others")


def _presented(credential: Credential, request: web.Request) -> str:
    name = str(credential.options.get("name") or "")
    match credential.options.get("in"):
        case "header":
            found = request.headers.get(name)
        case "query":
            found = request.query.get(name)
        case "cookie":
            found = request.cookies.get(name)
        case other:
            raise InvalidCredentialError(f"a request cannot be checked by what is in its {other}")
    if not found:
        raise _MismatchError(f"there is no {credential.options['in']} {name}")
    return found


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())


_CHECKS: Mapping[str, Callable[[Credential, web.Request], Awaitable[None]]] = {
    "api-key": _value,
    "secret": _value,
    "basic-auth": _basic,
}
_CHECKED = frozenset({*_CHECKS, "hmac"})
