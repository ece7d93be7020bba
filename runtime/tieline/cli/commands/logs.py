"""``tieline logs``."""

import sys
import time
from typing import Annotated

import orjson
import typer

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.log_format import readable
from tieline.cli.options import InEnvironment, Platform, moment
from tieline.cli.remote.client import Client, Json
from tieline.cli.terminal import Output, json_text, note, out, write

_POLL_SECONDS = 2.0
_LONGEST_PAUSE = 30.0
_REMEMBERED = 4000
_MOST_PAGES = 1000
"""Of one question: a server must not keep the command busy for ever."""


def logs(
    *,
    where: InEnvironment,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Continue with new lines, until Ctrl+C.")
    ] = False,
    severity: Annotated[
        str | None,
        typer.Option("--severity", "-s", help="DEBUG, INFO, WARNING, ERROR or CRITICAL: this and above."),
    ] = None,
    search: Annotated[str | None, typer.Option("--search", help="Text in message, error or fields.")] = None,
    run: Annotated[str | None, typer.Option("--run", metavar="ID", help="Only lines of this run.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="From this time on, or this long ago: 10m, 2h.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Before this time, or this long ago.")] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=1, max=20_000, help="At most this many lines.")
    ] = 100,
    checks: Annotated[
        bool, typer.Option("--checks", help="What the checks of versions found, in place of logs.")
    ] = False,
    platform: Platform,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Lines for people, or JSON or YAML.")
    ] = Output.TABLE,
) -> None:
    """Show the log lines of all pods of an environment, oldest first."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    query: Json = {
        "project_env": chosen["name"],
        "severity": severity.upper() if severity else None,
        "search": run or search,
        "start": moment(since),
        "end": moment(until),
        "build": True if checks else None,
    }
    path = f"projects/{found['id']}/logs"
    shown = _newest(remote, path, query, lines)
    if output is Output.YAML or (output is Output.JSON and not follow):
        write(shown, output)
        return
    for entry in shown:
        _write(entry, output)
    if follow:
        _follow(remote, path, query, shown, output)


def _newest(remote: Client, path: str, query: Json, count: int) -> list[Json]:
    found: list[Json] = []
    token = None
    for _ in range(_MOST_PAGES):
        page = remote.get(path, **query, first=min(count - len(found), 1000), order="desc", next_token=token)
        found += page["logs"]
        token = page.get("nextToken")
        if not token or len(found) >= count:
            break
    return found[:count][::-1]


def _follow(remote: Client, path: str, query: Json, shown: list[Json], output: Output) -> None:
    """Writes new lines, until Ctrl+C. While the API is away, it is asked less and less often."""
    known = dict.fromkeys(map(_identity, shown[-_REMEMBERED:]))
    query = {**query, "end": None, "start": shown[-1]["timestamp"] if shown else moment("1s")}
    pause = _POLL_SECONDS
    while True:
        time.sleep(pause)
        try:
            _write_new(remote, path, query, known, output)
            pause = _POLL_SECONDS
        except CommandError as error:
            if error.code is not ExitCode.UNAVAILABLE:
                raise
            if pause == _POLL_SECONDS:
                note(f"{error}; lines follow once it answers")
            pause = min(2 * pause, _LONGEST_PAUSE)


def _write_new(remote: Client, path: str, query: Json, known: dict[bytes, None], output: Output) -> None:
    """Writes the lines that are not ``known``.

    The last moment is read again, because more lines of it can come: content tells them apart.
    """
    token, start = None, query["start"]
    for _ in range(_MOST_PAGES):
        page = remote.get(path, **{**query, "start": start}, first=1000, order="asc", next_token=token)
        for entry in page["logs"]:
            identity = _identity(entry)
            if identity not in known:
                known[identity] = None
                _write(entry, output)
                query["start"] = max(query["start"], entry["timestamp"])
        token = page.get("nextToken")
        if not token:
            break
    for old in list(known)[:-_REMEMBERED]:
        del known[old]


def _identity(entry: Json) -> bytes:
    return orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)


def _write(entry: Json, output: Output) -> None:
    line = json_text(entry)
    if output is Output.TABLE:
        line = readable(line, colour=out().is_terminal)
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()
