"""The protocol between the platform and a limited process: JSON documents, each behind its length."""

import struct

HEADER = struct.Struct(">I")
"""The length of a frame in bytes, big endian."""
MAX_FRAME = 64 * 1024 * 1024
"""Bytes of a frame at most."""


def frame(body: bytes) -> bytes:
    """The frame of a body.

    >>> frame(b"{}")
    b'\\x00\\x00\\x00\\x02{}'
    """
    return HEADER.pack(len(body)) + body
