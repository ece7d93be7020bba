"""Bodies and headers of requests that commands send, and bodies of the answers."""

import re
import sys
from pathlib import Path

from tieline.cli.exit_codes import UsageError
from tieline.cli.options import read_file
from tieline.cli.terminal import note, safe

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER = "A header needs a colon: write NAME: VALUE"


def body_bytes(data: str) -> bytes:
    """The body that an option gives: text, @FILE or - (standard input)."""
    if data == "-":
        return sys.stdin.buffer.read()
    return read_file(Path(data[1:])) if data.startswith("@") else data.encode()


def header_of(text: str) -> tuple[str, str]:
    """Name and value of ``NAME: VALUE``; UsageError for anything else."""
    name, colon, value = text.partition(":")
    if not colon or not _NAME.fullmatch(name.strip()):
        # Not the value, which may be a secret.
        raise UsageError(f"{name!r} is no header's name: write NAME: VALUE" if colon else _NO_HEADER)
    if not value.isascii() or not value.strip().isprintable():
        raise UsageError(f"The header {name} has characters that headers cannot have")
    return name.strip(), value.strip()


def write_body(content: bytes) -> None:
    """Writes a body: as it is into a file or a pipe, and as text that cannot control it to a terminal."""
    if not sys.stdout.isatty():
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    try:
        text = safe(content.decode())
    except UnicodeDecodeError:
        note(f"The body is {len(content)} bytes that are no text; redirect them to a file")
        return
    sys.stdout.write(text + ("" if text.endswith("\n") or not text else "\n"))
