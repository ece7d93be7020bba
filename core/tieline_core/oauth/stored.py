"""The tokens of a credential as their Secret holds them, and when they are to be refreshed."""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_core.oauth.tokens import Tokens

EARLY = timedelta(minutes=15)
IDLE = timedelta(days=1)

ISSUED_AT = "tieline.dev/issued-at"
CLAIMED_BY = "tieline.dev/refresh-claimed-by"
CLAIMED_UNTIL = "tieline.dev/refresh-claimed-until"
NOT_BEFORE = "tieline.dev/refresh-not-before"
REFUSED = "tieline.dev/refresh-refused"
_PASSING = (CLAIMED_BY, CLAIMED_UNTIL, NOT_BEFORE, REFUSED)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What a credential's Secret says."""

    tokens: Tokens
    claimed_by: str = ""
    claimed_until: datetime | None = None
    not_before: datetime | None = None
    """When the provider may be asked again after it could not be reached."""
    refused: str = ""
    """The fingerprint of the tokens that the provider has refused, and its error code."""


def due_at(tokens: Tokens) -> datetime:
    """When to refresh: 15 minutes early, or half the lifetime early when that is less; daily at the latest."""
    daily = tokens.issued_at + IDLE
    if tokens.expires_at is None:
        return daily
    lifetime = tokens.expires_at - tokens.issued_at
    return min(daily, tokens.expires_at - min(EARLY, lifetime / 2))


def needs_refresh(tokens: Tokens, *, now: datetime, rejected: str = "") -> bool:
    """Whether these tokens are due, or their access token is the one that was answered with 401."""
    return tokens.access_token == rejected or now >= due_at(tokens)


def fingerprint(tokens: Tokens) -> str:
    """Tells one set of tokens from another without giving them away."""
    text = f"{tokens.refresh_token}\0{tokens.access_token}"
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def read(secret: Mapping[str, Any]) -> Stored:
    """The tokens and marks of a Secret. A moment that cannot be read counts as absent."""
    data = {key: b64decode(value).decode() for key, value in (secret.get("data") or {}).items()}
    metadata = secret["metadata"]
    notes = metadata.get("annotations") or {}
    issued = _moment(notes.get(ISSUED_AT)) or _moment(metadata.get("creationTimestamp"))
    tokens = Tokens(
        access_token=data.get("accessToken", ""),
        refresh_token=data.get("refreshToken", ""),
        token_type=data.get("tokenType", "Bearer"),
        scopes=tuple(data.get("scopes", "").split()),
        issued_at=issued or datetime.fromtimestamp(0, UTC),
        expires_at=_moment(data.get("expiresAt")),
    )
    return Stored(
        tokens=tokens,
        claimed_by=notes.get(CLAIMED_BY, ""),
        claimed_until=_moment(notes.get(CLAIMED_UNTIL)),
        not_before=_moment(notes.get(NOT_BEFORE)),
        refused=notes.get(REFUSED, ""),
    )


def marked(secret: Mapping[str, Any], marks: Mapping[str, str]) -> dict[str, Any]:
    """The Secret with these marks in place of those that it had."""
    metadata = secret["metadata"]
    kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _PASSING}
    return {**secret, "metadata": {**metadata, "annotations": {**kept, **marks}}}


def with_tokens(secret: Mapping[str, Any], tokens: Tokens) -> dict[str, Any]:
    """The Secret with new tokens and without marks. Other keys stay."""
    values = {
        "accessToken": tokens.access_token,
        "refreshToken": tokens.refresh_token,
        "tokenType": tokens.token_type,
        "scopes": " ".join(tokens.scopes),
        "expiresAt": written(tokens.expires_at) if tokens.expires_at else "",
    }
    data = {key: value for key, value in (secret.get("data") or {}).items() if key not in values}
    data |= {key: b64encode(value.encode()).decode() for key, value in values.items() if value}
    return {**marked(secret, {ISSUED_AT: written(tokens.issued_at)}), "data": data}


def written(moment: datetime) -> str:
    """A moment as text (RFC 3339, UTC)."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _moment(text: str | None) -> datetime | None:
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo else None
