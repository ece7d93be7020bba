"""Signatures of inbound requests: which of those in a request are compared, and how old a request may be."""

import base64
import hashlib
import hmac
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

from aiohttp import web
from yarl import URL

from tieline.auth.body_fields import BodyFields
from tieline.auth.credential_values import text
from tieline.auth.hmac_signatures import digest_of, encoded, scheme_of, secret_of, shared_value
from tieline.auth.prepared_request import InvalidCredentialError
from tieline.auth.signed_parts import SignedParts, body_hashes, chunks
from tieline.auth.urls import without_parameter
from tieline.configuration.snapshot import Credential
from tieline.server.request_bodies import put_back
from tieline.server.sender_certificates import CertificateError, SenderCertificates
from tieline_protocol.signature_fields import EACH, FieldError, steps, text_bytes
from tieline_protocol.signatures import (
    JWT_ALGORITHMS,
    KEY_ALGORITHMS,
    MAX_SIGNATURES,
    VALUE_ALGORITHMS,
    InputKind,
    SignatureScheme,
)

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

_OF_THE_BODY: tuple[InputKind, ...] = ("body", "form", "phpForm", "field", "jsonLines", "bodyHash")
_BODY = web.RequestKey("body", BodyFields)
_UNITS = {"seconds": 1.0, "milliseconds": 1000.0}
_SNS_ALGORITHMS = {"1": "rsa-sha1", "2": "rsa-sha256"}
_SNS_TYPES = frozenset(("Notification", "SubscriptionConfirmation", "UnsubscribeConfirmation"))


class SignatureError(Exception):
    """The request is not signed as it should be. The message names no secret and no signature: callers see it."""


@dataclass(frozen=True)
class Sender:
    """Who signed a request, as far as the signature tells."""

    preset: str = ""
    delivery_id: str | None = None
    """Identifies a repeated request: the sender's id, or else a hash of what is signed where that covers a time."""
    remember_seconds: float = 0.0
    """How long a request with the same time is accepted, and so how long its id has to be remembered."""
    scheme: SignatureScheme | None = None
    """How the request is signed; None for one without a signature."""
    credential: Credential | None = field(default=None, repr=False)
    """What the signature was verified with."""
    handshake: web.Response | None = None
    """The answer to a challenge that needs no signature."""


@dataclass(frozen=True)
class _Presented:
    """What a request carries of its signature."""

    signatures: list[str]
    timestamp: str = ""


@dataclass(frozen=True, kw_only=True)
class _Inbound:
    """A request, its body, and the URLs that its sender may have requested."""

    request: web.Request
    body: BodyFields
    urls: Sequence[str]


async def verify_signature(
    credential: Credential,
    request: web.Request,
    *,
    public_url: str,
    certificates: SenderCertificates | None = None,
) -> Sender:
    """Raises SignatureError, and InvalidCredentialError for a credential that cannot verify anything."""
    scheme = scheme_of(credential)
    inbound = _Inbound(
        request=request,
        body=await body_of(request) if _reads_body(scheme) else BodyFields(b""),
        urls=_urls(scheme, request, public_url),
    )
    try:
        return await _verified(credential, scheme, inbound, certificates)
    except FieldError as error:
        raise SignatureError(str(error)) from None


