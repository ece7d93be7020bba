"""Who calls a webhook: checks requests against the credentials of the webhook's connection.

All comparisons take the same time wherever two values differ, and a refusal says nothing of its reason;
the log does.
"""

import base64
import binascii
import hmac
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from yarl import URL

from tieline.auth.credential_values import field, text
from tieline.auth.hmac_signatures import inputs, signature
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.auth.urls import without_parameter
from tieline.configuration.snapshot import Connection, Credential
from tieline.server.refused_error import RefusedError
from tieline.server.request_bodies import put_back

logger = logging.getLogger("tieline.inbound")

_DEFAULT_TOLERANCE = 300


class _MismatchError(Exception):
    """The request does not prove what it should; the message is for the log."""


def unauthenticated() -> RefusedError:
    """The one answer to everyone who is not let in."""
    return RefusedError(401, "unauthenticated", "The request is not authenticated as this webhook needs it")


async def verify(connection: Connection, request: web.Request, *, public_url: str) -> None:
    """Let through only what satisfies every api-key, basic-auth, hmac and secret credential, and at least one.

    Credentials of other schemes are for outbound requests. The body stays readable. Raises RefusedError.
    """
    checked = [item for item in connection.credentials if item.scheme in _CHECKS]
    try:
        if not checked:
            raise _MismatchError(
                "the connection has no api-key, basic-auth, hmac or secret credential to check requests with"
            )
        for credential in checked:
            await _CHECKS[credential.scheme](credential, request, public_url)
    except (_MismatchError, InvalidCredentialError) as error:
        logger.warning(
            "Refused a request to %s by the connection of template %s: %s",
            request.path,
            connection.template,
            error,
        )
        raise unauthenticated() from None


async def _value(credential: Credential, request: web.Request, _public_url: str) -> None:
    expected = text(credential)
    if not expected or not _same(_presented(credential, request), expected):
        raise _MismatchError("the key is another one")


async def _basic(credential: Credential, request: web.Request, _public_url: str) -> None:
    """RFC 7617."""
    word, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        given = base64.b64decode(token.strip(), validate=True) if word.lower() == "basic" else b""
    except binascii.Error:
        given = b""
    expected = f"{field(credential, 'username')}:{field(credential, 'password')}".encode()
    if expected == b":" or not hmac.compare_digest(given, expected):
        raise _MismatchError("user name or password are others")


async def _signature(credential: Credential, request: web.Request, public_url: str) -> None:
    options = credential.options
    _check_time(options, request)
    presented = _normal(options, _presented(credential, request))
    body = await _body(request) if "body" in inputs(options) else b""
    # Every form is computed, so that the time taken does not tell which one was nearer.
    matches = [
        _same(presented, _normal(options, signature(credential, body=body, url=url)))
        for url in _urls(options, request, public_url)
    ]
    if not any(matches):
        raise _MismatchError("the signature is another one")


def _check_time(options: Mapping[str, object], request: web.Request) -> None:
    header = str(options.get("timestampHeader") or "")
    if not header:
        return
    tolerance = int(str(options.get("toleranceSeconds") or _DEFAULT_TOLERANCE))
    try:
        sent = float(request.headers.get(header, ""))
    except ValueError:
        raise _MismatchError(f"the header {header} holds no time in seconds") from None
    if not abs(time.time() - sent) <= tolerance:
        raise _MismatchError(f"its time is more than {tolerance} seconds away")


def _urls(options: Mapping[str, object], request: web.Request, public_url: str) -> list[str]:
    """How the caller may have written the URL that it signed: by the public URL, or as it got here."""
    bases = [public_url.rstrip("/"), f"{request.scheme}://{request.host}"]
    urls = [URL(base + request.raw_path, encoded=True) for base in dict.fromkeys(bases) if base]
    if options.get("in") == "query":
        urls = [without_parameter(url, str(options.get("name"))) for url in urls]
    return [str(url) for url in urls]


async def _body(request: web.Request) -> bytes:
    """The exact bytes; the code can still read them in any way, also part by part."""
    body = await request.read()
    put_back(request, body)
    return body


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


def _normal(options: Mapping[str, object], value: str) -> str:
    """Hex in lower case, base64 without padding: senders differ in these."""
    encoding = str(options.get("encoding") or "hex")
    return value.lower() if encoding == "hex" else value.rstrip("=")


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())


_CHECKS: Mapping[str, Callable[[Credential, web.Request, str], Awaitable[None]]] = {
    "api-key": _value,
    "secret": _value,
    "basic-auth": _basic,
    "hmac": _signature,
}
