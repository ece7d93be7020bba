"""Writes a page of the documentation that is generated, or compares it."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def write_or_compare(page: Path, text: str) -> int:
    """The status of the process: with ``--check`` the page is compared, and stays as it is."""
    if "--check" not in sys.argv[1:]:
        page.write_text(text, "utf-8")
    elif text != page.read_text("utf-8"):
        print(f"{page.relative_to(ROOT)} is not current: run `make manifests`", file=sys.stderr)
        return 1
    return 0