async def _verified(
    credential: Credential,
    scheme: SignatureScheme,
    inbound: _Inbound,
    certificates: SenderCertificates | None,
) -> Sender:
    presented = _presented(scheme, inbound)
    timestamp = _timestamp(scheme, presented, inbound)
    if scheme.has_timestamp:
        _check_time(timestamp, scheme)
    identifier = _identifier(scheme, inbound)
    _check_body_hash(scheme, inbound)
    _check_listed_timestamp(scheme, inbound.request)
    parts = [
        SignedParts(
            method=inbound.request.method,
            url=url,
            body=inbound.body,
            timestamp=text_bytes(timestamp),
            id=text_bytes(identifier),
            header=lambda name: text_bytes(_header(inbound.request, name)),
        )
        for url in inbound.urls
    ]
    if scheme.algorithm in VALUE_ALGORITHMS:
        found = _shown(credential, scheme, presented.signatures)
    elif scheme.algorithm in JWT_ALGORITHMS:
        found = _token_shown(credential, scheme, presented.signatures[0], inbound)
    elif scheme.algorithm in KEY_ALGORITHMS:
        found = await _signed_by_key(credential, scheme, presented, parts, inbound, certificates)
    else:
        found = _signed(credential, scheme, presented.signatures, parts)
    return _sender(credential, scheme, identifier, found)


def _signed(
    credential: Credential, scheme: SignatureScheme, given: Sequence[str], candidates: Sequence[SignedParts]
) -> str:
    """The signature that matches. Raises SignatureError."""
    found = ""
    secret = secret_of(credential, scheme)
    # Compare all, so that the time taken does not reveal a near match.
    for parts in candidates:
        digest = digest_of(credential, scheme, chunks(scheme, parts, secret))
        expected = _normal(scheme, encoded(scheme, digest))
        for one in given:
            if hmac.compare_digest(text_bytes(_normal(scheme, one)), expected.encode()):
                found = expected
    if not found:
        raise _mismatch()
    return found


async def _signed_by_key(
    credential: Credential,
    scheme: SignatureScheme,
    presented: _Presented,
    candidates: Sequence[SignedParts],
    inbound: _Inbound,
    certificates: SenderCertificates | None,
) -> str:
    """The hash of what is signed: another signature of the same can be made without the key. Raises SignatureError."""
    # Pods load no more than they need.
    from tieline.auth.public_keys import public_key, verifies  # noqa: PLC0415

    algorithm, secret = scheme.algorithm, b""
    key: PublicKeyTypes
    if scheme.certificates:
        secret = _shared_text(credential).encode()
        algorithm = _certified_algorithm(scheme, credential, inbound)
        key = await _certified(scheme, inbound, certificates)
    else:
        key = public_key(_shared_text(credential).removeprefix(scheme.key_prefix), scheme.key_encoding)
    for parts in candidates:
        content = b"".join(chunks(scheme, parts, secret))
        for one in presented.signatures:
            if verifies(key, algorithm, _decoded(scheme, one), content):
                return hashlib.sha256(content).hexdigest()
    raise _mismatch()


def _certified_algorithm(scheme: SignatureScheme, credential: Credential, inbound: _Inbound) -> str:
    """The algorithm of a sender that names its certificates. Raises SignatureError."""
    if scheme.certificates != "sns":
        return scheme.algorithm
    # All customers of Amazon have messages signed with the same certificates: the topic says whose one is.
    topic = inbound.body.one("TopicArn")
    if not hmac.compare_digest(text_bytes(topic), _shared_text(credential).encode()):
        raise SignatureError("its TopicArn is not the one in the credential")
    if inbound.body.one("Type") not in _SNS_TYPES:
        raise SignatureError("its Type is none of Amazon SNS")
    algorithm = _SNS_ALGORITHMS.get(inbound.body.one("SignatureVersion"))
    if algorithm is None:
        raise SignatureError("its SignatureVersion is neither 1 nor 2")
    return algorithm


async def _certified(
    scheme: SignatureScheme, inbound: _Inbound, certificates: SenderCertificates | None
) -> "PublicKeyTypes":
    """The key of the certificate that a request names. Raises SignatureError."""
    if certificates is None:
        raise InvalidCredentialError("certificates of senders cannot be fetched here")
    if scheme.certificates == "sns":
        url = inbound.body.one("SigningCertURL")
    else:
        url = _header(inbound.request, "Paypal-Cert-Url")
    try:
        return await certificates.key(scheme.certificates, url)
    except CertificateError as error:
        raise SignatureError(str(error)) from None


