"""``tieline logs``."""

import sys
import time
from typing import Annotated

import orjson
import typer

from tieline.cli.log_format import readable
from tieline.cli.options import (
    HERE,
    ContextOption,
    EnvironmentOption,
    OrganisationOption,
    ProjectOption,
    client,
    moment,
)
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import environment_of, find_project, project_name
from tieline.cli.terminal import Output, err, out, safe, write

_POLL_SECONDS = 2.0
_REMEMBERED = 4000


def logs(
    *,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
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
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="Lines for people, or JSON or YAML.")
    ] = Output.TABLE,
) -> None:
    """Show the log lines of all pods of an environment, oldest first."""
    remote = client(context, organisation)
    found = find_project(remote, project_name(HERE, project))
    query: Json = {
        "project_env": environment_of(found, environment)["name"],
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
    while len(found) < count:
        page = remote.get(path, **query, first=min(count - len(found), 1000), order="desc", next_token=token)
        found += page["logs"]
        token = page.get("nextToken")
        if not token:
            break
    return found[::-1]


def _follow(remote: Client, path: str, query: Json, shown: list[Json], output: Output) -> None:
    """Writes new lines. The last moment is read again, because more lines of it can come: content tells them apart."""
    known = dict.fromkeys(map(_identity, shown[-_REMEMBERED:]))
    start = shown[-1]["timestamp"] if shown else moment("1s")
    query = {**query, "end": None}
    while True:
        time.sleep(_POLL_SECONDS)
        token = None
        while True:
            page = remote.get(path, **{**query, "start": start}, first=1000, order="asc", next_token=token)
            for entry in page["logs"]:
                identity = _identity(entry)
                if identity not in known:
                    known[identity] = None
                    _write(entry, output)
                    start = max(start, entry["timestamp"])
            token = page.get("nextToken")
            if not token:
                break
        for old in list(known)[:-_REMEMBERED]:
            del known[old]


def _identity(entry: Json) -> bytes:
    return orjson.dumps(entry, option=orjson.OPT_SORT_KEYS)


def _write(entry: Json, output: Output) -> None:
    if output is Output.TABLE:
        colour = out().is_terminal
        line = "\n".join(map(safe, _plain(entry).split("\n"))) if not colour else _coloured(entry)
        sys.stdout.write(line + "\n")
    else:
        sys.stdout.write(orjson.dumps(entry).decode() + "\n")
    sys.stdout.flush()
    err()


def _plain(entry: Json) -> str:
    return readable(_line(entry), colour=False)


def _coloured(entry: Json) -> str:
    # Only the colours of log_format reach the terminal: the texts are made safe before.
    return readable(_line(_safe_texts(entry)), colour=True)


def _safe_texts(value: object) -> object:
    if isinstance(value, str):
        return "\n".join(map(safe, value.split("\n")))
    if isinstance(value, dict):
        return {safe(name): _safe_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_safe_texts(item) for item in value]
    return value


def _line(entry: object) -> str:
    return orjson.dumps(entry).decode()
