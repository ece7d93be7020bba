"""What of a request is signed: the inputs that an auth scheme names, in its order, as bytes."""

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tieline.auth.body_fields import BodyFields
from tieline_protocol.signature_fields import FieldError, scalar_text, text_bytes
from tieline_protocol.signatures import DigestInput, SignatureScheme

MAX_SIGNED_HEADERS = 32
# HubSpot's list of what is decoded in the URL that it signs.
_DECODED = re.compile("%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class SignedParts:
    """What of a request can be signed; what the scheme does not sign is empty."""

    method: str = ""
    url: str = ""
    body: BodyFields = field(default_factory=lambda: BodyFields(b""))
    timestamp: bytes = b""
    id: bytes = b""
    header: Callable[[str], bytes] = lambda _name: b""
    """The value of a header."""


def chunks(scheme: SignatureScheme, parts: SignedParts, secret: bytes) -> Iterator[bytes]:
    """The signed bytes. Raises FieldError for a body that lacks what is signed."""
    for one in scheme.inputs:
        yield from _chunks(one, parts, secret)


def _chunks(  # noqa: PLR0912  (one case an input)
    one: DigestInput, parts: SignedParts, secret: bytes
) -> Iterator[bytes]:
    match one.kind:
        case "body":
            yield parts.body.content
        case "url":
            yield parts.url.encode()
        case "decodedUrl":
            yield _DECODED.sub(lambda found: chr(int(found[1], 16)), parts.url).encode()
        case "method":
            yield parts.method.encode()
        case "path":
            yield _path(parts.url).encode()
        case "timestamp":
            yield parts.timestamp
        case "id":
            yield parts.id
        case "secret":
            yield secret
        case "literal":
            yield one.argument.encode()
        case "header":
            yield parts.header(one.argument)
        case "signedHeaders":
            yield _signed_headers(one.argument, parts)
        case "field":
            yield text_bytes(parts.body.one(one.argument))
        case "form":
            yield from _sorted_form(parts.body)
        case "phpForm":
            yield from _php_form(parts.body, leave_out=one.argument)
        case "jsonLines":
            yield from _json_lines(parts.body, one.argument.split(","))
        case "bodyHash":
            yield _body_hash(parts.body.content, one.argument).encode()


def body_hashes(content: bytes) -> tuple[str, str]:
    """The SHA-256 of a body in hex and in base64."""
    digest = hashlib.sha256(content).digest()
    return digest.hex(), base64.b64encode(digest).decode()


def _path(url: str) -> str:
    """Path and query of a URL, as they were sent."""
    rest = url.partition("://")[2]
    return rest[rest.index("/") :] if "/" in rest else "/"


def _signed_headers(name: str, parts: SignedParts) -> bytes:
    """The headers that a header lists: ``name:value``, with semicolons between them."""
    names = [one.strip().lower() for one in parts.header(name).decode("utf-8", "replace").split(",")]
    if len(names) > MAX_SIGNED_HEADERS:
        raise FieldError(f"its header {name} lists more than {MAX_SIGNED_HEADERS} headers")
    return b";".join(one.encode() + b":" + parts.header(one).strip() for one in names if one)


def _sorted_form(body: BodyFields) -> Iterator[bytes]:
    """Names and values without anything between them, by name; each value of a name once."""
    for name, value in sorted(set(body.form)):
        yield f"{name}{value}".encode()


def _php_form(body: BodyFields, *, leave_out: str) -> Iterator[bytes]:
    """The fields as PHP serialises an array of texts, by name."""
    fields = {name: value for name, value in body.form if name != leave_out}
    if len(fields) + sum(name == leave_out for name, _ in body.form) != len(body.form):
        raise FieldError("its form has a field twice")
    yield f"a:{len(fields)}:{{".encode()
    for text in (text for pair in sorted(fields.items()) for text in pair):
        yield f's:{len(text.encode())}:"{text}";'.encode()
    yield b"}"


def _json_lines(body: BodyFields, names: list[str]) -> Iterator[bytes]:
    """Name and value of those fields that are there, each on a line."""
    content = body.json
    if not isinstance(content, dict):
        raise FieldError("its body is not a JSON object")
    for name in names:
        if name in content:
            if isinstance(content[name], dict | list):
                raise FieldError(f"its field {name} is not one value")
            yield text_bytes(f"{name}\n{scalar_text(content[name])}\n")


def _body_hash(content: bytes, argument: str) -> str:
    name, _, encoding = argument.partition(":")
    if name == "crc32":
        return str(zlib.crc32(content))
    digest = hashlib.new(name, content).digest()
    return base64.b64encode(digest).decode() if encoding else digest.hex()
