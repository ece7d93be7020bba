"""Signatures of inbound requests: which of those in a request are compared, and how old a request may be."""

import hashlib
import hmac
import time
from dataclasses import dataclass

from aiohttp import web
from yarl import URL

from tieline.auth.hmac_signatures import SignedParts, scheme_of, signature
from tieline.auth.urls import without_parameter
from tieline.configuration.snapshot import Credential
from tieline.server.request_bodies import put_back
from tieline_protocol.signatures import MAX_SIGNATURES, SignatureScheme


class SignatureError(Exception):
    """The request is not signed as it should be. The message names no secret and no signature: callers see it."""


@dataclass(frozen=True)
class Sender:
    """Who signed a request, as far as the signature tells."""

    preset: str = ""
    delivery_id: str | None = None
    """Tells a repeated request: the sender's id, or else a hash of the signature where that covers a time."""
    remember_seconds: float = 0.0
    """How long a request with the same time is accepted, and so how long its id has to be remembered."""


@dataclass(frozen=True)
class _Presented:
    """What a request carries of its signature."""

    signatures: list[str]
    timestamp: str = ""


async def verify_signature(credential: Credential, request: web.Request, *, public_url: str) -> Sender:
    """Raises SignatureError, and InvalidCredentialError for a credential that cannot verify anything."""
    scheme = scheme_of(credential)
    presented = _presented(scheme, request)
    timestamp = presented.timestamp
    if scheme.timestamp_header:
        timestamp = _header(request, scheme.timestamp_header)
    if scheme.has_timestamp:
        _check_time(timestamp, scheme.tolerance_seconds)
    identifier = _header(request, scheme.id_header) if scheme.signs("id") else ""
    body = b""
    if scheme.signs("body"):
        body = await request.read()
        put_back(request, body)  # the code can still read it in any way, also part by part
    urls = _urls(scheme, request, public_url) if scheme.signs("url") else [""]
    given = [_normal(scheme, one) for one in presented.signatures]
    found = ""
    # All are compared, so that the time taken does not tell which one was nearer.
    for url in urls:
        parts = SignedParts(
            body=body,
            url=url,
            timestamp=_bytes(timestamp),
            id=_bytes(identifier),
            header=lambda name: _bytes(_header(request, name)),
        )
        expected = _normal(scheme, signature(credential, parts))
        for one in given:
            if hmac.compare_digest(_bytes(one), expected.encode()):
                found = expected
    if not found:
        raise SignatureError(
            "no signature matches: it was made with another secret, or over something else than this request"
        )
    return _sender(scheme, request, identifier, found)


def _sender(scheme: SignatureScheme, request: web.Request, identifier: str, found: str) -> Sender:
    if not identifier and scheme.id_header and len(request.headers.getall(scheme.id_header, ())) == 1:
        identifier = request.headers[scheme.id_header]
    if not identifier and scheme.signs("timestamp"):
        # Senders sign each request anew, so an equal signature is that of a repeated request.
        identifier = f"sha256:{hashlib.sha256(found.encode()).hexdigest()}"
    # A time may be as far ahead as behind.
    return Sender(scheme.preset, identifier or None, 2.0 * scheme.tolerance_seconds)


def _presented(scheme: SignatureScheme, request: web.Request) -> _Presented:
    value = _carried(scheme, request)
    place = f"the {scheme.location} {scheme.name}"
    if scheme.format == "plain":
        if not value.startswith(scheme.prefix):
            raise SignatureError(f'{place} does not begin with "{scheme.prefix}"')
        return _Presented([value[len(scheme.prefix) :]])
    if scheme.format == "list":
        signatures = [
            one[len(scheme.prefix) :] for one in value.split(" ") if one.startswith(scheme.prefix) and one
        ]
        if not signatures:
            raise SignatureError(f'{place} holds no signature that begins with "{scheme.prefix}"')
        return _Presented(signatures[:MAX_SIGNATURES])
    pairs = [part.strip().partition("=") for part in value.split(",")]
    signatures = [text for name, _, text in pairs if name == scheme.signature_field and text]
    times = [text for name, _, text in pairs if name and name == scheme.timestamp_field]
    if not signatures:
        raise SignatureError(f"{place} holds no field {scheme.signature_field}=")
    if scheme.timestamp_field and len(times) != 1:
        raise SignatureError(f"{place} must hold the field {scheme.timestamp_field}= once")
    return _Presented(signatures[:MAX_SIGNATURES], times[0] if times else "")


def _carried(scheme: SignatureScheme, request: web.Request) -> str:
    match scheme.location:
        case "header":
            return _header(request, scheme.name)
        case "query":
            place, found = "query parameter", request.query.getall(scheme.name, [])
        case _:
            place, found = "cookie", _cookies(request, scheme.name)
    if not found or not found[0]:
        raise SignatureError(f"it has no {place} {scheme.name}")
    if len(found) > 1:
        # Others on the way may have read another one.
        raise SignatureError(f"it has several {place}s {scheme.name}")
    return found[0]


def _cookies(request: web.Request, name: str) -> list[str]:
    """The values of all cookies of this name. (aiohttp keeps the last one, of the first header alone.)"""
    pairs = (
        pair.partition("=") for header in request.headers.getall("Cookie", []) for pair in header.split(";")
    )
    sent = [value.strip() for one, _, value in pairs if one.strip() == name]
    return sent if len(sent) != 1 else [request.cookies.get(name, "")]


def _header(request: web.Request, name: str) -> str:
    values = request.headers.getall(name, [])
    if not values or not values[0]:
        raise SignatureError(f"it has no header {name}")
    if len(values) > 1:
        # Others on the way may have read another one.
        raise SignatureError(f"it has several headers {name}")
    return values[0]


def _check_time(text: str, tolerance: int) -> None:
    try:
        age = time.time() - float(text)
    except ValueError:
        raise SignatureError("its timestamp is no number of seconds since 1970") from None
    if abs(age) <= tolerance:
        return
    where = f"{age:.0f} seconds old" if age > 0 else f"{-age:.0f} seconds ahead"
    raise SignatureError(f"its timestamp is {where}; at most {tolerance} are accepted")


def _urls(scheme: SignatureScheme, request: web.Request, public_url: str) -> list[str]:
    """How the caller may have written the URL that it signed: by the public URL, or as it got here."""
    bases = [public_url.rstrip("/"), f"{request.scheme}://{request.host}"]
    urls = [URL(base + request.raw_path, encoded=True) for base in dict.fromkeys(bases) if base]
    if scheme.location == "query":
        urls = [without_parameter(url, scheme.name) for url in urls]
    return [str(url) for url in urls]


def _normal(scheme: SignatureScheme, value: str) -> str:
    """Hex in lower case, base64 without padding: senders differ in these."""
    return value.lower() if scheme.encoding == "hex" else value.rstrip("=")


def _bytes(text: str) -> bytes:
    """A header's own bytes."""
    return text.encode("utf-8", "surrogateescape")
