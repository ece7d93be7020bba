"""Why JetStream refuses a request, by the code and the description of its error.

Some reasons share a code with others, so that the description counts, too.
"""

WRONG_SEQUENCE = frozenset({10071, 10164})
"""The subject's last message has another number than the expected one, or is about to: a cluster may be storing one."""
TOO_LARGE = frozenset({10054, 10097})
"""The message, or its headers (64 KiB)."""
_STORE_FAILED = 10077
_NO_SPACE = frozenset({10002, 10023, 10028, 10047})
"""Limits of the account, and insufficient resources: of the server, of the account, of the storage."""
_PER_SUBJECT = "per subject"


def is_taken(code: int | None, description: str | None) -> bool:
    """Whether the subject has as many messages as it may: one, in the streams that bound it."""
    return code == _STORE_FAILED and _PER_SUBJECT in (description or "")


def is_full(code: int | None, description: str | None) -> bool:
    """Whether there is no room for the message: in the stream, in the account or on the server."""
    return code in _NO_SPACE or (code == _STORE_FAILED and not is_taken(code, description))
