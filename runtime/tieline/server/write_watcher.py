"""Watches which files the code writes into its own folder, which a pod mounts read-only (audit hooks, PEP 578)."""

import contextlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Note = Callable[[str], None]

WHAT_TO_DO = (
    "a pod's folder is read-only, so this fails there; write to /tmp, or keep small values in ctx.state"
)
_WRITING = os.O_WRONLY | os.O_RDWR
_DATABASE_FILES = ("", "-journal", "-wal", "-shm")
_watching: list[tuple[str, Note]] = []
_hooks: list[Callable[[str, tuple[Any, ...]], None]] = []


def watch_writes(code: Path, note: Note) -> Callable[[], None]:
    """Call ``note`` with the path of each file below ``code`` before this process writes, moves or removes it.

    Returns what ends it. Paths have symbolic links resolved, and may be reported again.
    """
    watch = (os.path.join(code.resolve(), ""), note)
    _watching.append(watch)
    if not _hooks:
        # A hook cannot be removed.
        _hooks.append(_hook)
        sys.addaudithook(_hook)
    return lambda: _watching.remove(watch)


def is_visible(path: str, code: Path) -> bool:
    """Whether ``path`` is a file of the code's own: hidden files and compiled modules are a tool's."""
    parts = Path(path).relative_to(code.resolve()).parts
    return not any(part.startswith(".") or part == "__pycache__" for part in parts)


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching:
        return
    with contextlib.suppress(Exception):  # the code must not fail because it is watched
        match event, arguments:
            case "open", (path, _, int(flags)) if flags & _WRITING:
                _note(path)
            case (("os.rename" | "os.link" | "os.symlink"), (source, target, *_)):
                _note(source)
                _note(target)
            case (("os.remove" | "os.truncate"), (path, *_)):
                _note(path)
            case "sqlite3.connect", (path, *_):
                for ending in _DATABASE_FILES:
                    _note(f"{os.fsdecode(path)}{ending}")


def _note(path: Any) -> None:
    if not isinstance(path, str | bytes | os.PathLike):
        return
    full = os.path.realpath(os.fsdecode(path))
    for root, note in _watching:
        if full.startswith(root):
            note(full)
