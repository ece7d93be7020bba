"""JWTs that this pod signs (RFC 7519), sent in the Authorization header."""

import hashlib
import json
import time
import uuid
from collections.abc import Callable

import jwt

from tieline.auth.credential_values import raw
from tieline.auth.prepared_request import InvalidCredentialError, PreparedRequest
from tieline.configuration.snapshot import Credential
from tieline_common.bounded_dict import BoundedDict

_DEFAULT_LIFETIME = 300
_ALGORITHMS = frozenset(f"{family}{size}" for family in ("HS", "RS", "ES") for size in (256, 384, 512))
_REMEMBERED = 256


class JwtCache:
    """Signed tokens by what they are made of; one is used until a fifth of its lifetime is left."""

    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self._now = now
        self._tokens: BoundedDict[bytes, tuple[float, str]] = BoundedDict(_REMEMBERED)

    def token(self, credential: Credential) -> str:
        """A valid token of the credential; raises InvalidCredentialError."""
        key = _fingerprint(credential)
        good_until, token = self._tokens.get(key, (0.0, ""))
        now = self._now()
        if now >= good_until:
            lifetime = int(credential.options.get("expiresIn") or _DEFAULT_LIFETIME)
            token = _signed(credential, issued=int(now), lifetime=lifetime)
            self._tokens[key] = (int(now) + lifetime * 0.8, token)
        self._tokens.move_to_end(key)
        return token


_tokens = JwtCache()


async def apply(request: PreparedRequest, credential: Credential) -> None:
    """Send a token after the scheme's prefix (``Bearer`` unless it says otherwise)."""
    token = _tokens.token(credential)
    prefix = str(credential.options.get("authorizationHeaderPrefix", "Bearer"))
    request.set_header("Authorization", f"{prefix} {token}" if prefix else token)


def _signed(credential: Credential, *, issued: int, lifetime: int) -> str:
    """A token with the scheme's claims; iat, exp and jti are ours whatever the scheme's claims say."""
    algorithm = str(credential.options.get("algorithm"))
    if algorithm not in _ALGORITHMS:
        raise InvalidCredentialError(
            f"its auth scheme's jwtBearer.algorithm must be one of {', '.join(sorted(_ALGORITHMS))}"
        )
    claims = {
        **(credential.options.get("payload") or {}),
        "iat": issued,
        "exp": issued + lifetime,
        "jti": str(uuid.uuid4()),
    }
    key_id = credential.data.get("keyId")
    headers = {"kid": key_id} if isinstance(key_id, str) and key_id else None
    key = raw(credential, "key")
    try:
        return jwt.encode(claims, key, algorithm=algorithm, headers=headers)
    except (jwt.PyJWTError, TypeError, ValueError):
        raise InvalidCredentialError(
            f"no token can be signed with it: {algorithm} needs "
            + (
                "a secret that is no PEM key"
                if algorithm.startswith("HS")
                else f"a private key in PEM, without a password, that fits {algorithm}"
            )
            + ", and the scheme's payload must hold valid claims"
        ) from None


def _fingerprint(credential: Credential) -> bytes:
    parts = [credential.id, dict(credential.data), dict(credential.options)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).digest()
