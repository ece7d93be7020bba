"""What the engine's server trusts: the keys of operator, accounts and signer, and what is signed with them."""

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Self

from tieline_core.engine.claims import Permissions, account_jwt, credentials_file, operator_jwt, user_jwt
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.nkeys import InvalidSeedError, KeyKind, KeyPair

_ACCOUNT = "tieline"
_ENCRYPTION_KEY_BYTES = 32
_ACCOUNT_KEY = re.compile(r"A[A-Z2-7]{55}")


class InvalidTrustError(ValueError):
    """A Secret does not hold the engine's keys; the message names the wrong key and no value."""


@dataclass(frozen=True)
class AccountSigner:
    """Signs users of an account."""

    account: str
    """Public key."""
    signer: KeyPair
    """The account's key, or a signing key of it."""

    @classmethod
    def from_values(cls, values: Mapping[str, bytes]) -> Self:
        """From a Secret's values ``account``, a public key, and ``signer-seed``. Raises InvalidTrustError."""
        account = values.get("account", b"").decode("ascii", "replace").strip()
        if not _ACCOUNT_KEY.fullmatch(account):
            raise InvalidTrustError("The value account is no public key of an account")
        return cls(account, _key(values, "signer"))

    def pod_credentials(self, streams: EventStreams, *, at: datetime, expires: datetime) -> str:
        """A credentials file for the pods of an environment, with a new key. A secret."""
        rights = Permissions(publish=streams.pods_publish(), subscribe=streams.pods_subscribe())
        return self.credentials(streams.environment, at=at, expires=expires, permissions=rights)

    def credentials(
        self,
        name: str,
        *,
        at: datetime,
        expires: datetime | None = None,
        permissions: Permissions | None = None,
    ) -> str:
        """A credentials file for a user of the account, with a new key. A secret.

        Without ``permissions`` the user may use the whole account.
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
        )
        return credentials_file(jwt, user.seed)


def _account_key() -> KeyPair:
    return KeyPair.generate(KeyKind.ACCOUNT)


@dataclass(frozen=True, kw_only=True)
class EngineTrust:
    """The private keys. Whoever has the signer's makes users of the platform's account."""

    operator: KeyPair = field(default_factory=lambda: KeyPair.generate(KeyKind.OPERATOR))
    system: KeyPair = field(default_factory=_account_key)
    """The server's system account."""
    account: KeyPair = field(default_factory=_account_key)
    """The platform's account."""
    signer: KeyPair = field(default_factory=_account_key)
    """Signs users of the platform's account. It can be replaced without a new account."""

    @classmethod
    def from_values(cls, values: Mapping[str, bytes]) -> Self:
        """From the values of a Secret. Raises InvalidTrustError."""
        return cls(**{one.name: _key(values, one.name) for one in fields(cls)})

    @property
    def users(self) -> AccountSigner:
        """Signs users of the platform's account."""
        return AccountSigner(self.account.public_key, self.signer)

    def to_values(self) -> dict[str, str]:
        """The values of a Secret that holds the keys."""
        return {_value_name(one.name): getattr(self, one.name).seed for one in fields(self)}

    def operator_jwt(self, at: datetime) -> str:
        """The trust root of the server."""
        return operator_jwt(self.operator, system_account=self.system.public_key, at=at)

    def accounts(self, at: datetime, *, previous_signers: Sequence[str] = ()) -> dict[str, str]:
        """The accounts' JWTs, by public key. Users that one of ``previous_signers`` signed stay valid."""
        system = account_jwt(self.operator, self.system.public_key, name="SYS", jetstream=False, at=at)
        platform = account_jwt(
            self.operator,
            self.account.public_key,
            name=_ACCOUNT,
            jetstream=True,
            at=at,
            signing_keys=[self.signer.public_key, *previous_signers],
        )
        return {self.system.public_key: system, self.account.public_key: platform}

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


_KINDS = {
    "operator": KeyKind.OPERATOR,
    "system": KeyKind.ACCOUNT,
    "account": KeyKind.ACCOUNT,
    "signer": KeyKind.ACCOUNT,
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
