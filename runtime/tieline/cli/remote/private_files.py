"""Files of the user alone: contexts and tokens. They are read only if nobody else could have written them."""

import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError

_LOCK_SECONDS = 90.0
"""Longer than a command needs to refresh a token."""
_WRITERS, _READERS = 0o022, 0o077


def read_private(path: Path, *, secret: bool = False) -> str:
    """The text of a file.

    Raises UsageError if others could have written it, CommandError for a secret that others may read, and OSError and
    ValueError if it cannot be read. A secret is not read through a symbolic link.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    descriptor = os.open(path, flags | os.O_NOFOLLOW if secret else flags)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise UsageError(f"{path} is no file")
        if secret and facts.st_mode & _READERS:
            raise CommandError(
                f"Others may read {path}, so its token is not used. "
                "Run `tieline login` again, and revoke the old token.",
                ExitCode.NOT_SIGNED_IN,
            )
        _check(path, facts)
        _check(path.parent, path.parent.stat())
        return file.read()


def write_private(path: Path, text: str) -> None:
    """Replaces a file that its owner alone may read, in one step. Raises CommandError."""
    try:
        make_private(path.parent)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}") from None


def make_private(folder: Path) -> None:
    """Creates a folder, and those above it that are missing, for their owner alone."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Only one command at a time is in such a block for a folder. Raises CommandError."""
    try:
        make_private(folder)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CommandError(f"{folder} cannot be written: {error.strerror}") from None
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise CommandError(
                        f"Another tieline command holds {folder / '.lock'}", ExitCode.UNAVAILABLE
                    ) from None
                time.sleep(0.05)
        yield
    finally:
        os.close(descriptor)


def _check(path: Path, facts: os.stat_result) -> None:
    """Raises UsageError for what somebody else could have written, and so could send a token elsewhere."""
    if facts.st_uid not in (os.geteuid(), 0):
        raise UsageError(f"{path} belongs to another user, so it is not used")
    if facts.st_mode & _WRITERS:
        raise UsageError(f"Others may change {path}, so it is not used. Run: chmod go-w {path}")
