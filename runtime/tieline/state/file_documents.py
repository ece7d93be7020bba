"""Documents in a JSON file, for one's own desk: they outlive the process, and several processes may share them."""

import fcntl
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
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

Kept = dict[str, dict[str, Any]]


class FileDocuments:
    """Keeps all documents in one file, which is read anew each time; see Documents."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self, shelf: DocumentScope, key: str) -> Document | None:
        """See Documents."""
        with self._locked() as kept:
            found = kept.get(_name(shelf, key))
        return Document(value=found["value"], version=found["version"]) if found else None

    async def put(self, shelf: DocumentScope, key: str, value: Any, *, expected: Expected) -> str:
        """See Documents."""
        name, version = _name(shelf, key), secrets.token_hex(8)
        with self._locked() as kept:
            _compare(kept, name, expected)
            self._write({**kept, name: {"value": value, "version": version}})
        return version

    async def delete(self, shelf: DocumentScope, key: str, *, expected: Expected) -> None:
        """See Documents."""
        name = _name(shelf, key)
        with self._locked() as kept:
            _compare(kept, name, expected)
            self._write({other: document for other, document in kept.items() if other != name})

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
            raise StateUnavailableError(f"{self._path} is not JSON any more; remove it") from error
        return kept if isinstance(kept, dict) else {}

    def _write(self, kept: Kept) -> None:
        written = self._path.with_suffix(".new")
        written.write_text(json.dumps(kept, indent=2, ensure_ascii=False), encoding="utf-8")
        written.replace(self._path)


def _name(shelf: DocumentScope, key: str) -> str:
    """Readable, and different for different places: what people write comes last or is between quotes."""
    user = "" if shelf.external_id is None else f"/users/{json.dumps(shelf.external_id)}"
    return f"{shelf.kind}{user}/{key}"


def _compare(kept: Kept, name: str, expected: Expected) -> None:
    found = kept.get(name)
    if not isinstance(expected, AnyVersion) and expected != (found["version"] if found else None):
        raise DocumentChangedError(name)
