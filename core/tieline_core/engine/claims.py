"""Claims of NATS' decentralised authentication, as signed JWTs (version 2).

The operator signs accounts, an account signs users, and a user's JWT carries its permissions: the server asks nobody.
Source: https://github.com/nats-io/jwt, version 2.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tieline_protocol.nkeys import KeyPair

_HEADER = {"typ": "JWT", "alg": "ed25519-nkey"}
_UNLIMITED = -1


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Subjects, with NATS' wildcards, that a user may publish to and subscribe to. Nothing else is allowed."""

    publish: Sequence[str]
    subscribe: Sequence[str]


def operator_jwt(operator: KeyPair, *, system_account: str, at: datetime) -> str:
    """The trust root of the server; ``system_account`` is a public key."""
    claims = {"type": "operator", "version": 2, "system_account": system_account}
    return _signed(operator, subject=operator.public_key, name="tieline", claims=claims, at=at)


def account_jwt(
    operator: KeyPair,
    account: str,
    *,
    name: str,
    jetstream: bool,
    at: datetime,
    signing_keys: Sequence[str] = (),
) -> str:
    """An account, by its public key. ``signing_keys`` are public keys that sign users beside the account's own."""
    limits = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), _UNLIMITED)
    storage = (
        dict.fromkeys(("mem_storage", "disk_storage", "streams", "consumer"), _UNLIMITED) if jetstream else {}
    )
    claims = {"type": "account", "version": 2, "limits": {**limits, **storage, "wildcards": True}}
    if signing_keys:
        claims["signing_keys"] = list(signing_keys)
    return _signed(operator, subject=account, name=name, claims=claims, at=at)


def user_jwt(
    signer: KeyPair,
    user: str,
    *,
    name: str,
    account: str,
    at: datetime,
    expires: datetime | None = None,
    permissions: Permissions | None = None,
) -> str:
    """A user, by its public key. ``account`` is the public key of the account that ``signer`` signs for.

    Without ``permissions`` the user may use the whole account.
    """
    claims: dict[str, Any] = {"type": "user", "version": 2}
    claims |= dict.fromkeys(("subs", "data", "payload"), _UNLIMITED)
    if permissions:
        claims["pub"] = {"allow": list(permissions.publish)}
        claims["sub"] = {"allow": list(permissions.subscribe)}
    if account != signer.public_key:
        claims["issuer_account"] = account
    return _signed(signer, subject=user, name=name, claims=claims, at=at, expires=expires)


def credentials_file(jwt: str, seed: str) -> str:
    """What NATS clients read as a credentials file. It has the user's private key."""
    return (
        f"-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
    )


def _signed(
    signer: KeyPair,
    *,
    subject: str,
    name: str,
    claims: Mapping[str, Any],
    at: datetime,
    expires: datetime | None = None,
) -> str:
    content: dict[str, Any] = {
        "iat": int(at.timestamp()),
        "iss": signer.public_key,
        "name": name,
        "sub": subject,
        "nats": claims,
    }
    if expires:
        content["exp"] = int(expires.timestamp())
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).digest()
    content["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_part(_HEADER)}.{_part(content)}"
    return f"{signed}.{_base64(signer.sign(signed.encode()))}"


def _part(content: Mapping[str, Any]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
