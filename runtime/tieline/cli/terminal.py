"""What the command writes: text that cannot control the terminal, tables, JSON and YAML."""

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import orjson
import yaml
from rich.console import Console
from rich.table import Table
from rich.text import Text

_ACTING = "\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
"""Characters from DEL on that act on a terminal or the direction of text, and halves of surrogate pairs."""
_CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f{_ACTING}]")
_NOT_IN_JSON, _NOT_ASCII = re.compile(f"[{_ACTING}]"), re.compile("[^\x00-\x7e]")
_PIPE_WIDTH = 100_000
_STATUS_STYLES = {
    "succeeded": "green",
    "running": "green",
    "complete": "green",
    "ready": "green",
    "healthy": "green",
    "serving": "green",
    "crashed": "red",
    "works": "green",
    "refused": "red",
    "invalid": "red",
    "not authorised": "yellow",
    "not checked": "dim",
    "rolled back": "yellow",
    "replaced": "dim",
    "failed": "red",
    "dead": "red",
    "error": "red",
    "regressed": "red",
    "open": "red",
    "resolved": "green",
    "muted": "dim",
    "waiting": "yellow",
    "queued": "cyan",
    "progressing": "cyan",
    "suspended": "yellow",
    "draft": "dim",
    "cancelled": "dim",
    "superseded": "dim",
}


class Output(StrEnum):
    """How results are written."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """The command ends as with any other write."""
        raise BrokenPipeError


def out() -> Console:
    """The console of results."""
    return _Console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def err() -> Console:
    """The console of progress, warnings and errors: standard error."""
    return _Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def safe(text: object) -> str:
    """Text without characters that control a terminal or the direction of text: they are written as ``\\x1b``.

    >>> safe("a\\x1b[31mb")
    'a\\\\x1b[31mb'
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", str(text))


def one_line(text: object) -> str:
    """Safe text whose line ends are written as ``\\n``, so that it cannot look like further lines."""
    return safe(text).replace("\n", "\\n")


def indented(text: object, width: int) -> str:
    """Safe text whose further lines are indented, so that they cannot look like others of the output."""
    return safe(text).replace("\n", "\n" + " " * width)


def say(text: str, *, style: str = "") -> None:
    """Writes a line of results."""
    out().print(Text(safe(text), style=style))


def note(text: str) -> None:
    """Writes a line about progress."""
    err().print(Text(safe(text)))


def warn(text: str) -> None:
    """Writes a warning."""
    err().print(Text(f"Warning: {safe(text)}", style="yellow"))


def styled(status: object) -> Text:
    """A status in its colour."""
    return Text(one_line(status), style=_STATUS_STYLES.get(str(status), ""))


def write(value: Any, output: Output) -> None:
    """Writes a result for programs."""
    if output is Output.JSON:
        sys.stdout.write(json_text(value, indent=True) + "\n")
        return
    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=True)
    if _escapes().search(text):
        text = yaml.safe_dump(value, sort_keys=False)
    sys.stdout.write(text)


def json_text(value: Any, *, indent: bool = False) -> str:
    """JSON without characters that act on a terminal: they are escaped, so programs read the same value."""
    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None).decode()
    return _escapes().sub(lambda found: _escaped(found[0]), text)


def _escapes() -> re.Pattern[str]:
    utf8 = (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "") == "utf8"
    return _NOT_IN_JSON if utf8 else _NOT_ASCII


def _escaped(character: str) -> str:
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]


def show(
    output: Output,
    value: Any,
    columns: Sequence[str] = (),
    rows: Callable[[], Iterable[Sequence[object]]] | None = None,
    *,
    empty: str = "",
) -> None:
    """Writes a list: a table for people, the value as the API has it for programs."""
    if output is not Output.TABLE or rows is None:
        write(value, Output.YAML if output is Output.TABLE else output)
        return
    table = Table(box=None, pad_edge=False, show_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.upper(), overflow="fold", no_wrap=False)
    for row in rows():
        table.add_row(*(cell if isinstance(cell, Text) else Text(one_line(_blank(cell))) for cell in row))
    if table.row_count:
        console = out()
        if not console.is_terminal:
            # A file or a pipe has no width: cut nothing.
            console = _Console(highlight=False, markup=False, emoji=False, width=_PIPE_WIDTH)
        console.print(table)
    elif empty:
        note(empty)


def details(output: Output, value: Any, facts: Mapping[str, object]) -> None:
    """Writes one object: its facts for people, the value as the API has it for programs."""
    if output is not Output.TABLE:
        write(value, output)
        return
    width = max(map(len, facts), default=0)
    console = out()
    for name, fact in facts.items():
        if fact is None or fact == "":
            continue
        line = Text(f"{name + ':':<{width + 2}}", style="bold")
        line.append_text(fact if isinstance(fact, Text) else Text(indented(fact, width + 2)))
        console.print(line)


def age(time: object, *, now: datetime | None = None) -> str:
    """How long ago an RFC 3339 time is: ``42s``, ``5m``, ``3h``, ``12d``; ``in 5m`` for a later one."""
    if not isinstance(time, str):
        return ""
    try:
        seconds = ((now or datetime.now(UTC)) - datetime.fromisoformat(time)).total_seconds()
    except (ValueError, TypeError):
        return time
    text = span(abs(seconds))
    return text if seconds >= 0 else f"in {text}"


def duration(start: object, end: object) -> str:
    """The time between two RFC 3339 times, such as ``1.2s``."""
    if not isinstance(start, str) or not isinstance(end, str):
        return ""
    try:
        seconds = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds()
    except (ValueError, TypeError):
        return ""
    if seconds < 1:
        return f"{seconds * 1000:.0f}ms"
    return f"{seconds:.1f}s" if seconds < 60 else span(seconds)


def local(time: object) -> str:
    """An RFC 3339 time in the reader's zone, to the second."""
    if not isinstance(time, str):
        return ""
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return time


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Shows what is under way: on a terminal in one line, elsewhere a line for each change."""
    console = err()
    if console.is_terminal:
        with console.status(Text(safe(text))) as status:
            yield lambda now: status.update(Text(safe(now)))
        return
    last = text
    note(text)

    def changed(now: str) -> None:
        nonlocal last
        if now != last:
            last = now
            note(now)

    yield changed


def is_interactive() -> bool:
    """Whether a person can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _blank(cell: object) -> object:
    return "" if cell is None else cell


def span(seconds: float) -> str:
    """Seconds in their largest unit: ``42s``, ``5m``, ``3h``, ``12d``."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length or (unit == "m" and seconds >= length):
            return f"{int(seconds // length)}{unit}"
    return f"{int(seconds)}s"
