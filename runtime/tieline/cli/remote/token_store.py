"""Where tokens are kept: the system's keyring, or a file that its owner alone may read."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import keyring
import keyring.errors
from keyring.backends.fail import Keyring as NoKeyring
from keyring.backends.null import Keyring as NullKeyring

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.remote.private_files import read_private, write_private

SERVICE = "tieline"
NO_KEYRING = "TIELINE_NO_KEYRING"
Values = Mapping[str, str | float]
"""What is kept for a context, such as ``token``, or ``access``, ``refresh`` and ``expires`` (a Unix time)."""


class TokenStore(Protocol):
    """Keeps the tokens of contexts."""

    description: str
    """Where they are, for people."""

    def get(self, context: str) -> Values | None:
        """What is kept for a context."""

    def put(self, context: str, values: Values) -> None:
        """Keeps it in place of what was there."""

    def delete(self, context: str) -> None:
        """Forgets it."""


class KeyringStore:
    """The system's keyring."""

    description = "the system's keyring"

    def get(self, context: str) -> Values | None:
        """What is kept for a context."""
        try:
            text = keyring.get_password(SERVICE, context)
        except keyring.errors.KeyringError as error:
            raise _unusable(error) from None
        return _parsed(text) if text else None

    def put(self, context: str, values: Values) -> None:
        """Keeps it in place of what was there."""
        try:
            keyring.set_password(SERVICE, context, json.dumps(dict(values)))
        except keyring.errors.KeyringError as error:
            raise _unusable(error) from None

    def delete(self, context: str) -> None:
        """Forgets it."""
        try:
            keyring.delete_password(SERVICE, context)
        except keyring.errors.PasswordDeleteError:
            pass
        except keyring.errors.KeyringError as error:
            raise _unusable(error) from None


class FileStore:
    """A file for each context, readable by its owner alone (0600), where there is no keyring."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "tokens"
        self.description = str(self._folder)

    def get(self, context: str) -> Values | None:
        """What is kept for a context. Raises CommandError for a file that others may read."""
        path = self._path(context)
        try:
            return _parsed(read_private(path, secret=True))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise CommandError(f"{path} cannot be read: {error}", ExitCode.NOT_SIGNED_IN) from None

    def put(self, context: str, values: Values) -> None:
        """Keeps it in place of what was there."""
        write_private(self._path(context), json.dumps(dict(values)))

    def delete(self, context: str) -> None:
        """Forgets it."""
        self._path(context).unlink(missing_ok=True)

    def _path(self, context: str) -> Path:
        return self._folder / f"{context}.json"


def token_store(folder: Path) -> TokenStore:
    """The keyring where the system has one, and a file otherwise, or with ``TIELINE_NO_KEYRING``."""
    if os.environ.get(NO_KEYRING) or isinstance(keyring.get_keyring(), NoKeyring | NullKeyring):
        return FileStore(folder)
    return KeyringStore()


def _parsed(text: str) -> Values | None:
    try:
        values = json.loads(text)
    except ValueError:
        return None
    return values if isinstance(values, dict) else None


def _unusable(error: Exception) -> CommandError:
    return CommandError(
        f"The system's keyring cannot be used ({type(error).__name__}). Unlock it, or set {NO_KEYRING}=1 to keep tokens"
        " in a file that only you may read.",
        ExitCode.NOT_SIGNED_IN,
    )
