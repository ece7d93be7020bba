"""Options that several commands have."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.contexts import Context, selected
from tieline.cli.remote.lookup import environment_of, find_project, project_name
from tieline.cli.terminal import Output, is_interactive, one_line

ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="The context to use, in place of the current one.",
        show_default=False,
    ),
]
OrganisationOption = Annotated[
    str | None,
    typer.Option(
        "--organisation",
        "-O",
        metavar="ID",
        help="The organisation, in place of the context's.",
        show_default=False,
    ),
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="A table for people, JSON or YAML for programs.")
]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project",
        "-p",
        envvar="TIELINE_PROJECT",
        metavar="NAME",
        help="The project's name or id. Default: `project` in tieline.yaml, or the folder's name.",
        show_default=False,
    ),
]
EnvironmentOption = Annotated[
    str | None,
    typer.Option(
        "--environment",
        "-e",
        envvar="TIELINE_ENVIRONMENT",
        metavar="NAME",
        help="The environment's name or id. Optional if the project has one.",
        show_default=False,
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")]
LimitOption = Annotated[int, typer.Option("--limit", "-n", min=1, max=10_000, help="At most this many.")]
HERE = Path()
FolderArgument = Annotated[
    Path, typer.Argument(metavar="FOLDER", help="The folder with main.py, or with integration/main.py.")
]

_LONGEST_SECONDS = 100 * 366 * 86400
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, kw_only=True)
class Platform:
    """Options that say which organisation of which platform a command works on."""

    context: ContextOption = None
    organisation: OrganisationOption = None

    def selected(self) -> Context:
        """Raises CommandError."""
        return selected(self.context, organisation=self.organisation)

    def client(self) -> Client:
        """Raises CommandError."""
        return Client(self.selected())


@dataclass(frozen=True, kw_only=True)
class InProject:
    """The option that says which project a command is about."""

    project: ProjectOption = None

    def project_name(self) -> str:
        """Raises UsageError."""
        return project_name(HERE, self.project)

    def find_project(self, remote: Client) -> Json:
        """The project in the list of projects. Raises CommandError."""
        return find_project(remote, self.project_name())

    def project_id(self, remote: Client) -> str:
        """Raises CommandError."""
        identifier: str = self.find_project(remote)["id"]
        return identifier


@dataclass(frozen=True, kw_only=True)
class InEnvironment(InProject):
    """Options that say which environment of which project a command is about."""

    environment: EnvironmentOption = None

    def find_environment(self, remote: Client) -> tuple[Json, Json]:
        """The project and its environment. Raises CommandError."""
        found = self.find_project(remote)
        return found, environment_of(found, self.environment)


def json_value(text: str) -> Any:
    """JSON from an option: the text itself, ``@file``, or ``-`` for standard input. Raises UsageError."""
    source = "the value"
    content: bytes = text.encode()
    if text == "-":
        source, content = "standard input", typer.get_binary_stream("stdin").read()
    elif text.startswith("@"):
        source, content = text[1:], read_file(Path(text[1:]))
    try:
        return orjson.loads(content)
    except ValueError as error:
        raise UsageError(f"{source} is not JSON: {error}") from None


def read_file(path: Path) -> bytes:
    """A file's content. Raises UsageError."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None


def read_secret(file: Path | None, what: str, *, option: str) -> str:
    """A secret from a file, from standard input (``-``), or from the person at the terminal. Raises UsageError."""
    if file is not None:
        content = typer.get_binary_stream("stdin").read() if str(file) == "-" else read_file(file)
        text = content.decode("utf-8", "replace").strip()
    elif is_interactive():
        text = str(typer.prompt(what, hide_input=True, err=True)).strip()
    else:
        raise UsageError(f"{what} is needed: give it with {option}")
    if not text:
        raise UsageError(f"{what} is empty")
    return text


def seconds_of(text: str) -> float:
    """A duration such as ``30s``, ``10m``, ``2h`` or ``1d`` in seconds. Raises UsageError."""
    number, unit = text[:-1], text[-1:]
    try:
        seconds = float(number) * _UNITS[unit] if unit in _UNITS else float(text)
    except ValueError:
        seconds = -1
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise UsageError(f"{text!r} is no duration, such as 30s, 10m, 2h or 1d")
    return seconds


def moment(text: str | None) -> str | None:
    """A time in RFC 3339 from a time, or from how long ago it was (``10m``). Raises UsageError."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = datetime.now(UTC) - timedelta(seconds=seconds_of(text))
    try:
        time = time.astimezone(UTC)
    except OverflowError:
        raise UsageError(f"{text!r} is too far away") from None
    return _rfc3339(time)


def time_after(text: str) -> str:
    """The time in RFC 3339 that is a duration such as ``7d`` away. Raises UsageError."""
    return _rfc3339(datetime.now(UTC) + timedelta(seconds=seconds_of(text)))


def _rfc3339(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def confirm(question: str, *, yes: bool) -> None:
    """Asks a person; without one, ``--yes`` is needed. Raises typer.Abort, or UsageError."""
    if yes:
        return
    if not is_interactive():
        raise UsageError(f"{question} Confirm with --yes.")
    typer.confirm(one_line(question), abort=True, err=True)
