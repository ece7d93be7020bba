"""Signatures over the exact bytes of a request: made for outbound ones, compared for inbound ones."""

import base64
import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from email.utils import formatdate
from typing import Any

from tieline.auth.body_fields import BodyFields
from tieline.auth.credential_values import field, raw, text
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.auth.signed_parts import SignedParts, chunks
from tieline.auth.urls import without_parameter
from tieline.configuration.snapshot import Credential
from tieline_protocol.signature_fields import FieldError
from tieline_protocol.signatures import HASH_ALGORITHMS, InvalidSignatureSchemeError, SignatureScheme

_HASHES: Mapping[str, Callable[..., Any]] = {
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "sha384": hashlib.sha384,
    "sha512": hashlib.sha512,
}
_ENCODINGS: Mapping[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda digest: base64.b64encode(digest).decode(),
    "base64url": lambda digest: base64.urlsafe_b64encode(digest).decode().rstrip("="),
}


async def apply(request: PreparedRequest, credential: Credential) -> None:
    """Sign what earlier credentials have left, and send the signature where the scheme says.

    The headers with the time and the id of a request are set too, so that the other side can refuse replays. A scheme
    that only verifies (of a public key or a shared value, or with the signature in the body) leaves it as it is.
    """
    scheme = scheme_of(credential)
    if not scheme.can_sign:
        return
    if scheme.location == "query":
        request.url = without_parameter(request.url, scheme.name)
    timestamp = _written(time.time(), scheme.timestamp_unit) if scheme.has_timestamp else ""
    if scheme.timestamp_header:
        request.set_header(scheme.timestamp_header, timestamp)
    identifier = ""
    if scheme.id_header:
        identifier = request.headers.get(scheme.id_header) or f"msg_{uuid.uuid4().hex}"
        request.set_header(scheme.id_header, identifier)

    def header(name: str) -> bytes:
        value = request.headers.get(name)
        if value is None:
            raise InvalidCredentialError(f"its signature covers the header {name}, which the request lacks")
        return value.encode()

    body = BodyFields(
        await request.body() if _reads_body(scheme) else b"", request.headers.get("Content-Type", "")
    )
    if scheme.body_hash and scheme.body_hash[0] != "claim" and not (body.is_form and scheme.signs("form")):
        place, name = scheme.body_hash
        request.set_value(place, name, hashlib.sha256(body.content).hexdigest())
    parts = SignedParts(
        method=request.method,
        body=body,
        url=str(request.url),
        timestamp=timestamp.encode(),
        id=identifier.encode(),
        header=header,
    )
    try:
        signed = signature(credential, parts)
    except FieldError as error:
        raise InvalidCredentialError(f"the request cannot be signed: {error}") from None
    request.set_value(scheme.location, scheme.name, _carried(scheme, timestamp, signed))


def _carried(scheme: SignatureScheme, timestamp: str, signed: str) -> str:
    """What a signature is sent as."""
    separator = scheme.separator.strip()[:1] or " "
    if scheme.format == "fields":
        fields = {scheme.timestamp_field: timestamp} if scheme.timestamp_field else {}
        fields[scheme.signature_field] = signed
        return separator.join(f"{name}={text}" for name, text in fields.items())
    if scheme.format == "timedList":
        return f"{timestamp}{separator}{scheme.prefix}{signed}"
    return f"{scheme.prefix}{signed}"


def _written(seconds: float, unit: str) -> str:
    """A time as a request says it."""
    if unit == "milliseconds":
        return str(int(seconds * 1000))
    if unit == "iso8601":
        return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return formatdate(seconds, usegmt=True) if unit == "httpDate" else str(int(seconds))


def _reads_body(scheme: SignatureScheme) -> bool:
    return scheme.body_hash is not None or scheme.signs(
        "body", "form", "phpForm", "field", "jsonLines", "bodyHash"
    )


def scheme_of(credential: Credential) -> SignatureScheme:
    """How the credential signs; raises InvalidCredentialError."""
    try:
        return credential.signature_scheme
    except InvalidSignatureSchemeError as error:
        raise InvalidCredentialError(f"its auth scheme's hmac is incomplete or wrong: {error}") from None


def signature(credential: Credential, parts: SignedParts) -> str:
    """The encoded signature, without a prefix; raises InvalidCredentialError, and FieldError for a body."""
    scheme = scheme_of(credential)
    return encoded(
        scheme, digest_of(credential, scheme, chunks(scheme, parts, secret_of(credential, scheme)))
    )


def digest_of(credential: Credential, scheme: SignatureScheme, content: Iterable[bytes]) -> bytes:
    """The HMAC, or the hash, of some bytes; raises InvalidCredentialError."""
    if scheme.algorithm in HASH_ALGORITHMS:
        digest = _HASHES[scheme.algorithm.removeprefix("hash-")]()
    else:
        digest = hmac.new(signing_key(credential, scheme), digestmod=_HASHES[scheme.algorithm])
    for chunk in content:
        digest.update(chunk)
    return bytes(digest.digest())


def encoded(scheme: SignatureScheme, digest: bytes) -> str:
    """A digest as the scheme writes it."""
    return _ENCODINGS[scheme.encoding](digest)


def secret_of(credential: Credential, scheme: SignatureScheme) -> bytes:
    """The secret where it is an input itself; empty where it is the key alone. Raises InvalidCredentialError."""
    return signing_key(credential, scheme) if scheme.signs("secret") else b""


def shared_value(credential: Credential, scheme: SignatureScheme) -> str:
    """The value that shows the secret itself; raises InvalidCredentialError."""
    value = text(credential)
    if not value:
        raise InvalidCredentialError("its key is empty")
    if scheme.algorithm != "basic":
        return value
    if ":" not in value:
        raise InvalidCredentialError("its value is no user name and password with a colon between them")
    return f"Basic {base64.b64encode(value.encode()).decode()}"


def signing_key(credential: Credential, scheme: SignatureScheme) -> bytes:
    """The key's bytes. Those of a binary credential are the key itself. Raises InvalidCredentialError."""
    if "valueBase64" in credential.data:
        key = raw(credential)
    else:
        value = field(credential, "value").removeprefix(scheme.key_prefix)
        key = _KEYS[scheme.key_encoding](value)
    if not key:
        raise InvalidCredentialError("its key is empty")
    return key


def _from_base64(value: str) -> bytes:
    unpadded = value.strip().rstrip("=")
    try:
        return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except ValueError:  # no base64, or no ASCII
        raise InvalidCredentialError(
            "its key is not base64, which its auth scheme's keyEncoding says"
        ) from None


def _from_hex(value: str) -> bytes:
    try:
        return bytes.fromhex(value.strip())
    except ValueError:
        raise InvalidCredentialError("its key is not hex, which its auth scheme's keyEncoding says") from None


_KEYS: Mapping[str, Callable[[str], bytes]] = {
    "text": str.encode,
    "base64": _from_base64,
    "hex": _from_hex,
    # The hash of an empty value would pass as a key.
    "sha1": lambda value: hashlib.sha1(value.encode()).digest() if value else b"",  # noqa: S324  (the sender's way)
}
