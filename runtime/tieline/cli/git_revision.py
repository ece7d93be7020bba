"""The Git commit of a folder."""

import os
import subprocess
from pathlib import Path

_SECONDS = 5
_OF_HOOKS = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR"})


def git_revision(folder: Path) -> str | None:
    """The commit of a folder's files, with ``-dirty`` if they differ from it; None if Git does not track them."""
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    changed = _git(folder, "status", "--porcelain", "--untracked-files=all", "--", ".") if commit else None
    if not commit or changed is None or _git(folder, "ls-files", "--", ".") == "":
        return None
    return f"{commit}-dirty" if changed else commit


def _git(folder: Path, *arguments: str) -> str | None:
    """The output of Git; None if it fails. Never starts the file system monitor that the repository configures."""
    # In a hook, these variables name another repository.
    settings = {name: value for name, value in os.environ.items() if name not in _OF_HOOKS}
    try:
        ended = subprocess.run(  # noqa: S603  (fixed arguments)
            ["git", "-c", "core.fsmonitor=false", "-C", str(folder), *arguments],  # noqa: S607
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env={**settings, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.strip() if ended.returncode == 0 else None
