"""Projects whose code a test writes."""

from pathlib import Path
from textwrap import dedent

HEAD = """\
from tieline import Context, Integration, Request, SyncContext

integration = Integration()
"""


def folder(path: Path, code: str, **files: str) -> Path:
    """A folder with a main.py that begins with HEAD; a file ``a__b`` is ``a.b``."""
    (path / "main.py").write_text(HEAD + dedent(code))
    for name, text in files.items():
        (path / name.replace("__", ".")).write_text(dedent(text))
    return path
