"""Texts that only the API can read and make: AES-256-GCM with keys that the replicas share.

A sealed text is base64url of ``version (1) | key id (8) | nonce (12) | ciphertext and tag``. Its purpose is
authenticated with it, so that a text for one purpose is none for another.
"""

import base64
import binascii
import hashlib
import secrets
import zlib
from dataclasses import dataclass, field
from typing import Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_VERSION = b"\x01"
_ID_BYTES = 8
_NONCE_BYTES = 12
_HEAD = len(_VERSION) + _ID_BYTES + _NONCE_BYTES
_LARGEST = 64 * 1024


class UnsealError(ValueError):
    """A text that is none of ours, or was changed."""


class UnknownKeyError(UnsealError):
    """A text that was sealed with a key that is not here (any more, or yet)."""


@dataclass(frozen=True)
class Key:
    """One key, named by its hash."""

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Self:
        """A random key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @property
    def id(self) -> bytes:
        """Tells keys apart, and nothing else about them."""
        return hashlib.sha256(b"tieline console key" + self.secret).digest()[:_ID_BYTES]


@dataclass(frozen=True)
class KeyRing:
    """Seals with the first key, and reads what any of them has sealed."""

    keys: tuple[Key, ...]

    def seal(self, purpose: str, content: bytes) -> str:
        """The sealed text of ``content``, which is compressed: base64 in tokens takes a quarter less so."""
        key = self.keys[0]
        nonce = secrets.token_bytes(_NONCE_BYTES)
        head = _VERSION + key.id + nonce
        sealed = AESGCM(key.secret).encrypt(nonce, zlib.compress(content), head + purpose.encode())
        return base64.urlsafe_b64encode(head + sealed).decode().rstrip("=")

    def unseal(self, purpose: str, text: str) -> bytes:
        """The content of a sealed text. Raises UnknownKeyError, and UnsealError for what is none."""
        raw = _decoded(text)
        head, sealed = raw[:_HEAD], raw[_HEAD:]
        if len(head) < _HEAD or not head.startswith(_VERSION):
            raise UnsealError("This is no sealed text")
        identifier, nonce = head[1 : 1 + _ID_BYTES], head[1 + _ID_BYTES :]
        key = next((one for one in self.keys if one.id == identifier), None)
        if key is None:
            raise UnknownKeyError("The text was sealed with another key")
        try:
            packed = AESGCM(key.secret).decrypt(nonce, sealed, head + purpose.encode())
        except InvalidTag:
            raise UnsealError("The text was changed, or has another purpose") from None
        return zlib.decompressobj().decompress(packed, _LARGEST)


def _decoded(text: str) -> bytes:
    if len(text) > _LARGEST or not text.isascii():
        raise UnsealError("This is no sealed text")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise UnsealError("This is no sealed text") from None
