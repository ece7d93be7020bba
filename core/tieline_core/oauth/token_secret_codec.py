"""The tokens of a credential as their Secret holds them, and when they are to be refreshed."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_core.identity.ids import to_utc
from tieline_core.kubernetes.reading import secret_values, texts_of
from tieline_protocol.oauth import token_response
from tieline_protocol.oauth.kept import Kept
from tieline_protocol.oauth.token_client import LONGEST_PAUSE, Tokens

EARLY = timedelta(minutes=15)
IDLE = timedelta(hours=23, minutes=50)
"""At least daily: the operator spreads what is due at one moment over five minutes."""
CLOCKS = timedelta(minutes=5)
"""How far clocks may be apart. Nobody believes in the end of another one's claim before this has passed as well."""

SOURCE = "tieline.dev/source"
"""A fingerprint of the inputs that the tokens came from."""
ISSUED_AT = "tieline.dev/issued-at"
DUE_AT = "tieline.dev/refresh-due-at"
"""When they are to be refreshed, for those who see metadata only; absent where that cannot be done."""
RENEWABLE_FROM = "tieline.dev/refresh-allowed-from"
"""When the provider allows a refresh, where that is not at any time."""
ASKED_AS = "tieline.dev/issued-to"
"""A fingerprint of the endpoint and the client that the tokens came from."""
KEPT = "kept"
"""The key with what the connection keeps of the provider's answers, beside the tokens."""
CLAIMED_BY = "tieline.dev/refresh-claimed-by"
CLAIMED_UNTIL = "tieline.dev/refresh-claimed-until"
NOT_BEFORE = "tieline.dev/refresh-not-before"
REFUSED = "tieline.dev/refresh-refused"
_PASSING = (CLAIMED_BY, CLAIMED_UNTIL, NOT_BEFORE, REFUSED)


@dataclass(frozen=True, kw_only=True)
class StoredTokens:
    """What a credential's Secret says."""

    tokens: Tokens
    source: str = ""
    asked_as: str = ""
    """A fingerprint of the endpoint and the client that they came from; empty where that is not known."""
    claimed_by: str = ""
    claimed_until: datetime | None = None
    not_before: datetime | None = None
    """When the provider may be asked again after it could not be reached, or after it has refused."""
    paused: str = ""
    """The fingerprint of what was asked with when ``not_before`` was set."""
    refused: str = ""
    """The fingerprint of what the provider has refused, and its error code after a colon."""

    @property
    def refusal(self) -> str | None:
        """The error code of a refusal that is recorded, which may be empty; None where there is none."""
        return self.refused.partition(":")[2] if self.refused else None


def due_at(tokens: Tokens) -> datetime:
    """When to refresh: 15 minutes early, or half the lifetime early when that is less; daily at the latest.

    Not before the provider allows it.
    """
    due = tokens.issued_at + IDLE
    if tokens.expires_at is not None:
        lifetime = max(tokens.expires_at - tokens.issued_at, timedelta())
        due = min(due, tokens.expires_at - min(EARLY, lifetime / 2))
    return max(due, tokens.renewable_from) if tokens.renewable_from else due


def good(tokens: Tokens, *, now: datetime, rejected: str = "", renewable: bool = True) -> bool:
    """Whether these tokens may be used and need nothing done.

    They are due, or their access token was answered with 401 (``rejected``). What cannot be renewed is
    good until it ends.
    """
    if not tokens.access_token or tokens.access_token == rejected:
        return False
    if renewable:
        return now < due_at(tokens)
    return tokens.expires_at is None or now < tokens.expires_at


def fingerprint(tokens: Tokens, *asked_with: str) -> str:
    """Tells one set of tokens, and what is asked with, from another without giving them away."""
    text = "\0".join((tokens.refresh_token, tokens.access_token, *asked_with))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def pause_left(not_before: datetime | None, now: datetime) -> float:
    """Seconds for which a provider is still left alone.

    A pause longer than any that is given was written by a clock that is far ahead, and is none.
    """
    seconds = (not_before - now).total_seconds() if not_before else 0.0
    return seconds if 0 < seconds <= LONGEST_PAUSE + CLOCKS.total_seconds() else 0.0


