"""HMAC signatures over the exact bytes of a request: made for outbound ones, compared for inbound ones."""

import base64
import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from typing import Any

from tieline.auth.credential_values import raw
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.auth.urls import without_parameter
from tieline.configuration.snapshot import Credential

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


async def apply(request: PreparedRequest, credential: Credential) -> None:
    """Sign what earlier credentials have left, and send the signature where the scheme says.

    A scheme with a timestampHeader gets that header too, so that the other side can refuse replays.
    """
    options = credential.options
    location, name = options.get("in"), str(options.get("name") or "")
    if location == "query" and name:
        request.url = without_parameter(request.url, name)
    body = await request.body() if "body" in inputs(options) else b""
    if header := str(options.get("timestampHeader") or ""):
        request.set_header(header, str(int(time.time())))
    request.set_value(location, name, signature(credential, body=body, url=str(request.url)))


def signature(credential: Credential, *, body: bytes, url: str) -> str:
    """The signature as it is sent, prefix included; raises InvalidCredentialError."""
    options = credential.options
    chosen = _HASHES.get(str(options.get("algorithm")))
    encode = _ENCODINGS.get(str(options.get("encoding") or "hex"))
    if chosen is None or encode is None:
        raise InvalidCredentialError(
            f"its auth scheme's hmac.algorithm must be one of {', '.join(_HASHES)} and hmac.encoding one of "
            f"{', '.join(_ENCODINGS)}"
        )
    digest = hmac.new(raw(credential), digestmod=chosen)
    for part in inputs(options):
        digest.update(body if part == "body" else url.encode())
    return f"{options.get('prefix') or ''}{encode(digest.digest())}"


def inputs(options: Mapping[str, Any]) -> list[str]:
    """What is signed, in order; raises InvalidCredentialError for what is neither body nor url."""
    found = options.get("digestInputs") or []
    if not found or not set(found) <= {"body", "url"}:
        raise InvalidCredentialError("its auth scheme's hmac.digestInputs must hold body, url or both")
    return list(found)
