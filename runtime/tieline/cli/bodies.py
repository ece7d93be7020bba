"""Bodies and headers of requests that commands send, and bodies of the answers."""

import sys
from pathlib import Path

from tieline.cli.exit_codes import UsageError
from tieline.cli.options import read_file
from tieline.cli.terminal import note, safe


def body_bytes(data: str) -> bytes:
    """The body that an option gives: text, @FILE or - (standard input)."""
    if data == "-":
        return sys.stdin.buffer.read()
    return read_file(Path(data[1:])) if data.startswith("@") else data.encode()


def header_of(text: str) -> tuple[str, str]:
    """Name and value of ``NAME: VALUE``; UsageError for anything else."""
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        raise UsageError(f"{text!r} is no header: write NAME: VALUE")
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
