"""Who calls a webhook: checks requests against the credentials of the webhook's connection.

All comparisons take the same time wherever two values differ. A refusal says nothing of its reason, except for
signatures; the log does.
"""

import base64
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime

from aiohttp import web

from tieline.auth.credential_values import field, text
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.auth.static_values import with_prefix
from tieline.configuration.snapshot import Connection, Credential, has_expired
from tieline.server import handshakes
from tieline.server.refused_error import RefusedError
from tieline.server.sender_certificates import SenderCertificates
from tieline.server.webhook_signatures import (
    Sender,
    SignatureError,
    SingleValueError,
    single_value,
    verify_signature,
)

logger = logging.getLogger("tieline.inbound")


class _MismatchError(Exception):
    """The request does not prove what it should; the message is for the log."""


def unauthenticated(detail: str = "") -> RefusedError:
    """The answer to everyone who is not let in."""
    message = "The request is not authenticated as this webhook needs it"
    return RefusedError(401, "unauthenticated", f"{message}: {detail}" if detail else message)


async def verify(
    connection: Connection,
    request: web.Request,
    *,
    public_url: str,
    explain: bool = True,
    certificates: SenderCertificates | None = None,
) -> Sender:
    """Let through only what satisfies every api-key, basic-auth, hmac and secret credential, and at least one.

    Of several credentials for one auth scheme, one has to be satisfied: both secrets hold while one is rotated.
    Credentials of other schemes are for outbound requests. The body stays readable. Without ``explain`` all refusals
    are alike: they neither say what is wrong with a signature, nor are the auth scheme's own. Raises RefusedError.
    """
    try:
        return await _verified(connection, request, public_url, certificates)
    except (_MismatchError, SingleValueError, SignatureError, InvalidCredentialError) as error:
        logger.warning(
            "Refused a request to %s by the connection of template %s: %s",
            request.path,
            connection.template,
            error,
        )
        detail = str(error) if explain and isinstance(error, SignatureError) else ""
        refused = unauthenticated(detail)
        if explain:
            refused.answer = next(
                (one.refusal for one, _ in handshakes.schemes_in(connection) if one.refusal), None
            )
        raise refused from None


async def _verified(
    connection: Connection, request: web.Request, public_url: str, certificates: SenderCertificates | None
) -> Sender:
    if sender := await _challenged(connection, request):
        return sender
    tokens = {id(one) for one in connection.verify_tokens}
    checked = [
        group
        for group in connection.alternatives
        if group[0].scheme in _CHECKED and id(group[0]) not in tokens
    ]
    if not checked:
        raise _MismatchError(
            "the connection has no api-key, basic-auth, hmac or secret credential to check requests with"
        )
    sender = Sender()
    for alternatives in checked:
        shown = await _one_of(_valid(alternatives), request, public_url, certificates)
        sender = sender if sender.scheme else shown
    return sender


async def _challenged(connection: Connection, request: web.Request) -> Sender | None:
    """The answer to a challenge that no signature belongs to. Raises _MismatchError for a wrong proof."""
    found = await handshakes.unsigned(connection, request)
    if not found:
        return None
    proven = [one for one in found if await handshakes.is_proven(one, connection, request)]
    if not proven:
        raise _MismatchError("the challenge does not show the secret that it has to")
    answer = await handshakes.response_to(proven[0], request)
    return Sender(handshake=answer) if answer is not None else None


async def _one_of(
    alternatives: Sequence[Credential],
    request: web.Request,
    public_url: str,
    certificates: SenderCertificates | None,
) -> Sender:
    """Who sent a request that satisfies one of some credentials. Raises the first error if none is satisfied."""
    errors: list[Exception] = []
    for credential in alternatives:
        try:
            if credential.scheme == "hmac":
                return await verify_signature(
                    credential, request, public_url=public_url, certificates=certificates
                )
            await _CHECKS[credential.scheme](credential, request)
        except (_MismatchError, SingleValueError, SignatureError, InvalidCredentialError) as error:
            errors.append(error)
        else:
            return Sender()
    # What the sender did wrong says more than what one of the credentials lacks.
    raise next((one for one in errors if not isinstance(one, InvalidCredentialError)), errors[0])


def _valid(alternatives: Sequence[Credential]) -> list[Credential]:
    """Those that have not expired. Raises InvalidCredentialError."""
    now = datetime.now(UTC)
    found = [one for one in alternatives if not has_expired(one, now)]
    if not found:
        raise InvalidCredentialError("its credential has expired; give the connection another one")
    return found


async def _value(credential: Credential, request: web.Request) -> None:
    key = text(credential)
    if not key or not _same(_presented(credential, request), with_prefix(credential.options, key)):
        raise _MismatchError("the key is another one")


async def _basic(credential: Credential, request: web.Request) -> None:
    """RFC 7617."""
    word, _, token = single_value(request, "header", "Authorization").partition(" ")
    try:
        given = base64.b64decode(token.strip(), validate=True) if word.lower() == "basic" else b""
    except ValueError:  # no base64, or no ASCII
        given = b""
    expected = f"{field(credential, 'username')}:{field(credential, 'password')}".encode()
    if expected == b":" or not hmac.compare_digest(given, expected):
        raise _MismatchError("user name or password are others")


def _presented(credential: Credential, request: web.Request) -> str:
    place, name = credential.options.get("in"), str(credential.options.get("name") or "")
    if place not in ("header", "query", "cookie"):
        raise InvalidCredentialError(f"a request cannot be checked by what is in its {place}")
    return single_value(request, place, name)


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode())


_CHECKS: Mapping[str, Callable[[Credential, web.Request], Awaitable[None]]] = {
    "api-key": _value,
    "secret": _value,
    "basic-auth": _basic,
}
_CHECKED = frozenset({*_CHECKS, "hmac"})
