"""``tieline schedules``."""

from typing import Annotated

import typer

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, OutputOption, Platform
from tieline.cli.remote.client import Client, Json
from tieline.cli.terminal import Output, age, say, show

schedules = Commands(no_args_is_help=True, help="List, run, pause and resume schedules.")
NameArgument = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name or id.")]


@schedules.command("list")
def list_schedules(
    *,
    everywhere: Annotated[
        bool, typer.Option("--all", help="Schedules of all projects and environments, next run first.")
    ] = False,
    where: InEnvironment,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the schedules of an environment, or of all environments."""
    remote = platform.client()
    if everywhere:
        _list_all(remote, output)
        return
    items: list[Json] = remote.get(_path(remote, where))
    show(
        output,
        items,
        ("name", "schedule", "timezone", "last run", "next run", "paused"),
        lambda: [
            (
                item["name"],
                item["schedule"],
                item.get("timezone"),
                age(_time(item.get("lastRun"))),
                age(_time(item.get("nextRun"))),
                "yes" if item.get("paused") else "",
            )
            for item in items
        ],
        empty="The deployed version has no schedules.",
    )


def _list_all(remote: Client, output: Output) -> None:
    items = list(remote.pages("schedulers", limit=10_000))
    show(
        output,
        items,
        ("project", "environment", "name", "schedule", "next run", "last run", "result", "paused"),
        lambda: [
            (
                item["projectName"],
                item["environmentName"],
                item["name"],
                item["schedule"],
                age(item.get("nextRun")),
                age(item.get("lastRun")),
                item.get("lastRunStatus"),
                "yes" if item.get("paused") else "",
            )
            for item in items
        ],
        empty="No deployed version has schedules.",
    )


@schedules.command("run")
def run_schedule(
    name: NameArgument,
    *,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only for this user: id or external id.")
    ] = None,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Run a schedule now."""
    remote = platform.client()
    path, found = _find(remote, where, name)
    remote.request("POST", f"{path}/{found['id']}", body={"user": user} if user else None)
    say(f"{found['name']} runs now; `tieline runs list --kind schedule --task {found['name']}` shows it")


@schedules.command("pause")
def pause(
    name: NameArgument,
    *,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Skip the times of a schedule until it is resumed."""
    _set_paused(platform.client(), where, name, paused=True)


@schedules.command("resume")
def resume(
    name: NameArgument,
    *,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Run a schedule at its times again."""
    _set_paused(platform.client(), where, name, paused=False)


def _set_paused(remote: Client, where: InEnvironment, name: str, *, paused: bool) -> None:
    path, found = _find(remote, where, name)
    remote.request("PUT", f"{path}/{found['id']}", body={"paused": paused})
    say(f"{'Paused' if paused else 'Resumed'} {found['name']}")


def _path(remote: Client, where: InEnvironment) -> str:
    _, found = where.find_environment(remote)
    return f"environments/{found['id']}/schedulers"


def _find(remote: Client, where: InEnvironment, name: str) -> tuple[str, Json]:
    path = _path(remote, where)
    items: list[Json] = remote.get(path)
    for item in items:
        if name in (item["name"], item["id"]):
            return path, item
    known = ", ".join(item["name"] for item in items) or "none"
    raise CommandError(f"There is no schedule {name!r}; known are: {known}", ExitCode.NOT_FOUND)


def _time(value: object) -> object:
    """A time, or the time of a run."""
    return value.get("startedAt") or value.get("queuedAt") if isinstance(value, dict) else value