def _shown(credential: Credential, scheme: SignatureScheme, given: Sequence[str]) -> str:
    """An empty text if each value is the secret. Raises SignatureError otherwise."""
    expected = shared_value(credential, scheme)
    if scheme.algorithm == "basic":
        given = [_canonical_basic(one) for one in given]
    if not all(hmac.compare_digest(text_bytes(one), expected.encode()) for one in given):
        raise SignatureError(f"{_place(scheme)} holds another secret")
    return ""


def _canonical_basic(value: str) -> str:
    """``basic`` is the same word in any case (RFC 7617)."""
    word, _, rest = value.partition(" ")
    return f"Basic {rest.strip()}" if word.lower() == "basic" else value


def _token_shown(credential: Credential, scheme: SignatureScheme, token: str, inbound: _Inbound) -> str:
    """The hash of what of a JWT is signed. Raises SignatureError."""
    # Pods load no more than they need.
    from tieline.auth.jwt_proofs import JwtProofError, check_jwt  # noqa: PLC0415

    try:
        check_jwt(
            credential,
            scheme,
            token,
            body=inbound.body.content,
            method=inbound.request.method,
            urls=_paths(inbound),
        )
    except JwtProofError as error:
        raise SignatureError(str(error)) from None
    return hashlib.sha256(text_bytes(token.rpartition(".")[0])).hexdigest()


def _sender(credential: Credential, scheme: SignatureScheme, identifier: str, found: str) -> Sender:
    if not identifier and found and (scheme.covers_time or scheme.algorithm in JWT_ALGORITHMS):
        # Senders sign each request anew, so an equal signature is that of a repeated request.
        identifier = f"sha256:{hashlib.sha256(found.encode()).hexdigest()}"
    # A time may be as far ahead as behind.
    return Sender(scheme.preset, identifier or None, 2.0 * scheme.tolerance_seconds, scheme, credential)


async def body_of(request: web.Request) -> BodyFields:
    """The body, read once; the code can still read it in any way, also part by part."""
    known = request.get(_BODY)
    if isinstance(known, BodyFields):
        return known
    content = await request.read()
    put_back(request, content)
    request[_BODY] = found = BodyFields(content, request.headers.get("Content-Type", ""))
    return found


def _reads_body(scheme: SignatureScheme) -> bool:
    in_body = scheme.location == "body" or scheme.timestamp_path or scheme.id_path or scheme.body_hash
    return bool(in_body) or scheme.signs(*_OF_THE_BODY)


def _presented(scheme: SignatureScheme, inbound: _Inbound) -> _Presented:
    values = _carried(scheme, inbound)
    if scheme.format == "plain":
        if not all(value.startswith(scheme.prefix) for value in values):
            raise SignatureError(f'{_place(scheme)} does not begin with "{scheme.prefix}"')
        return _Presented([value[len(scheme.prefix) :] for value in values])
    # Each of its characters separates; spaces beside them count for nothing.
    items = [one.strip() for one in re.split(f"[{re.escape(scheme.separator)}]", values[0])]
    if scheme.format == "fields":
        return _fields(scheme, items)
    timestamp = items.pop(0) if scheme.format == "timedList" else ""
    signatures = [one[len(scheme.prefix) :] for one in items if one and one.startswith(scheme.prefix)]
    if not signatures:
        raise SignatureError(f'{_place(scheme)} holds no signature that begins with "{scheme.prefix}"')
    return _Presented(signatures[:MAX_SIGNATURES], timestamp)


def _fields(scheme: SignatureScheme, items: Sequence[str]) -> _Presented:
    pairs = [part.partition("=") for part in items]
    signatures = [value for name, _, value in pairs if name == scheme.signature_field and value]
    times = [value for name, _, value in pairs if name and name == scheme.timestamp_field]
    if not signatures:
        raise SignatureError(f"{_place(scheme)} holds no field {scheme.signature_field}=")
    if scheme.timestamp_field and len(times) != 1:
        raise SignatureError(f"{_place(scheme)} must hold the field {scheme.timestamp_field}= once")
    return _Presented(signatures[:MAX_SIGNATURES], times[0] if times else "")


