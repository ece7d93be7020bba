"""``tieline releases``."""

from typing import Annotated

import typer
from rich.text import Text

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, OutputOption, Platform
from tieline.cli.remote.client import Client, Json
from tieline.cli.terminal import Output, age, details, one_line, say, show, span, styled

releases = Commands(
    no_args_is_help=True, help="List and show releases: who deployed which version, and the outcome."
)
_MOST = 100


@releases.command("list")
def list_releases(
    *,
    where: InEnvironment,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the last releases of an environment, newest first, including refused and crashed ones."""
    remote = platform.client()
    items = list(remote.pages(_path(remote, where), limit=_MOST))
    show(
        output,
        items,
        ("release", "outcome", "version", "age", "by", "revision", "served", "failed runs", "message"),
        lambda: [
            (
                item["number"],
                _outcome(item),
                item["version"]["name"],
                age(item["deployedAt"]),
                _deployer(item),
                item.get("revision"),
                _served(item),
                _failed_runs(item),
                (item.get("failure") or {}).get("message") or item.get("message"),
            )
            for item in items
        ],
        empty="There are no releases. Deploy with `tieline deploy`.",
    )


@releases.command("show")
def show_release(
    number: Annotated[
        str, typer.Argument(metavar="RELEASE", help="The release's number. Default: the newest one.")
    ] = "latest",
    *,
    where: InEnvironment,
    diff: Annotated[bool, typer.Option("--diff", help="Show the lines that changed.")] = False,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a release: who deployed it, what it changed, and the outcome."""
    remote = platform.client()
    if number != "latest" and not (number.isascii() and number.isdecimal()):
        raise CommandError(
            f"There is no release {number!r}; `tieline releases list` shows the numbers", ExitCode.NOT_FOUND
        )
    found = remote.get(f"{_path(remote, where)}/{number}")
    failure = found.get("failure") or {}
    details(
        output,
        found,
        {
            "release": found["number"],
            "version": found["version"]["name"],
            "outcome": _outcome(found),
            "reason": failure.get("message"),
            "deployed": f"{age(found['deployedAt'])} ago",
            "by": _deployer(found),
            "message": found.get("message"),
            "revision": found.get("revision"),
            "served": _served(found),
            "failed runs": _failed_runs(found),
            "roll back to": (found.get("rollbackVersion") or {}).get("name"),
        },
    )
    if output is Output.TABLE:
        _say_changes(found, whole=diff)


def _path(remote: Client, where: InEnvironment) -> str:
    project, environment = where.find_environment(remote)
    return f"projects/{project['id']}/environments/{environment['id']}/releases"


def _say_changes(found: Json, *, whole: bool) -> None:
    changes = found.get("changes")
    if changes is None:
        if found.get("previous"):
            say("Its changes are unknown: one of the two versions is no longer kept")
        return
    if not changes["files"] and not changes["labels"]:
        say(f"It changed no file since release {found['previous']}")
    for file in changes["files"]:
        say(f"{file['change']}: {one_line(file['filename'])}")
        if whole and file.get("diff"):
            say(file["diff"].rstrip("\n"))
    for label in changes["labels"]:
        say(f"label {label['key']}: {label.get('before', '')} -> {label.get('after', '')}")


def _outcome(item: Json) -> Text:
    return styled(str(item["outcome"]).replace("_", " "))


def _deployer(item: Json) -> str:
    return str(item.get("by") or item.get("via") or "kubectl")


def _failed_runs(item: Json) -> str:
    if item.get("runs") is None:
        return ""
    return f"{item['failedRuns']} of {item['runs']}"


def _served(item: Json) -> str:
    seconds = item.get("servedSeconds")
    return "" if seconds is None else span(seconds)
