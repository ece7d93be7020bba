"""ULIDs (https://github.com/ulid/spec): sortable by time, 26 characters of Crockford's base32."""

import hashlib
import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Two characters at a time: 5 look-ups instead of 10.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = (40, 30, 20, 10, 0)
# A character for each byte, each eight times: from random bytes come random characters, 5 bits of 8.
_CHARACTERS = (_ALPHABET * 8).encode()


def new_ulid() -> str:
    """A new ULID: 48 bits of milliseconds since 1970, 80 random bits."""
    milliseconds = time.time_ns() // 1_000_000
    moment = "".join([_PAIRS[(milliseconds >> shift) & 1023] for shift in _SHIFTS])
    return moment + os.urandom(16).translate(_CHARACTERS).decode()


def derived_ulid(ulid: str, text: str) -> str:
    """Of a ULID and a text always the same ULID, with the time of the first."""
    digest = hashlib.blake2b(f"{ulid}/{text}".encode(), digest_size=16).digest()
    return ulid[:10] + digest.translate(_CHARACTERS).decode()
