"""What runs are chosen by, in the commands about runs and traces."""

from typing import Annotated, Any

import typer

from tieline.cli.options import HERE, moment
from tieline.cli.remote.client import Client
from tieline.cli.remote.lookup import find_project, project_name

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
StatusOption = Annotated[
    str | None,
    typer.Option("--status", help="queued, running, waiting, succeeded, failed, dead or cancelled."),
]
KindOption = Annotated[str | None, typer.Option("--kind", help="webhook, event, schedule or background.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="The webhook's, event's or schedule's name.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="The user's external id.")]
VersionOption = Annotated[
    str | None, typer.Option("--version", metavar="NAME", help="The version's name or id.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Queued from this time on, or this long ago: 10m, 2h.")
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="Queued before this time, or this long ago.")
]
SearchOption = Annotated[str | None, typer.Option("--search", help="Text in errors.")]
KeyOption = Annotated[str | None, typer.Option("--key", help="The event's key.")]


def project_id(remote: Client, project: str | None) -> str:
    identifier: str = find_project(remote, project_name(HERE, project))["id"]
    return identifier


def filters_of(
    environment: str | None,
    status: str | None,
    kind: str | None,
    task: str | None,
    user: str | None,
    version: str | None,
    since: str | None,
    until: str | None,
    search: str | None,
    key: str | None,
) -> dict[str, Any]:
    return {
        "project_env": environment,
        "status": status,
        "kind": kind,
        "task": task,
        "user": user,
        "version": version,
        "start": moment(since),
        "end": moment(until),
        "search": search,
        "key": key,
    }
