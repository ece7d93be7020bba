"""ULIDs (https://github.com/ulid/spec): sortable by time, 26 characters of Crockford's base32."""

import os
import time

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Two characters at a time: 13 look-ups instead of 26.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_SHIFTS = tuple(range(120, -1, -10))


def new_ulid() -> str:
    """A new ULID: 48 bits of milliseconds since 1970, 80 random bits."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join([_PAIRS[(number >> shift) & 1023] for shift in _SHIFTS])
