"""Documents in a JSON file, for your own machine: they outlive the process, and several processes may share them."""

import fcntl
import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tieline.state.documents import (
    AnyVersion,
    Document,
    DocumentChangedError,
    DocumentScope,
    Expected,
    StateUnavailableError,
)

_USERS = "users/"

Kept = dict[str, dict[str, Any]]


class FileDocuments:
    """Keeps all documents in one file, which is read anew each time; see Documents."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """See Documents."""
        with self._locked() as kept:
            found = kept.get(_name(shelf, key))
        if found is None:
            return None
        expires = found.get("expires")
        return Document(
            value=found["value"],
            version=found["version"],
            expires_at=None if expires is None else datetime.fromtimestamp(expires, UTC),
        )

    async def put(
        self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected, expires: float | None = None
    ) -> str:
        """See Documents."""
        name, version = _name(shelf, key), secrets.token_hex(8)
        document = {"value": value, "version": version}
        if expires is not None:
            document["expires"] = time.time() + expires
        with self._locked() as kept:
            _compare(kept, name, expected)
            self._write({**kept, name: document})
        return version

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """See Documents."""
        name = _name(shelf, key)
        with self._locked() as kept:
            _compare(kept, name, expected)
            self._write({other: document for other, document in kept.items() if other != name})

    async def keys(self, shelf: DocumentScope, prefix: str) -> list[str]:
        """See Documents."""
        with self._locked() as kept:
            found = [_key(shelf, name) for name in kept]
        return sorted(key for key in found if key is not None and key.startswith(prefix))

    @contextmanager
    def _locked(self) -> Iterator[Kept]:
        """What is kept, while nobody else changes it."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.with_suffix(".lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                yield self._read()
        except OSError as error:
            raise StateUnavailableError(f"{self._path} cannot be used: {error.strerror}") from error

    def _read(self) -> Kept:
        try:
            kept = json.loads(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise StateUnavailableError(f"{self._path} is no longer valid JSON; remove it") from error
        if not isinstance(kept, dict):
            return {}
        now = time.time()
        return {name: one for name, one in kept.items() if one.get("expires", now + 1) > now}

    def _write(self, kept: Kept) -> None:
        written = self._path.with_suffix(".new")
        written.write_text(json.dumps(kept, indent=2, ensure_ascii=False), encoding="utf-8")
        written.replace(self._path)


def _name(shelf: DocumentScope, key: str) -> str:
    """Readable, and different for different places: what people write comes last or is between quotes."""
    if shelf.external_id is not None:
        return f"{_place(shelf)}{key}"
    return _place(shelf) + (json.dumps(key) if key.startswith((_USERS, '"')) else key)


def _key(shelf: DocumentScope, name: str) -> str | None:
    """The key that ``_name`` made a name of; None where it is that of another place."""
    place = _place(shelf)
    if not name.startswith(place):
        return None
    key = name.removeprefix(place)
    if shelf.external_id is not None:
        return key
    if key.startswith('"'):
        return str(json.loads(key))
    return None if key.startswith(_USERS) else key


def _place(shelf: DocumentScope) -> str:
    user = "" if shelf.external_id is None else f"{_USERS}{json.dumps(shelf.external_id)}/"
    return f"{shelf.kind}/{user}"


def _compare(kept: Kept, name: str, expected: Expected) -> None:
    found = kept.get(name)
    if not isinstance(expected, AnyVersion) and expected != (found["version"] if found else None):
        raise DocumentChangedError(name)
