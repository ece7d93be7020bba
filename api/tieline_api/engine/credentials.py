"""The users with which the API connects: of the platform's account by a file, of an environment's by its own signature.

Files are read for each connection, since they may come late and be replaced.
"""

import base64
import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nats.errors

from tieline_core.engine.trust import AccountSigner
from tieline_engine.credentials import Credentials
from tieline_protocol.event_streams import EventStreams
from tieline_protocol.nkeys import KeyKind, KeyPair

USER_LIFETIME = timedelta(hours=1)
"""How long a user of an environment's account may stay connected."""
_USER_NAME = "api"


def read_credentials(path: Path) -> Credentials:
    """The user of a credentials file. Raises nats.errors.Error, which does not repeat what the file holds."""
    try:
        return Credentials.parse(path.read_text())
    except (OSError, ValueError):
        raise nats.errors.Error(f"the credentials file {path} cannot be read") from None


@dataclass(frozen=True)
class EnvironmentSigner:
    """Signs users of environments' accounts."""

    credentials_file: Path
    """Of a user of the platform's account: the ids of environments' accounts follow from its id."""
    signer_file: Path
    """Holds the seed of the key that signs."""

    def user_of(self, streams: EventStreams) -> Credentials:
        """A new user of an environment's account. Raises nats.errors.Error, which does not repeat any key."""
        account = _account_of(read_credentials(self.credentials_file).jwt)
        if account is None:
            raise nats.errors.Error(f"the credentials file {self.credentials_file} names no account")
        now = datetime.now(UTC)
        signer = AccountSigner(account, self._key(), scoped=True).of_environment(streams)
        return Credentials.parse(signer.credentials(_USER_NAME, at=now, expires=now + USER_LIFETIME))

    def _key(self) -> KeyPair:
        return _read_key(self.signer_file)


def _read_key(file: Path) -> KeyPair:
    try:
        key = KeyPair.from_seed(file.read_text().strip())
    except (OSError, ValueError):
        raise nats.errors.Error(f"the file {file} holds no seed of an NKey") from None
    if key.kind is not KeyKind.ACCOUNT:
        raise nats.errors.Error(f"the file {file} holds no seed of an account's key")
    return key


def _account_of(jwt: str) -> str | None:
    """The public key of the account that a user belongs to, by the user's JWT."""
    try:
        _, payload, _ = jwt.split(".")
        content = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        found = content["nats"].get("issuer_account") or content["iss"]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return found if isinstance(found, str) else None
