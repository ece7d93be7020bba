"""Opaque tokens: API keys and tokens of connect sessions.

A token is ``<prefix>_<organisation>_<256 random bits>``. Its plain SHA-256 is enough to keep: slow hashes are for
passwords that people choose; nobody can try 2^256 tokens, and a fast hash can be checked on every request. The Secret
is named after the hash, so looking a token up takes no search, and a Secret under another name opens nothing.
"""

import hashlib
import secrets

_RANDOM_BYTES = 32
_NAME_DIGITS = 40


def new_token(prefix: str, organisation_id: str) -> str:
    """A new token of an organisation."""
    return f"{prefix}_{organisation_id.lower()}_{secrets.token_urlsafe(_RANDOM_BYTES)}"


def digest(token: str) -> str:
    """What is kept of a token: SHA-256, in hexadecimal."""
    return hashlib.sha256(token.encode()).hexdigest()


def short_digest(token: str) -> str:
    """What names a token where names are short: a part of the hash, from which nobody finds the token."""
    return digest(token)[:_NAME_DIGITS]


def secret_name(kind: str, token: str) -> str:
    """The name of the Secret that makes ``token`` good."""
    return f"{kind}-{short_digest(token)}"
