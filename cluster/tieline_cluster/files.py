"""Writing files so that a reader, or the next run after a kill, never sees half of one."""

import os
from pathlib import Path


def write_if_changed(path: Path, content: str | bytes, *, mode: int = 0o644) -> bool:
    """Put `content` at `path` by a rename, with its folders; returns whether it was different before."""
    data = content.encode() if isinstance(content, str) else content
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
    temporary.rename(path)
    return True