def _carried(scheme: SignatureScheme, inbound: _Inbound) -> list[str]:
    """What holds the signature: several values of several headers, or of a list's items that all show a token."""
    if scheme.location == "body":
        found = inbound.body.values(scheme.name)
        if not found or not all(found):
            raise SignatureError(f"its body has no field {scheme.name}")
        shows_all = scheme.algorithm == "token" and EACH in steps(scheme.name)
        if len(found) > 1 and not shows_all:
            raise SignatureError(f"its body has the field {scheme.name} {len(found)} times")
        return found
    others = [name for name in scheme.names[1:] if inbound.request.headers.get(name)]
    names = [name for name in scheme.names[:1] if not others or inbound.request.headers.get(name)] + others
    try:
        return [single_value(inbound.request, scheme.location, name) for name in names]
    except SingleValueError as error:
        raise SignatureError(str(error)) from None


def _place(scheme: SignatureScheme) -> str:
    return f"the {'field' if scheme.location == 'body' else scheme.location} {scheme.name}"


class SingleValueError(Exception):
    """A request has no value of a name, or several; the message says which."""


def single_value(request: web.Request, place: str, name: str) -> str:
    """The value in a header, query parameter or cookie. SingleValueError where there is none, or more than one.

    Others on the way may have read another one of several.
    """
    match place:
        case "header":
            words, found = "header", request.headers.getall(name, [])
        case "query":
            words, found = "query parameter", request.query.getall(name, [])
        case _:
            words, found = "cookie", _cookies(request, name)
    if not found or not found[0]:
        raise SingleValueError(f"it has no {words} {name}")
    if len(found) > 1:
        raise SingleValueError(f"it has several {words}s {name}")
    return found[0]


def _cookies(request: web.Request, name: str) -> list[str]:
    """The values of all cookies of this name. (aiohttp keeps the last one, of the first header alone.)"""
    pairs = (
        pair.partition("=") for header in request.headers.getall("Cookie", []) for pair in header.split(";")
    )
    sent = [value.strip() for one, _, value in pairs if one.strip() == name]
    return sent if len(sent) != 1 else [request.cookies.get(name, "")]


def _header(request: web.Request, name: str) -> str:
    try:
        return single_value(request, "header", name)
    except SingleValueError as error:
        raise SignatureError(str(error)) from None


def _timestamp(scheme: SignatureScheme, presented: _Presented, inbound: _Inbound) -> str:
    if scheme.timestamp_header:
        return _header(inbound.request, scheme.timestamp_header)
    if scheme.timestamp_path:
        found = inbound.body.one(scheme.timestamp_path)
        if not found:
            raise SignatureError(f"its body has no field {scheme.timestamp_path}")
        return found
    return presented.timestamp


def _identifier(scheme: SignatureScheme, inbound: _Inbound) -> str:
    """The sender's id of the request, which has to be there once where it is signed."""
    if scheme.id_path:
        return inbound.body.one(scheme.id_path)
    if scheme.signs("id"):
        return _header(inbound.request, scheme.id_header)
    if scheme.id_header and len(inbound.request.headers.getall(scheme.id_header, ())) == 1:
        return inbound.request.headers[scheme.id_header]
    return ""


def _check_time(given: str, scheme: SignatureScheme) -> None:
    age = time.time() - _seconds(given, scheme.timestamp_unit)
    if abs(age) <= scheme.tolerance_seconds:
        return
    where = f"{age:.0f} seconds old" if age > 0 else f"{-age:.0f} seconds ahead"
    raise SignatureError(f"its timestamp is {where}; at most {scheme.tolerance_seconds} are accepted")


