"""Webhooks as a provider sends them, signed as an ``hmac`` object of an auth scheme describes.

The code is the emulator's own: it signs by the provider's description, and the runtime verifies.
"""

import base64
import hashlib
import hmac
import json
import re
import time
import uuid
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from yarl import URL

from tieline.emulator.templates import get, put

Options = Mapping[str, Any]
_HMACS = ("sha1", "sha256", "sha384", "sha512")
_HASHES = ("hash-sha1", "hash-sha256", "hash-sha512")
_FORM = "application/x-www-form-urlencoded"
_DECODED = re.compile("%(3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)", re.IGNORECASE)
PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


class SignatureNotEmulatedError(Exception):
    """The emulator cannot sign so; the message says what."""


@dataclass(frozen=True, kw_only=True)
class Webhook:
    """A request as the provider sends it."""

    method: str = "POST"
    url: str
    headers: Mapping[str, str]
    body: bytes


@dataclass
class WebhookSender:
    """Signs webhooks of one provider with one secret."""

    options: Options
    """The ``hmac`` object, its preset expanded."""
    secret: str
    """What the receiver's credential has."""
    key: PrivateKey | None = None
    """With algorithms of public keys: the private key whose public key is the secret."""

    @classmethod
    def with_new_secret(cls, options: Options, *, seed: str) -> "WebhookSender":
        """With a secret that is the same each time for a seed, or a new pair of keys."""
        secret, key = _new_secret(options, hashlib.sha256(seed.encode()).digest())
        return cls(options, secret, key)

    def webhook(
        self,
        url: str,
        content: Any = None,
        *,
        headers: Mapping[str, str] | None = None,
        now: float | None = None,
    ) -> Webhook:
        """A signed request; ``content`` is its JSON, or its form where the signature covers one."""
        return _Signing(self, url, content, dict(headers or {}), time.time() if now is None else now).signed()


@dataclass
class _Signing:
    sender: WebhookSender
    url: str
    content: Any
    headers: dict[str, str]
    now: float
    id: str = field(default_factory=lambda: f"msg_{uuid.uuid4().hex}")

    @property
    def options(self) -> Options:
        return self.sender.options

    def text(self, name: str) -> str:
        """An option as text."""
        value = self.options.get(name)
        return "" if value is None else str(value)

    @property
    def inputs(self) -> list[str]:
        return [str(one) for one in self.options.get("digestInputs") or ()]

    def signed(self) -> Webhook:
        """The request with its signature."""
        self._prepare()
        signature = self._carried()
        name = self.text("name")
        match self.text("in"):
            case "header":
                self.headers[name] = signature
            case "query":
                self.url = str(URL(self.url).update_query({name: signature}))
            case "cookie":
                self.headers["Cookie"] = f"{name}={signature}"
            case "body":
                self.content = put(self.content, name.replace("*", "0"), signature)
        return Webhook(url=self.url, headers=self.headers, body=self._body())

    def _prepare(self) -> None:
        if self.content is None:
            self.content = {"type": "emulated.event", "id": "evt_1"}
        for one in self.inputs:
            kind, _, path = one.partition(":")
            if kind == "field" and not self.is_form:
                self.content = put(
                    self.content, path.replace("*", "0"), f"value of {path.rpartition('.')[2]}"
                )
        if name := self.text("timestampHeader"):
            self.headers[name] = self._time()
        if path := self.text("timestampPath"):
            self.content = put(self.content, path, self._time())
        if name := self.text("idHeader"):
            self.headers[name] = self.id
        if path := self.text("idPath"):
            self.content = put(self.content, path.replace("*", "0"), self.id)
        for one in self.inputs:
            kind, _, name = one.partition(":")
            if kind == "header":
                self.headers.setdefault(name, "emulated")
            if kind == "signedHeaders":
                self.headers.setdefault(name, ",".join(self._signed_headers(name)))
        self.headers.setdefault("Content-Type", _FORM if self.is_form else "application/json")
        self._add_body_hash()

    def _signed_headers(self, name: str) -> list[str]:
        """The headers that the header ``name`` lists as signed."""
        return [one.lower() for one in (name, self.text("timestampHeader")) if one]

    def _add_body_hash(self) -> None:
        place, _, name = self.text("bodyHash").partition(":")
        digest = hashlib.sha256(self._body()).hexdigest()
        if place == "query":
            self.url = str(URL(self.url).update_query({name: digest}))
        if place == "header":
            self.headers[name] = digest

    @property
    def is_form(self) -> bool:
        kinds = {one.partition(":")[0] for one in self.inputs}
        return not kinds.isdisjoint(("form", "phpForm"))

    def _body(self) -> bytes:
        if self.is_form:
            return urlencode(self.content).encode()
        return json.dumps(self.content, separators=(",", ":")).encode()

    def _time(self) -> str:
        moment = datetime.fromtimestamp(self.now, UTC)
        match self.text("timestampUnit"):
            case "milliseconds":
                return str(int(self.now * 1000))
            case "iso8601":
                return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
            case "httpDate":
                return format_datetime(moment, usegmt=True)
        return str(int(self.now))

    # The signature

    def _carried(self) -> str:
        prefix, value = self.text("prefix"), self._value()
        match self.text("signatureFormat"):
            case "fields":
                fields = {self.text("timestampField"): self._time(), self.text("signatureField"): value}
                separator = self.text("separator") or ","
                return separator.join(f"{name}={text}" for name, text in fields.items() if name)
            case "timedList":
                return (self.text("separator") or ",").join([self._time(), prefix + value])
        return prefix + value

    def _value(self) -> str:
        algorithm = self.text("algorithm")
        if algorithm == "token":
            return self.sender.secret
        if algorithm == "basic":
            return "Basic " + base64.b64encode(self.sender.secret.encode()).decode()
        if algorithm.startswith("jwt-"):
            return self._jwt(algorithm)
        return _encoded(self._digest(algorithm, b"".join(self._chunks())), self.text("encoding"))

    def _digest(self, algorithm: str, content: bytes) -> bytes:
        if algorithm in _HMACS:
            return hmac.digest(self._key(), content, algorithm)
        if algorithm in _HASHES:
            return hashlib.new(algorithm.removeprefix("hash-"), content).digest()
        return _signature(self.sender.key, algorithm, content)

    def _key(self) -> bytes:
        text = self.sender.secret.removeprefix(self.text("keyPrefix"))
        match self.text("keyEncoding"):
            case "base64":
                return base64.b64decode(text + "=" * (-len(text) % 4))
            case "hex":
                return bytes.fromhex(text)
            case "sha1":
                return hashlib.sha1(text.encode(), usedforsecurity=False).digest()
        return text.encode()

    def _jwt(self, algorithm: str) -> str:
        claims: dict[str, Any] = {"iat": int(self.now), "exp": int(self.now) + 180, "iss": "emulated"}
        place, _, name = self.text("bodyHash").partition(":")
        if place == "claim":
            claims[name] = hashlib.sha256(self._body()).hexdigest()
        if name := self.text("queryHashClaim"):
            claims[name] = hashlib.sha256(_canonical_request(self.url).encode()).hexdigest()
        name = algorithm.removeprefix("jwt-").upper()
        key: Any = self.sender.key or self._key()
        return jwt.encode(claims, key, algorithm=name)

    def _chunks(self) -> Iterator[bytes]:
        for one in self.inputs:
            kind, _, argument = one.partition(":")
            yield from self._chunk(kind, argument)

    def _chunk(self, kind: str, argument: str) -> Iterator[bytes]:
        simple = {
            "url": self.url,
            "method": "POST",
            "timestamp": self._time(),
            "id": self.id,
            "secret": self.sender.secret,
            "literal": argument,
        }
        if kind in simple:
            yield simple[kind].encode()
            return
        match kind:
            case "body":
                yield self._body()
            case "decodedUrl":
                yield _DECODED.sub(lambda found: chr(int(found[1], 16)), self.url).encode()
            case "path":
                yield ("/" + self.url.partition("://")[2].partition("/")[2]).encode()
            case "header":
                yield self.headers[argument].encode()
            case "signedHeaders":
                sent = {name.lower(): value for name, value in self.headers.items()}
                yield ";".join(f"{name}:{sent[name]}" for name in self._signed_headers(argument)).encode()
            case "field":
                found = get(self.content, argument)
                yield b"" if found is None else f"{found}".encode()
            case "form":
                for name, value in sorted(dict(self.content).items()):
                    yield f"{name}{value}".encode()
            case "bodyHash":
                yield _hash_of(self._body(), argument).encode()
            case _:
                raise SignatureNotEmulatedError(f"the emulator does not sign {kind}")


