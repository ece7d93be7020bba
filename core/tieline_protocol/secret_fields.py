"""Which fields of a Secret hold a secret, so that their values are masked."""

import re
from collections.abc import Collection

NOT_SECRET = frozenset(
    {
        "bucket", "database", "db", "dbname", "domain", "from", "host", "hostname", "login", "name", "port", "protocol",
        "region", "scheme", "schema", "sender", "server", "sslmode", "tls", "user", "userid", "username",
    }
)  # fmt: skip
"""Last words of the names of fields whose values are no secrets: a mask would hide these words wherever they are."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def is_secret(name: str, not_secret: Collection[str] = ()) -> bool:
    """Whether the value of a field is masked; ``not_secret`` are names that the Secret's owner declared.

    >>> [name for name in ("password", "smtpHost", "DB_PORT", "hostKey", "url", "user-name") if not is_secret(name)]
    ['smtpHost', 'DB_PORT', 'user-name']
    >>> is_secret("account", ["account"])
    False
    """
    words = _WORD.findall(name)
    return name not in not_secret and not (words and words[-1].lower() in NOT_SECRET)
