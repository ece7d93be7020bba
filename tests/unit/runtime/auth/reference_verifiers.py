"""What a receiver finds who has none of our libraries: OpenSSL's command line, and RFCs read anew."""

import base64
import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit

from tests.unit.runtime.external_systems import Seen


def hmac_of(message: bytes, *, key: bytes, algorithm: str) -> bytes:
    """An HMAC as OpenSSL makes it."""
    option = f"hexkey:{key.hex()}"
    return _openssl("dgst", f"-{algorithm}", "-mac", "HMAC", "-macopt", option, "-binary", stdin=message)


def signed_by(message: bytes, signature: bytes, *, public: str, algorithm: str) -> bool:
    """Whether OpenSSL finds that the owner of a public key (PEM) has signed this message."""
    with tempfile.TemporaryDirectory() as folder:
        key, proof = Path(folder, "key.pem"), Path(folder, "signature")
        key.write_text(public)
        proof.write_bytes(signature)
        said = _openssl(
            "dgst", f"-{algorithm}", "-verify", str(key), "-signature", str(proof), stdin=message, check=False
        )
    return b"Verified OK" in said


def token_parts(token: str) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """A JWT's header, claims, what is signed, and the signature (RFC 7519, RFC 7515 section 3.1)."""
    signed, _, proof = token.rpartition(".")
    header, claims = (json.loads(_unpadded(part)) for part in signed.split("."))
    return header, claims, signed.encode(), _unpadded(proof)


def der(signature: bytes) -> bytes:
    """The two numbers of an ECDSA signature (RFC 7518, section 3.4) as OpenSSL wants them."""
    half = len(signature) // 2
    numbers = b"".join(_integer(part) for part in (signature[:half], signature[half:]))
    return b"\x30" + _length(len(numbers)) + numbers


def oauth1_parameters(seen: Seen) -> list[tuple[str, str]]:
    """All that RFC 5849, section 3.4.1.3.1 collects from a request: query, header and form."""
    found = parse_qsl(seen.url.raw_query_string, keep_blank_values=True)
    scheme, _, rest = seen.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "oauth":
        pairs = (part.strip().partition("=") for part in rest.split(","))
        found += [(unquote(name), unquote(value.strip('"'))) for name, _, value in pairs if name != "realm"]
    if seen.headers.get("Content-Type", "").split(";")[0] == "application/x-www-form-urlencoded":
        found += parse_qsl(seen.body.decode(), keep_blank_values=True)
    return found


def oauth1_base_string(seen: Seen) -> bytes:
    """The signature base string of RFC 5849, section 3.4.1."""
    pairs = sorted(
        (_encoded(name), _encoded(value))
        for name, value in oauth1_parameters(seen)
        if name != "oauth_signature"
    )
    parts = urlsplit(str(seen.url))
    address = f"{parts.scheme.lower()}://{parts.netloc.lower()}{parts.path}"
    normalised = "&".join(f"{name}={value}" for name, value in pairs)
    return "&".join(_encoded(part) for part in (seen.method.upper(), address, normalised)).encode()


def oauth1_key(*secrets: str) -> bytes:
    """The key of HMAC and PLAINTEXT signatures: the consumer's secret and the token's."""
    return "&".join(_encoded(secret) for secret in secrets).encode()


def _openssl(*arguments: str, stdin: bytes, check: bool = True) -> bytes:
    done = subprocess.run(["openssl", *arguments], input=stdin, capture_output=True, timeout=30, check=check)
    return done.stdout


def _encoded(text: str) -> str:
    return quote(text, safe="~-._")


def _unpadded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _integer(number: bytes) -> bytes:
    trimmed = number.lstrip(b"\0") or b"\0"
    value = b"\0" + trimmed if trimmed[0] > 0x7F else trimmed
    return b"\x02" + _length(len(value)) + value


def _length(count: int) -> bytes:
    return bytes([count]) if count < 0x80 else bytes([0x81, count])


def values_of(parameters: Iterable[tuple[str, str]], name: str) -> list[str]:
    return [value for key, value in parameters if key == name]
