"""Bodies and headers of requests that commands send, and bodies of the answers."""

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.options import read_file
from tieline.cli.terminal import note, safe

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NO_HEADER = "A header needs a colon: write NAME: VALUE"


@dataclass(frozen=True, kw_only=True)
class RequestOptions:
    """Options that say which request a command sends."""

    method: Annotated[
        str | None, typer.Option("--method", "-X", help="The method. Default: POST with data, GET without.")
    ] = None
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", metavar="TEXT", help="The body: text, @FILE or - (standard input)."),
    ] = None
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME: VALUE", help="A header; may be repeated."),
    ] = None
    include: Annotated[bool, typer.Option("--include", "-i", help="Show status and headers, too.")] = False

    def chosen_method(self) -> str:
        """The method in capital letters."""
        return (self.method or ("GET" if self.data is None else "POST")).upper()

    def headers(self) -> dict[str, str]:
        """The headers; a body without a type is JSON. Raises UsageError."""
        headers = dict(_header(item) for item in self.header or ())
        if self.data is not None and not any(name.lower() == "content-type" for name in headers):
            headers["Content-Type"] = "application/json"
        return headers

    def body(self) -> bytes | None:
        """Raises UsageError."""
        return None if self.data is None else _content(self.data)


def _content(data: str) -> bytes:
    """The body that an option gives: text, @FILE or - (standard input)."""
    if data == "-":
        return sys.stdin.buffer.read()
    return read_file(Path(data[1:])) if data.startswith("@") else data.encode()


def _header(text: str) -> tuple[str, str]:
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
