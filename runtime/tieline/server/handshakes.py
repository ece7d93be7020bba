"""Handshakes: how senders make sure that a URL is a webhook's, before they send to it.

An auth scheme's ``challenges`` (those of a preset, or a System's own) say which requests those are, what they have to
show, and what is answered. The code does not run for them.
"""

import hmac
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from aiohttp import web

from tieline.auth.body_fields import BodyFields
from tieline.auth.credential_values import text
from tieline.auth.hmac_signatures import digest_of, encoded
from tieline.configuration.snapshot import Connection, Credential, has_expired
from tieline.server.responses import fixed_answer
from tieline.server.sender_certificates import SenderCertificates
from tieline.server.webhook_signatures import Sender, body_of
from tieline_protocol.signature_challenges import Challenge
from tieline_protocol.signature_fields import Condition, FieldError, Place, text_bytes
from tieline_protocol.signatures import HMAC_ALGORITHMS, SignatureScheme

_MAX_BODY = 16 * 1024
_MAX_CHALLENGE = 4096
# What is signed for a sender must not be a body or a signed text of a webhook, which has other characters.
_SIGNABLE = re.compile(r"[A-Za-z0-9_=+/~-]{1,256}")
_IN_HEADER = re.compile(r"[\x21-\x7e]{1,512}")
_SNS_CONFIRMATION = "SubscriptionConfirmation"


@dataclass(frozen=True)
class Handshake:
    """A challenge that a request is, with the credential whose scheme has it."""

    challenge: Challenge
    scheme: SignatureScheme
    credential: Credential


def schemes_in(connection: Connection) -> Iterator[tuple[SignatureScheme, Credential]]:
    """The connection's credentials that verify signatures, with their schemes."""
    now = datetime.now(UTC)
    for scheme, credential in connection.signature_schemes:
        if not has_expired(credential, now):
            yield scheme, credential


def may_be(connection: Connection, request: web.Request) -> bool:
    """Whether a request can be a challenge, as far as its method, query and headers say."""
    return any(
        challenge.method == request.method and all(_may_hold(one, request) for one in challenge.when)
        for scheme, _ in schemes_in(connection)
        for challenge in scheme.challenges
    )


async def unsigned(connection: Connection, request: web.Request) -> list[Handshake]:
    """The challenges without a signature that a request is, one for each credential of their scheme."""
    found = []
    for scheme, credential in schemes_in(connection):
        for challenge in scheme.challenges:
            if challenge.proof != "signature" and await _is(challenge, request):
                found.append(Handshake(challenge, scheme, credential))
                break
    return found


async def is_proven(handshake: Handshake, connection: Connection, request: web.Request) -> bool:
    """Whether a challenge without a signature shows what it has to."""
    place, proof = handshake.challenge.proof_in, handshake.challenge.proof
    if place is None:
        return proof == "none"
    shown = await _values(place, request)
    if len(shown) != 1:
        return False
    credentials = [handshake.credential] if proof == "key" else _tokens_at(place, connection)
    try:
        given = text_bytes(shown[0])
    except FieldError:
        return False
    # Compare all, so that the time taken does not reveal which one it is.
    matches = [
        hmac.compare_digest(given, expected.encode()) for one in credentials if (expected := text(one))
    ]
    return any(matches)


async def answer_of(
    sender: Sender, request: web.Request, certificates: SenderCertificates | None = None
) -> web.Response | None:
    """The answer to a handshake whose sender is verified; None for other requests."""
    if sender.handshake is not None:
        return sender.handshake
    if sender.scheme is None or sender.credential is None:
        return None
    for challenge in sender.scheme.challenges:
        if challenge.proof == "signature" and await _is(challenge, request):
            return await response_to(Handshake(challenge, sender.scheme, sender.credential), request)
    if sender.scheme.certificates == "sns" and certificates is not None:
        return await _sns_answer(request, certificates)
    return None


async def response_to(handshake: Handshake, request: web.Request) -> web.Response | None:
    """The challenge's answer; None where the request has no challenge in it that can be answered."""
    challenge, answer = handshake.challenge, handshake.challenge.answer
    value = ""
    if challenge.value is not None:
        found = await _values(challenge.value, request)
        if len(found) != 1 or not 0 < len(found[0]) <= _MAX_CHALLENGE:
            return None
        value = found[0]
    signed = ""
    if "{hmac}" in answer.body:
        if not _SIGNABLE.fullmatch(value) or handshake.scheme.algorithm not in HMAC_ALGORITHMS:
            return None
        signed = encoded(
            handshake.scheme, digest_of(handshake.credential, handshake.scheme, [value.encode()])
        )
    headers = {"Cache-Control": "no-store"}
    if challenge.header:
        if not _IN_HEADER.fullmatch(value):
            return None
        headers[challenge.header] = value
    in_text = json.dumps(value)[1:-1] if answer.media_type == "application/json" else value
    content = answer.body.replace("{hmac}", signed).replace("{challenge}", in_text)
    return fixed_answer(replace(answer, body=content, content_type=answer.media_type), headers)


def _tokens_at(place: Place, connection: Connection) -> list[Credential]:
    """The verify tokens that a request may show at a place: two while one is rotated."""
    now = datetime.now(UTC)
    return [
        one
        for one in connection.verify_tokens
        if (one.options.get("in"), one.options.get("name")) == (place.kind, place.name)
        and not has_expired(one, now)
    ]


async def _sns_answer(request: web.Request, certificates: SenderCertificates) -> web.Response | None:
    body = await body_of(request)
    if body.one("Type") != _SNS_CONFIRMATION:
        return None
    confirmed = await certificates.confirm(body.one("SubscribeURL"))
    # Amazon sends it again where it was not answered with success.
    return web.Response(status=200 if confirmed else 502)


async def _is(challenge: Challenge, request: web.Request) -> bool:
    if request.method != challenge.method:
        return False
    for one in challenge.when:
        if not await _holds(one, request):
            return False
    return True


async def _holds(condition: Condition, request: web.Request) -> bool:
    return _is_met(condition, await _values(condition.place, request))


def _may_hold(condition: Condition, request: web.Request) -> bool:
    found = _values_outside(condition.place, request)
    return found is None or _is_met(condition, found)


def _is_met(condition: Condition, found: list[str]) -> bool:
    if len(found) != 1:
        return False
    return bool(found[0]) if condition.equals is None else found[0] == condition.equals


async def _values(place: Place, request: web.Request) -> list[str]:
    found = _values_outside(place, request)
    if found is not None:
        return found
    body = await body_of(request)
    return _fields(place, body) if len(body.content) <= _MAX_BODY else []


def _values_outside(place: Place, request: web.Request) -> list[str] | None:
    """The values in query and headers; None for a place in the body."""
    if place.kind == "query":
        return request.query.getall(place.name, [])
    return request.headers.getall(place.name, []) if place.kind == "header" else None


def _fields(place: Place, body: BodyFields) -> list[str]:
    if body.is_form != (place.kind == "form") or not body.content:
        return []
    try:
        found = body.values(place.name)
        # A form with other fields beside it is no ping.
        return [one for one in found if one] if not body.is_form or len(body.form) == 1 else []
    except FieldError:
        return []
