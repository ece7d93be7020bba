"""What the engine's servers trust: the keys of operator, accounts and signers, and what is signed with them."""

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, Self

from tieline_core.engine.claims import (
    AccountLimits,
    Permissions,
    ScopedSigner,
    ServiceImport,
    account_claims,
    account_jwt,
    credentials_file,
    deletion_jwt,
    operator_jwt,
    user_jwt,
)
from tieline_core.engine.management import MANAGEMENT_PREFIX
from tieline_protocol.event_streams import EventStreams, environment_account
from tieline_protocol.nkeys import InvalidSeedError, KeyKind, KeyPair

PLATFORM_MEMORY_BYTES = 128 << 20
"""Of streams in memory of the platform's account: the state of connections' limits, at most three times."""
_PLATFORM = "tieline"
_API = "api"
_ENCRYPTION_KEY_BYTES = 32
_FINGERPRINT_BYTES = 8
_JETSTREAM = "$JS.API"
_MANAGEMENT_SUBJECTS = f"{MANAGEMENT_PREFIX}.>"
_REFUSED = "refused"
_BACKUP_TAG = "backup-until:"
_BACKUP_BYTES = 16
MANAGEMENT = (
    "STREAM.CREATE",
    "STREAM.UPDATE",
    "STREAM.DELETE",
    "STREAM.RESTORE",
    "STREAM.SNAPSHOT",
    "STREAM.LEADER",
    "STREAM.PEER",
    "STREAM.CANCEL_MOVE",
    "CONSUMER.CREATE",
    "CONSUMER.DURABLE",
    "CONSUMER.DELETE",
    "CONSUMER.PAUSE",
    "CONSUMER.RESET",
    "CONSUMER.UNPIN",
    "CONSUMER.LEADER",
    "CONSUMER.PEER",
)
"""The operations of JetStream's API that accounts of environments have not."""


class InvalidTrustError(ValueError):
    """A Secret does not hold the engine's keys; the message names the wrong key and no value."""


@dataclass(frozen=True)
class AccountSigner:
    """Signs users of an account."""

    account: str
    """Public key."""
    signer: KeyPair
    """The account's key, or a signing key of it."""
    scoped: bool = False
    """Whether the account says what its users may do."""

    def of_environment(self, streams: EventStreams) -> "AccountSigner":
        """Signs users of an environment's account, where this one is of the platform's account."""
        return AccountSigner(environment_account(self.account, streams), self.signer, self.scoped)

    def pod_credentials(self, streams: EventStreams, *, at: datetime, expires: datetime) -> str:
        """A credentials file for the pods of an environment, with a new key. A secret.

        This signer is of the platform's account.
        """
        rights = Permissions(publish=streams.pods_publish(), subscribe=streams.pods_subscribe())
        signer = self.of_environment(streams)
        return signer.credentials(streams.environment, at=at, expires=expires, permissions=rights)

    def credentials(
        self,
        name: str,
        *,
        at: datetime,
        expires: datetime | None = None,
        permissions: Permissions | None = None,
    ) -> str:
        """A credentials file for a user of the account, with a new key. A secret.

        Without ``permissions`` the user may use the whole account, or what the account allows a scoped signer.
        """
        user = KeyPair.generate(KeyKind.USER)
        jwt = user_jwt(
            self.signer,
            user.public_key,
            name=name,
            account=self.account,
            at=at,
            expires=expires,
            permissions=permissions,
            scoped=self.scoped,
        )
        return credentials_file(jwt, user.seed)


@dataclass(frozen=True, kw_only=True)
class BackupAccess:
    """For as long as a backup or a restore takes, a prefix of JetStream's API by which streams are managed.

    NATS' command line has no way through the system account. The prefix is a secret: pods could send requests by it.
    """

    until: datetime
    prefix: str = field(
        default_factory=lambda: f"{_JETSTREAM}.{secrets.token_hex(_BACKUP_BYTES)}", repr=False
    )

    others: tuple["BackupAccess", ...] = field(default=(), repr=False)
    """Those of backups and restores that go on meanwhile."""

    @property
    def mappings(self) -> Mapping[str, str]:
        """Of the system account."""
        return {f"{one.prefix}.>": f"{_JETSTREAM}.>" for one in (self, *self.others)}

    @property
    def tags(self) -> Sequence[str]:
        """Of the system account: until when, and for which prefix."""
        return [
            f"{_BACKUP_TAG}{int(one.until.timestamp())}:{one.prefix.removeprefix(f'{_JETSTREAM}.')}"
            for one in (self, *self.others)
        ]

    def beside(self, claims: Mapping[str, Any], now: datetime) -> "BackupAccess":
        """This one beside those that the system account has and that have not ended."""
        return replace(self, others=tuple(one for one in _accesses(claims) if one.until > now))