def _seconds(given: str, unit: str) -> float:
    """A time since 1970. Raises SignatureError."""
    try:
        if unit == "iso8601":
            moment = datetime.fromisoformat(given)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        if unit == "httpDate":
            return parsedate_to_datetime(given).timestamp()
        found = float(given) / _UNITS[unit]
        # No number at all is no time: it would be neither too old nor too far ahead.
        return math.inf if math.isnan(found) else found
    except (ValueError, TypeError, OverflowError):
        words = f"number of {unit} since 1970" if unit in _UNITS else f"time in the form {unit}"
        raise SignatureError(f"its timestamp is no {words}") from None


def _check_body_hash(scheme: SignatureScheme, inbound: _Inbound) -> None:
    """A body that the signature does not cover itself, by the hash that it does."""
    if scheme.body_hash is None or scheme.body_hash[0] == "claim":
        return
    covered = scheme.signs("form") and inbound.body.is_form
    if covered or not inbound.body.content:
        return
    place, name = scheme.body_hash
    try:
        given = single_value(inbound.request, place, name)
    except SingleValueError as error:
        raise SignatureError(str(error)) from None
    in_hex, in_base64 = body_hashes(inbound.body.content)
    if not (
        hmac.compare_digest(text_bytes(given.lower()), in_hex.encode())
        or hmac.compare_digest(text_bytes(given), in_base64.encode())
    ):
        raise SignatureError(f"the {place} {name} is the hash of another body")


def _check_listed_timestamp(scheme: SignatureScheme, request: web.Request) -> None:
    """Where the request itself says which headers are signed, its time has to be one of them."""
    listed = next((one.argument for one in scheme.inputs if one.kind == "signedHeaders"), "")
    if listed and scheme.timestamp_header:
        names = {one.strip().lower() for one in _header(request, listed).split(",")}
        if scheme.timestamp_header.lower() not in names:
            raise SignatureError(f"its header {listed} does not list {scheme.timestamp_header}")


def _urls(scheme: SignatureScheme, request: web.Request, public_url: str) -> list[str]:
    """How the caller may have written the URL that it signed: by the public URL, or as it got here."""
    if not scheme.signs("url", "decodedUrl", "path") and not scheme.query_hash_claim:
        return [""]
    bases = [public_url.rstrip("/"), f"{request.scheme}://{request.host}"]
    urls = [URL(base + request.raw_path, encoded=True) for base in dict.fromkeys(bases) if base]
    if scheme.location == "query":
        urls = [without_parameter(url, scheme.name) for url in urls]
    return list(dict.fromkeys(str(url) for url in urls))


def _paths(inbound: _Inbound) -> list[str]:
    """Path and query as the sender asked for them, with the public URL's path and without."""
    full = (URL(url, encoded=True).raw_path_qs for url in inbound.urls if url)
    return list(dict.fromkeys((inbound.request.raw_path, *full)))


def _shared_text(credential: Credential) -> str:
    value = text(credential).strip()
    if not value:
        raise InvalidCredentialError("its key is empty")
    return value


def _decoded(scheme: SignatureScheme, value: str) -> bytes:
    """A signature's bytes; none for what is no signature, or not written as its bytes are."""
    try:
        if scheme.encoding == "hex":
            return bytes.fromhex(value)
        unpadded = value.rstrip("=")
        altchars = b"-_" if scheme.encoding == "base64url" else None
        found = base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), altchars, validate=True)
    except ValueError:
        return b""
    return found if encoded(scheme, found).rstrip("=") == unpadded else b""


def _mismatch() -> SignatureError:
    return SignatureError(
        "no signature matches: it was made with another secret, or over something else than this request"
    )


def _normal(scheme: SignatureScheme, value: str) -> str:
    """Hex in lower case, base64 without padding: senders differ in these."""
    return value.lower() if scheme.encoding == "hex" else value.rstrip("=")
