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
_USER_LIMITS = ("subs", "data", "payload")


@dataclass(frozen=True, kw_only=True)
class Permissions:
    """Subjects, with NATS' wildcards, that a user may publish to and subscribe to. Nothing else is allowed."""

    publish: Sequence[str]
    subscribe: Sequence[str]


def operator_jwt(operator: KeyPair, *, system_account: str, at: datetime) -> str:
    """The trust root of the server; ``system_account`` is a public key."""
    claims = {"type": "operator", "version": 2, "system_account": system_account}
    return _signed(operator, subject=operator.public_key, name="tieline", claims=claims, at=at)


@dataclass(frozen=True, kw_only=True)
class AccountLimits:
    """What an account may take. -1 is no limit."""

    connections: int = _UNLIMITED
    subscriptions: int = _UNLIMITED
    disk_bytes: int = _UNLIMITED
    """Of all its streams; 0: it has none."""
    memory_bytes: int = 0
    """The same in memory."""
    streams: int = _UNLIMITED
    consumers: int = _UNLIMITED


@dataclass(frozen=True, kw_only=True)
class ScopedSigner:
    """A signing key whose users have these permissions, whatever it signs."""

    key: str
    """Public key."""
    role: str
    permissions: Permissions


@dataclass(frozen=True, kw_only=True)
class ServiceImport:
    """A subject of another account: what is published at it goes there, and the answer comes back."""

    subject: str
    account: str
    """Public key."""
    share: bool = False
    """Whether the other account learns who asks."""


def account_jwt(
    operator: KeyPair,
    account: str,
    *,
    name: str,
    at: datetime,
    limits: AccountLimits,
    signing_keys: Sequence[str] = (),
    scoped: Sequence[ScopedSigner] = (),
    imports: Sequence[ServiceImport] = (),
    exports: Sequence[str] = (),
    mappings: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    revoked_until: datetime | None = None,
) -> str:
    """An account, by its public key. Users that were signed until ``revoked_until`` are not let in any more.

    ``signing_keys`` are public keys that sign users beside the account's own, and ``scoped`` more such keys.
    ``exports`` are subjects that other accounts may import as a service. ``mappings`` are subjects by those in whose
    place they stand.
    """
    return _signed(
        operator,
        subject=account,
        name=name,
        claims=account_claims(
            limits,
            signing_keys=signing_keys,
            scoped=scoped,
            imports=imports,
            exports=exports,
            mappings=mappings,
            tags=tags,
            revoked_until=revoked_until,
        ),
        at=at,
    )


def account_claims(
    limits: AccountLimits,
    *,
    signing_keys: Sequence[str] = (),
    scoped: Sequence[ScopedSigner] = (),
    imports: Sequence[ServiceImport] = (),
    exports: Sequence[str] = (),
    mappings: Mapping[str, str] | None = None,
    tags: Sequence[str] = (),
    revoked_until: datetime | None = None,
) -> dict[str, Any]:
    """What ``account_jwt`` says of an account."""
    allowed = {
        "subs": limits.subscriptions,
        "conn": limits.connections,
        "disk_storage": limits.disk_bytes,
        "streams": limits.streams,
        "consumer": limits.consumers,
        "imports": len(imports),
        "exports": len(exports),
        "data": _UNLIMITED,
        "payload": _UNLIMITED,
        "wildcards": True,
    }
    if limits.memory_bytes:
        allowed["mem_storage"] = limits.memory_bytes
    claims: dict[str, Any] = {"type": "account", "version": 2, "limits": allowed}
    keys: list[Any] = [*signing_keys, *map(_scoped, scoped)]
    if keys:
        claims["signing_keys"] = keys
    if imports:
        claims["imports"] = [
            {"name": one.subject, "subject": one.subject, "account": one.account, "type": "service"}
            | ({"share": True} if one.share else {})
            for one in imports
        ]
    if exports:
        claims["exports"] = [{"name": subject, "subject": subject, "type": "service"} for subject in exports]
    if mappings:
        claims["mappings"] = {source: [{"subject": target}] for source, target in mappings.items()}
    if tags:
        claims["tags"] = list(tags)
    if revoked_until:
        claims["revocations"] = {"*": int(revoked_until.timestamp())}
    return claims


def _scoped(signer: ScopedSigner) -> dict[str, Any]:
    return {
        "kind": "user_scope",
        "key": signer.key,
        "role": signer.role,
        "template": {**dict.fromkeys(_USER_LIMITS, _UNLIMITED), **_allowed(signer.permissions)},
    }


def _allowed(permissions: Permissions) -> dict[str, Any]:
    return {"pub": {"allow": list(permissions.publish)}, "sub": {"allow": list(permissions.subscribe)}}


def deletion_jwt(operator: KeyPair, accounts: Sequence[str], *, at: datetime) -> str:
    """The request to delete accounts, by their public keys."""
    claims = {"accounts": list(accounts), "type": "generic", "version": 2}
    return _signed(operator, subject=operator.public_key, name="delete", claims=claims, at=at)


def user_jwt(
    signer: KeyPair,
    user: str,
    *,
    name: str,
    account: str,
    at: datetime,
    expires: datetime | None = None,
    permissions: Permissions | None = None,
    scoped: bool = False,
) -> str:
    """A user, by its public key. ``account`` is the public key of the account that ``signer`` signs for.

    Without ``permissions`` the user may use the whole account; with ``scoped`` what the account says of ``signer``.
    """
    claims: dict[str, Any] = {"type": "user", "version": 2}
    if not scoped:
        claims |= dict.fromkeys(_USER_LIMITS, _UNLIMITED)
    if permissions:
        claims |= _allowed(permissions)
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
    # With the fraction of a second: a server takes no notice of a JWT that it has had before.
    digest = hashlib.sha256(json.dumps([at.timestamp(), content], sort_keys=True).encode()).digest()
    content["jti"] = base64.b32encode(digest).decode().rstrip("=")
    signed = f"{_part(_HEADER)}.{_part(content)}"
    return f"{signed}.{_base64(signer.sign(signed.encode()))}"


def _part(content: Mapping[str, Any]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")