def _accesses(claims: Mapping[str, Any]) -> Iterator[BackupAccess]:
    for tag in (claims.get("nats") or {}).get("tags") or ():
        seconds, _, prefix = tag.removeprefix(_BACKUP_TAG).partition(":")
        if tag.startswith(_BACKUP_TAG) and seconds.isdecimal():
            yield BackupAccess(
                until=datetime.fromtimestamp(int(seconds), UTC), prefix=f"{_JETSTREAM}.{prefix}"
            )


def backup_until(claims: Mapping[str, Any]) -> datetime | None:
    """Until when there is BackupAccess, by the claims of the system account; None where there is none."""
    return max((one.until for one in _accesses(claims)), default=None)


def _account_key() -> KeyPair:
    return KeyPair.generate(KeyKind.ACCOUNT)


@dataclass(frozen=True, kw_only=True)
class EngineTrust:
    """The private keys. Whoever has the operator's or the signer's may use all accounts."""

    operator: KeyPair = field(default_factory=lambda: KeyPair.generate(KeyKind.OPERATOR))
    system: KeyPair = field(default_factory=_account_key)
    """The servers' system account."""
    account: KeyPair = field(default_factory=_account_key)
    """The platform's account. The ids of environments' accounts follow from its public key."""
    signer: KeyPair = field(default_factory=_account_key)
    """Signs users of the platform's account and of environments' accounts. It can be replaced without new accounts."""
    api: KeyPair = field(default_factory=_account_key)
    """Signs users of environments' accounts for the API, with what the API may do there."""

    @classmethod
    def from_values(cls, values: Mapping[str, bytes]) -> Self:
        """From the values of a Secret; ``api-seed`` may be missing. Raises InvalidTrustError."""
        keys = {one.name: _key(values, one.name) for one in fields(cls) if one.name != _API}
        api = _key(values, _API) if _value_name(_API) in values else keys["account"].derived("tieline api")
        return cls(**keys, api=api)

    @property
    def users(self) -> AccountSigner:
        """Signs users of the platform's account."""
        return AccountSigner(self.account.public_key, self.signer)

    @property
    def system_users(self) -> AccountSigner:
        """Signs users of the system account."""
        return AccountSigner(self.system.public_key, self.system)

    def to_values(self) -> dict[str, str]:
        """The values of a Secret that holds the keys."""
        return {_value_name(one.name): getattr(self, one.name).seed for one in fields(self)}

    def operator_jwt(self, at: datetime) -> str:
        """The trust root of the servers."""
        return operator_jwt(self.operator, system_account=self.system.public_key, at=at)

    def accounts(self, at: datetime, *, previous_signers: Sequence[str] = ()) -> dict[str, str]:
        """The JWTs of the system's and the platform's account, by public key.

        Users that one of ``previous_signers`` signed stay valid.
        """
        platform = account_jwt(
            self.operator,
            self.account.public_key,
            name=_PLATFORM,
            at=at,
            limits=AccountLimits(memory_bytes=PLATFORM_MEMORY_BYTES),
            signing_keys=[self.signer.public_key, *previous_signers],
            imports=[ServiceImport(subject=_MANAGEMENT_SUBJECTS, account=self.system.public_key, share=True)],
            exports=["history.*.*"],
        )
        return {self.system.public_key: self.system_jwt(at), self.account.public_key: platform}

    def system_jwt(self, at: datetime, *, backup: BackupAccess | None = None) -> str:
        """The JWT of the servers' system account. With ``backup``, all accounts manage their streams by its prefix."""
        return account_jwt(
            self.operator,
            self.system.public_key,
            name="SYS",
            at=at,
            limits=AccountLimits(disk_bytes=0),
            mappings={**_management_mappings(), **(backup.mappings if backup else {})},
            exports=[_MANAGEMENT_SUBJECTS],
            tags=backup.tags if backup else (),
        )

    def environment_account(self, streams: EventStreams) -> str:
        """The public key of an environment's account."""
        return environment_account(self.account.public_key, streams)

    def environment_jwt(
        self,
        streams: EventStreams,
        limits: AccountLimits,
        *,
        at: datetime,
        previous_signers: Sequence[str] = (),
        tags: Sequence[str] = (),
        revoked_until: datetime | None = None,
    ) -> str:
        """The JWT of an environment's account. ``tags`` are texts in lower case."""
        return account_jwt(
            self.operator,
            self.environment_account(streams),
            name=account_name(streams),
            at=at,
            limits=limits,
            tags=tags,
            revoked_until=revoked_until,
            **self._environment(streams, previous_signers),
        )

    def environment_fingerprint(
        self, streams: EventStreams, limits: AccountLimits, *, previous_signers: Sequence[str] = ()
    ) -> str:
        """Differs where ``environment_jwt`` says something else, whenever it was signed."""
        claims = account_claims(limits, **self._environment(streams, previous_signers))
        text = json.dumps([self.operator.public_key, claims], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[: 2 * _FINGERPRINT_BYTES]

    def _environment(self, streams: EventStreams, previous_signers: Sequence[str]) -> dict[str, Any]:
        return {
            "signing_keys": [self.signer.public_key, *previous_signers],
            "scoped": [
                ScopedSigner(key=self.api.public_key, role=_API, permissions=_api_permissions(streams))
            ],
            "imports": [ServiceImport(subject=streams.history, account=self.account.public_key)],
        }

    def deletion_jwt(self, accounts: Sequence[str], *, at: datetime) -> str:
        """The request to delete accounts, by their public keys."""
        return deletion_jwt(self.operator, accounts, at=at)

    def pod_credentials(self, streams: EventStreams, *, at: datetime, expires: datetime) -> str:
        """A credentials file for the pods of an environment, with a new key. A secret."""
        return self.users.pod_credentials(streams, at=at, expires=expires)

    def credentials(
        self,
        name: str,
        *,
        at: datetime,
        expires: datetime | None = None,
        permissions: Permissions | None = None,
    ) -> str:
        """A credentials file for a user of the platform's account, with a new key. A secret."""
        return self.users.credentials(name, at=at, expires=expires, permissions=permissions)


def account_name(streams: EventStreams) -> str:
    """The name of an environment's account."""
    return f"{streams.organisation}.{streams.environment}"


def _management_mappings() -> dict[str, str]:
    """Has streams and consumers managed at subjects alone that no account of an environment leads to.

    The requests of all accounts to JetStream's API come by the system account, whose mappings count for those too that
    the server sends to a reply subject.
    """
    refused = {f"{_JETSTREAM}.{subject}.>": f"{_REFUSED}.{subject}.>" for subject in MANAGEMENT}
    return {**refused, _MANAGEMENT_SUBJECTS: f"{_JETSTREAM}.>"}


def _api_permissions(streams: EventStreams) -> Permissions:
    """What the API does in an environment: publish, read, remove events and runs, cancel, answer, copy results."""
    return Permissions(
        publish=(
            *streams.queue_subjects,
            streams.waiting(">"),
            streams.cancelled("*"),
            streams.answered("*"),
            *streams.any_result(),
            streams.control,
            *(f"$JS.API.STREAM.INFO.{stream}" for stream in streams.names),
            *(f"$JS.API.CONSUMER.INFO.{stream}.{consumer}" for stream, consumer in streams.consumers),
            *(f"$JS.API.DIRECT.GET.{stream}" for stream in streams.names),
            *(f"$JS.API.DIRECT.GET.{stream}.>" for stream in streams.names),
            f"$JS.API.STREAM.MSG.DELETE.{streams.queue}",
            *(f"$JS.API.STREAM.PURGE.{stream}" for stream in streams.names if stream != streams.queue),
        ),
        subscribe=(f"{streams.api_inbox}.>",),
    )


_KINDS = {
    "operator": KeyKind.OPERATOR,
    "system": KeyKind.ACCOUNT,
    "account": KeyKind.ACCOUNT,
    "signer": KeyKind.ACCOUNT,
    _API: KeyKind.ACCOUNT,
}


def _key(values: Mapping[str, bytes], name: str) -> KeyPair:
    value = _value_name(name)
    try:
        key = KeyPair.from_seed(values[value].decode("ascii").strip())
    except KeyError:
        raise InvalidTrustError(f"The value {value} is missing") from None
    except (InvalidSeedError, UnicodeDecodeError):
        raise InvalidTrustError(f"The value {value} is no seed of an NKey") from None
    if key.kind is not _KINDS[name]:
        raise InvalidTrustError(f"The value {value} is a seed of another kind of NKey")
    return key


def new_encryption_key() -> str:
    """A key with which a server encrypts what it stores."""
    return secrets.token_hex(_ENCRYPTION_KEY_BYTES)


def _value_name(name: str) -> str:
    return f"{name}-seed"
