"""Reads a credentials file of NATS, for clients that sign with ``cryptography``."""

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass

from tieline_protocol.nkeys import KeyPair

_PART = re.compile(r"-+BEGIN [A-Z ]+-+\s+([^\s-]\S*)\s+-+END")


class InvalidCredentialsError(ValueError):
    """The text is no credentials file. The message does not repeat it."""


@dataclass(frozen=True, repr=False)
class Credentials:
    """A user's JWT and key, as the options of ``nats.connect``."""

    jwt: str
    key: KeyPair

    @classmethod
    def parse(cls, text: str) -> "Credentials":
        """From the text of a credentials file. Raises InvalidCredentialsError, or InvalidSeedError."""
        parts = _PART.findall(text)
        if len(parts) != 2:
            raise InvalidCredentialsError("The credentials file does not hold a JWT and a seed")
        jwt, seed = parts
        return cls(jwt, KeyPair.from_seed(seed))

    @property
    def user_jwt_cb(self) -> Callable[[], bytearray]:
        return lambda: bytearray(self.jwt.encode())

    @property
    def signature_cb(self) -> Callable[[str], bytes]:
        return lambda nonce: base64.b64encode(self.key.sign(nonce.encode()))
