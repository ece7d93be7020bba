"""NKeys: the ed25519 keys that identify NATS operators, accounts and users.

Encoded as NATS does: base32 without padding of a prefix byte, the 32 bytes of the key, and a CRC-16.
Source: https://github.com/nats-io/nkeys and ADR-14.
"""

import base64
import binascii
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_SEED = 18 << 3
_KEY_BYTES = 32


class KeyKind(IntEnum):
    """Whom a key identifies; the value is the prefix byte. Public keys start with O, A and U."""

    OPERATOR = 14 << 3
    ACCOUNT = 0
    USER = 20 << 3


class InvalidSeedError(ValueError):
    """The text is no seed of an NKey. The message does not repeat it."""


class KeyPair:
    """A private key with its public one."""

    def __init__(self, kind: KeyKind, private: "Ed25519PrivateKey") -> None:
        self.kind = kind
        self._private = private
        self.public_key = _encoded(bytes([kind]) + private.public_key().public_bytes_raw())

    @classmethod
    def generate(cls, kind: KeyKind) -> Self:
        """A new key."""
        # Pods without an event engine do not need it.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        return cls(kind, Ed25519PrivateKey.generate())

    @classmethod
    def from_seed(cls, seed: str) -> Self:
        """The key of a seed, which starts with S. Raises InvalidSeedError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415

        try:
            raw = base64.b32decode(seed + "=" * (-len(seed) % 8))
        except ValueError:
            raise InvalidSeedError("The seed is not base32") from None
        content, checksum = raw[:-2], raw[-2:]
        if len(content) != _KEY_BYTES + 2 or struct.pack("<H", _crc16(content)) != checksum:
            raise InvalidSeedError("The seed has a wrong length or checksum")
        kinds = {int(kind): kind for kind in KeyKind}
        kind = kinds.get((content[0] & 7) << 5 | content[1] >> 3)
        if content[0] & 0xF8 != _SEED or kind is None:
            raise InvalidSeedError("The seed is that of no operator, account or user")
        return cls(kind, Ed25519PrivateKey.from_private_bytes(content[2:]))

    def derived(self, purpose: str) -> Self:
        """Another key of the same kind, which follows from this one and leads not back to it."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: PLC0415
        from cryptography.hazmat.primitives.hashes import SHA256  # noqa: PLC0415
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF  # noqa: PLC0415

        kdf = HKDF(SHA256(), length=_KEY_BYTES, salt=None, info=purpose.encode())
        raw = kdf.derive(self._private.private_bytes_raw())
        return type(self)(self.kind, Ed25519PrivateKey.from_private_bytes(raw))

    @property
    def seed(self) -> str:
        """The private key as text: a secret."""
        return _encoded(
            bytes([_SEED | self.kind >> 5, (self.kind & 31) << 3]) + self._private.private_bytes_raw()
        )

    def sign(self, content: bytes) -> bytes:
        """The signature, 64 bytes."""
        return self._private.sign(content)

    def __repr__(self) -> str:
        return f"KeyPair({self.public_key})"


def account_id(content: bytes) -> str:
    """An account's public key with these 32 bytes, of which there is no private key."""
    if len(content) != _KEY_BYTES:
        raise ValueError("a key has 32 bytes")
    return _encoded(bytes([KeyKind.ACCOUNT]) + content)


def _encoded(content: bytes) -> str:
    return base64.b32encode(content + struct.pack("<H", _crc16(content))).decode().rstrip("=")


def _crc16(content: bytes) -> int:
    """CRC-16/XMODEM."""
    return binascii.crc_hqx(content, 0)