def _hash_of(body: bytes, argument: str) -> str:
    name, _, encoding = argument.partition(":")
    if name == "crc32":
        return str(zlib.crc32(body))
    digest = hashlib.new(name, body).digest()
    return base64.b64encode(digest).decode() if encoding else digest.hex()


def _canonical_request(url: str) -> str:
    """Method, path and sorted query, as Atlassian hashes them."""
    parts = urlsplit(url)
    pairs = sorted(parse_qsl(parts.query, keep_blank_values=True))
    query = "&".join(f"{quote(name, safe='~')}={quote(value, safe='~')}" for name, value in pairs)
    return f"POST&{parts.path or '/'}&{query}"


def _encoded(digest: bytes, encoding: str) -> str:
    match encoding:
        case "base64":
            return base64.b64encode(digest).decode()
        case "base64url":
            return base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return digest.hex()


def _signature(key: PrivateKey | None, algorithm: str, content: bytes) -> bytes:
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key.sign(content)
    if isinstance(key, ec.EllipticCurvePrivateKey):
        return key.sign(content, ec.ECDSA(hashes.SHA256()))
    if isinstance(key, rsa.RSAPrivateKey):
        chosen = {"sha1": hashes.SHA1, "sha512": hashes.SHA512}.get(
            algorithm.rpartition("-")[2], hashes.SHA256
        )
        if "pss" in algorithm:
            pss = padding.PSS(mgf=padding.MGF1(chosen()), salt_length=padding.PSS.DIGEST_LENGTH)
            return key.sign(content, pss, chosen())
        return key.sign(content, padding.PKCS1v15(), chosen())
    raise SignatureNotEmulatedError(f"the emulator does not sign with {algorithm}")


def _new_secret(options: Options, made: bytes) -> tuple[str, PrivateKey | None]:
    """What a receiver's credential has, and the private key where that is a public one."""
    algorithm = str(options.get("algorithm") or "")
    key: PrivateKey | None = None
    if algorithm == "ed25519":
        key = ed25519.Ed25519PrivateKey.generate()
    elif algorithm in ("ecdsa-sha256", "jwt-es256"):
        key = ec.generate_private_key(ec.SECP256R1())
    elif algorithm.startswith(("rsa-", "jwt-rs")):
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    if key is not None:
        return _public(key), key
    if algorithm == "basic":
        return f"emulated:{made.hex()}", None
    text = {"base64": base64.b64encode(made).decode(), "hex": made.hex()}.get(str(options.get("keyEncoding")))
    return f"{options.get('keyPrefix') or ''}{text or made.hex()}", None


def _public(key: PrivateKey) -> str:
    public = key.public_key()
    return public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    ).decode()
