"""``tieline events publish`` and ``tieline call``."""

import base64
from typing import Annotated
from urllib.parse import parse_qs

import typer

from tieline.cli.bodies import body_bytes, header_of, write_body
from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.options import (
    HERE,
    ContextOption,
    EnvironmentOption,
    OrganisationOption,
    OutputOption,
    ProjectOption,
    client,
    json_value,
    seconds_of,
)
from tieline.cli.remote.client import Json
from tieline.cli.remote.lookup import environment_of, find_project, project_name
from tieline.cli.terminal import Output, note, say, write

events = typer.Typer(no_args_is_help=True, help="Send events to an environment.")


@events.command("publish")
def publish(
    task: Annotated[str, typer.Argument(metavar="EVENT", help="The event's name, such as order.created.")],
    payload: Annotated[
        str, typer.Argument(metavar="JSON", help="The payload: JSON, @FILE or - (standard input).")
    ] = "{}",
    *,
    key: Annotated[str | None, typer.Option(help="Events with one key run one at a time, in order.")] = None,
    id: Annotated[
        str | None, typer.Option("--id", help="Events with one id are stored once (two minutes).")
    ] = None,
    delay: Annotated[str | None, typer.Option(help="When to run: 30s, 10m, 2h, 1d from now.")] = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="The user's id or external id.")] = None,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send an event. It is stored once the command ends with 0."""
    remote = client(context, organisation)
    found = environment_of(find_project(remote, project_name(HERE, project)), environment)
    given = {"key": key, "id": id, "user": user, "delay": seconds_of(delay) if delay else None}
    body = {"task": task, "payload": json_value(payload)}
    body |= {name: value for name, value in given.items() if value is not None}
    answer = remote.request("POST", f"environments/{found['id']}/events", body=body)
    if output is not Output.TABLE:
        write(answer, output)
        return
    say(f"Stored as run {answer['runId']}; `tieline runs show {answer['runId']}` says what becomes of it")


def call(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The webhook's name, with a query if you like.")
    ],
    *,
    method: Annotated[
        str | None, typer.Option("--method", "-X", help="The method. Default: POST with data, GET without.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", metavar="TEXT", help="The body: text, @FILE or - (standard input)."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME: VALUE", help="A header; may be repeated."),
    ] = None,
    include: Annotated[bool, typer.Option("--include", "-i", help="Show status and headers, too.")] = False,
    project: ProjectOption = None,
    environment: EnvironmentOption = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Call a webhook through the API, also where its address cannot be reached from here.

    Exits with 1 if the answer is an error (400 and above).
    """
    remote = client(context, organisation)
    found = find_project(remote, project_name(HERE, project))
    chosen = environment_of(found, environment)
    name, _, query = path.partition("?")
    headers = dict(header_of(item) for item in header or ())
    body: Json = {
        "urlPath": name if name.startswith("/") else f"/{name}",
        "method": (method or ("GET" if data is None else "POST")).upper(),
        "headers": headers,
        "query": _query(query),
    }
    if data is not None:
        body["body"] = _text(data)
        if not any(item.lower() == "content-type" for item in headers):
            headers["Content-Type"] = "application/json"
    answer = remote.request(
        "POST",
        f"projects/{found['id']}/environments/call",
        query={"env_id": chosen["id"]},
        body=body,
        read_seconds=120,
    )
    if include:
        note(f"HTTP {answer['status']}")
        for item, value in dict(answer["headers"]).items():
            for one in value if isinstance(value, list) else [value]:
                note(f"{item}: {one}")
    encoded = answer.get("bodyEncoding") == "base64"
    write_body(base64.b64decode(answer["body"]) if encoded else str(answer["body"]).encode())
    if answer["status"] >= 400:
        raise CommandError(f"The webhook answers {answer['status']}; `tieline logs` may say why")


def _query(text: str) -> dict[str, list[str]]:
    return parse_qs(text, keep_blank_values=True)


def _text(data: str) -> str:
    try:
        return body_bytes(data).decode()
    except UnicodeDecodeError:
        raise UsageError("The body is not UTF-8; send it to the webhook's address itself") from None
