"""``tieline schedules``."""

from typing import Annotated

import typer

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.options import (
    HERE,
    ContextOption,
    EnvironmentOption,
    OrganisationOption,
    OutputOption,
    ProjectOption,
    client,
)
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import environment_of, find_project, project_name
from tieline.cli.terminal import Output, age, say, show

schedules = typer.Typer(no_args_is_help=True, help="List, run, pause and resume schedules.")
NameArgument = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name or id.")]


@schedules.command("list")
def list_schedules(
    *,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the schedules of an environment."""
    remote = client(context, organisation)
    items: list[Json] = remote.get(_path(remote, project, environment))
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


@schedules.command("run")
def run_schedule(
    name: NameArgument,
    *,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only for this user: id or external id.")
    ] = None,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Run a schedule now."""
    remote = client(context, organisation)
    path, found = _find(remote, project, environment, name)
    remote.request("POST", f"{path}/{found['id']}", body={"user": user} if user else None)
    say(f"{found['name']} runs now; `tieline runs list --kind schedule --task {found['name']}` shows it")


@schedules.command("pause")
def pause(
    name: NameArgument,
    *,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Skip the times of a schedule until it is resumed."""
    _set_paused(client(context, organisation), project, environment, name, paused=True)


@schedules.command("resume")
def resume(
    name: NameArgument,
    *,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Run a schedule at its times again."""
    _set_paused(client(context, organisation), project, environment, name, paused=False)


def _set_paused(
    remote: Client, project: str | None, environment: str | None, name: str, *, paused: bool
) -> None:
    path, found = _find(remote, project, environment, name)
    remote.request("PUT", f"{path}/{found['id']}", body={"paused": paused})
    say(f"{'Paused' if paused else 'Resumed'} {found['name']}")


def _path(remote: Client, project: str | None, environment: str | None) -> str:
    found = environment_of(find_project(remote, project_name(HERE, project)), environment)
    return f"environments/{found['id']}/schedulers"


def _find(remote: Client, project: str | None, environment: str | None, name: str) -> tuple[str, Json]:
    path = _path(remote, project, environment)
    items: list[Json] = remote.get(path)
    for item in items:
        if name in (item["name"], item["id"]):
            return path, item
    known = ", ".join(item["name"] for item in items) or "none"
    raise CommandError(f"There is no schedule {name!r}; known are: {known}", ExitCode.NOT_FOUND)


def _time(value: object) -> object:
    """A time, or the time of a run."""
    return value.get("startedAt") or value.get("queuedAt") if isinstance(value, dict) else value
