"""HMAC signatures over the exact bytes of a request: made for outbound ones, compared for inbound ones."""

import base64
import hashlib
import hmac
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tieline.auth.credential_values import field, raw
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.auth.urls import without_parameter
from tieline.configuration.snapshot import Credential
from tieline_protocol.signatures import InvalidSignatureSchemeError, SignatureScheme

_HASHES: Mapping[str, Callable[..., Any]] = {
    "sha1": hashlib.sha1,
    "sha256": hashlib.sha256,
    "sha512": hashlib.sha512,
}
_ENCODINGS: Mapping[str, Callable[[bytes], str]] = {
    "hex": bytes.hex,
    "base64": lambda digest: base64.b64encode(digest).decode(),
    "base64url": lambda digest: base64.urlsafe_b64encode(digest).decode().rstrip("="),
}


@dataclass(frozen=True, kw_only=True)
class SignedParts:
    """What of a request can be signed; what the scheme does not sign is empty."""

    body: bytes = b""
    url: str = ""
    timestamp: bytes = b""
    id: bytes = b""
    header: Callable[[str], bytes] = lambda _name: b""
    """The value of a header."""


async def apply(request: PreparedRequest, credential: Credential) -> None:
    """Sign what earlier credentials have left, and send the signature where the scheme says.

    The headers with the time and the id of a request are set too, so that the other side can refuse replays.
    """
    scheme = scheme_of(credential)
    if scheme.location == "query":
        request.url = without_parameter(request.url, scheme.name)
    body = await request.body() if scheme.signs("body") else b""
    timestamp = str(int(time.time())) if scheme.has_timestamp else ""
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

    parts = SignedParts(
        body=body,
        url=str(request.url),
        timestamp=timestamp.encode(),
        id=identifier.encode(),
        header=header,
    )
    signed = signature(credential, parts)
    if scheme.format == "fields":
        fields = {scheme.timestamp_field: timestamp} if scheme.timestamp_field else {}
        value = ",".join(
            f"{name}={text}" for name, text in {**fields, scheme.signature_field: signed}.items()
        )
    else:
        value = f"{scheme.prefix}{signed}"
    request.set_value(scheme.location, scheme.name, value)


def scheme_of(credential: Credential) -> SignatureScheme:
    """How the credential signs; raises InvalidCredentialError."""
    try:
        return credential.signature_scheme
    except InvalidSignatureSchemeError as error:
        raise InvalidCredentialError(f"its auth scheme's hmac is incomplete or wrong: {error}") from None


def signature(credential: Credential, parts: SignedParts) -> str:
    """The encoded signature, without a prefix; raises InvalidCredentialError."""
    scheme = scheme_of(credential)
    digest = hmac.new(_key(credential, scheme), digestmod=_HASHES[scheme.algorithm])
    for one in scheme.inputs:
        match one.kind:
            case "body":
                digest.update(parts.body)
            case "url":
                digest.update(parts.url.encode())
            case "timestamp":
                digest.update(parts.timestamp)
            case "id":
                digest.update(parts.id)
            case "header":
                digest.update(parts.header(one.argument))
            case "literal":
                digest.update(one.argument.encode())
    return _ENCODINGS[scheme.encoding](digest.digest())


def _key(credential: Credential, scheme: SignatureScheme) -> bytes:
    """The key's bytes. Those of a binary credential are the key itself."""
    if "valueBase64" in credential.data:
        key = raw(credential)
    else:
        text = field(credential, "value").removeprefix(scheme.key_prefix)
        key = text.encode() if scheme.key_encoding == "text" else _decoded(text)
    if not key:
        raise InvalidCredentialError("its key is empty")
    return key


def _decoded(text: str) -> bytes:
    unpadded = text.strip().rstrip("=")
    try:
        return base64.b64decode(unpadded + "=" * (-len(unpadded) % 4), validate=True)
    except ValueError:  # no base64, or no ASCII
        raise InvalidCredentialError(
            "its key is not base64, which its auth scheme's keyEncoding says"
        ) from None