def read(secret: Mapping[str, Any]) -> StoredTokens:
    """The tokens and marks of a Secret. A moment that cannot be read counts as absent."""
    data = texts_of(secret_values(secret))
    metadata = secret["metadata"]
    notes = metadata.get("annotations") or {}
    issued = moment(notes.get(ISSUED_AT)) or moment(metadata.get("creationTimestamp"))
    not_before, _, paused = notes.get(NOT_BEFORE, "").partition(" ")
    return StoredTokens(
        tokens=replace(
            from_values(data, issued_at=issued or datetime.fromtimestamp(0, UTC)),
            renewable_from=moment(notes.get(RENEWABLE_FROM)),
        ),
        source=notes.get(SOURCE, ""),
        asked_as=notes.get(ASKED_AS, ""),
        claimed_by=notes.get(CLAIMED_BY, ""),
        claimed_until=moment(notes.get(CLAIMED_UNTIL)),
        not_before=moment(not_before),
        paused=paused,
        refused=notes.get(REFUSED, ""),
    )


def from_values(values: Mapping[str, str], *, issued_at: datetime) -> Tokens:
    """The tokens in a credential's values, which have the specification's names.

    Scopes and type are shown, and somebody else may have written them: a token among them is left out.
    """
    secret = [values.get(key, "") for key in ("accessToken", "refreshToken", "oauthTokenSecret")]
    secrets = token_response.SecretMatcher(secret)
    return Tokens(
        access_token=secret[0],
        refresh_token=secret[1],
        token_secret=secret[2],
        token_type=token_response.token_type(values.get("tokenType"), secrets),
        scopes=token_response.scopes(values.get("scopes"), secrets),
        issued_at=issued_at,
        expires_at=moment(values.get("expiresAt")),
        kept=Kept.decoded(values.get(KEPT)),
    )


def marked(
    secret: Mapping[str, Any], marks: Mapping[str, str], notes: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The Secret with these marks in place of those that it had, and ``notes`` beside its other annotations."""
    metadata = secret["metadata"]
    kept = {k: v for k, v in (metadata.get("annotations") or {}).items() if k not in _PASSING}
    return {**secret, "metadata": {**metadata, "annotations": {**kept, **(notes or {}), **marks}}}


def with_tokens(
    secret: Mapping[str, Any],
    tokens: Tokens,
    *,
    source: str = "",
    asked_as: str = "",
    renewable: bool = True,
) -> dict[str, Any]:
    """The Secret with new tokens and without marks. Other keys stay."""
    values = {
        "accessToken": tokens.access_token,
        "refreshToken": tokens.refresh_token,
        "oauthTokenSecret": tokens.token_secret,
        "tokenType": tokens.token_type,
        "scopes": " ".join(tokens.scopes),
        "expiresAt": written(tokens.expires_at) if tokens.expires_at else "",
        KEPT: tokens.kept.encoded(),
    }
    data = {key: value for key, value in (secret.get("data") or {}).items() if key not in values}
    data |= {key: b64encode(value.encode()).decode() for key, value in values.items() if value}
    due = written(due_at(tokens)) if renewable else ""
    allowed = written(tokens.renewable_from) if tokens.renewable_from else ""
    marks = {
        ISSUED_AT: written(tokens.issued_at),
        SOURCE: source,
        ASKED_AS: asked_as,
        DUE_AT: due,
        RENEWABLE_FROM: allowed,
    }
    result = marked(secret, marks)
    notes = result["metadata"]["annotations"]
    result["metadata"]["annotations"] = {key: value for key, value in notes.items() if value}
    return {**result, "data": data}


def written(at: datetime) -> str:
    """A moment as text (RFC 3339, UTC)."""
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def moment(text: str | None) -> datetime | None:
    """The moment that a text says (RFC 3339 with its zone), in UTC; None where it says none."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return to_utc(found) if found.tzinfo else None
