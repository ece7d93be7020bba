"""``tieline connections`` and ``tieline systems``."""

from typing import Annotated

import typer

from tieline.cli.bodies import body_bytes, header_of, write_body
from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.options import ContextOption, LimitOption, OrganisationOption, OutputOption, client
from tieline.cli.remote.client import Json
from tieline.cli.remote.lookup import find_in_pages
from tieline.cli.terminal import Output, age, details, note, say, show, styled

connections = typer.Typer(no_args_is_help=True, help="List, test and connect connections.")
systems = typer.Typer(no_args_is_help=True, help="List systems.")
NameArgument = Annotated[str, typer.Argument(metavar="CONNECTION", help="The connection's name or id.")]


@connections.command("list")
def list_connections(
    *,
    system: Annotated[str | None, typer.Option(help="Only connections of this system: name or id.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only connections of this user: id or external id.")
    ] = None,
    limit: LimitOption = 100,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List connections."""
    remote = client(context, organisation)
    chosen = find_in_pages(remote, "system", "systems", system)["id"] if system else None
    items = list(remote.pages("connections", limit=limit, system_id=chosen, end_user_id=user))
    names = {item["id"]: item["name"] for item in remote.pages("systems", limit=10_000)}
    show(
        output,
        items,
        ("name", "system", "credentials", "state", "updated", "id"),
        lambda: [
            (
                item["name"],
                names.get(item.get("systemId"), item.get("systemId")),
                ", ".join(_types(item)),
                styled("failed") if _errors(item) else styled("refused") if item.get("refused") else "",
                age(item["updatedAt"]),
                item["id"],
            )
            for item in items
        ],
        empty="There are no connections.",
    )


@connections.command("show")
def show_connection(
    name: NameArgument,
    *,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a connection, and what is wrong with its credentials. Values of credentials are never shown."""
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    details(
        output,
        found,
        {
            "connection": found["name"],
            "id": found["id"],
            "base URL": found.get("baseUrl"),
            "credentials": ", ".join(_types(found)),
            "updated": f"{age(found['updatedAt'])} ago",
            "refused": _refused(found),
            "agents may": _agents_may(found),
        },
    )
    if output is Output.TABLE:
        for error in _errors(found):
            say(error, style="red")
    if _errors(found):
        raise CommandError(f"{found['name']} cannot be used as it is")


@connections.command("tools")
def set_tools(
    name: NameArgument,
    *,
    read: Annotated[
        bool | None,
        typer.Option("--read/--no-read", help="Whether agents may call all operations with GET or HEAD."),
    ] = None,
    operation: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="An operation that they may call; may be repeated. Replaces the list."
        ),
    ] = None,
    close: Annotated[bool, typer.Option("--close", help="Let agents call nothing.")] = False,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what agents may call through a connection, or change it. What you leave out stays."""
    if close and (read or operation):
        raise CommandError("Close the connection, or say what agents may call: not both")
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    if close or read is not None or operation:
        given = {"read": read, "operations": operation or None}
        chosen = {key: value for key, value in given.items() if value is not None}
        tools = {} if close else {**(found.get("tools") or {}), **chosen}
        found = remote.request("PUT", f"connections/{found['id']}", body={"tools": tools})
    shown = {"connection": found["name"], "agents may": _agents_may(found) or "call nothing"}
    details(output, found.get("tools") or {}, shown)


@connections.command("test")
def send_test_request(
    name: NameArgument,
    *,
    method: Annotated[str, typer.Option("--method", "-X", help="The method of the test request.")] = "GET",
    path: Annotated[str, typer.Option("--path", help="The path of the test request.")] = "",
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a request through a connection; exits with 1 if the other side refuses the credentials."""
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    answer = remote.request(
        "POST", f"connections/{found['id']}/test", body={"method": method.upper(), "path": path}
    )
    details(output, answer, {"status": answer.get("status"), "message": answer.get("message")})
    if not answer["ok"]:
        raise CommandError(f"{found['name']} does not work")


@connections.command("call")
def send_request(
    name: NameArgument,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The path below the base URL, with a query if you like.")
    ] = "",
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
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Send a request through a connection, with its credentials. Exits with 1 if the answer is an error (400 and
    above)."""
    remote = client(context, organisation)
    found = find_in_pages(remote, "connection", "connections", name)
    headers = dict(header_of(item) for item in header or ())
    if any(item.lower() == "authorization" for item in headers):
        raise UsageError("The header Authorization is your sign-in; the connection adds its own credentials")
    if data is not None and not any(item.lower() == "content-type" for item in headers):
        headers["Content-Type"] = "application/json"
    answer = remote.once(
        (method or ("GET" if data is None else "POST")).upper(),
        f"connections/{found['id']}/proxy/{path.removeprefix('/')}",
        body=None if data is None else body_bytes(data),
        headers=headers,
        read_seconds=90,
    )
    if "X-Tieline-Upstream-Status" not in answer.headers:
        raise remote.refusal(answer)
    if include:
        note(f"HTTP {answer.status}")
        for item, value in answer.headers.items():
            note(f"{item}: {value}")
    write_body(answer.body)
    if answer.status >= 400:
        raise CommandError(f"The system answers {answer.status}")


@systems.command("list")
def list_systems(
    *,
    search: Annotated[str | None, typer.Option(help="Text in name or domain.")] = None,
    limit: LimitOption = 100,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List systems."""
    remote = client(context, organisation)
    items = list(remote.pages("systems", limit=limit, search=search))
    show(
        output,
        items,
        ("name", "domain", "base URL", "auth schemes", "id"),
        lambda: [
            (
                item["name"],
                item["domain"],
                item["templateBaseUrl"],
                ", ".join(scheme["type"] for scheme in item["authSchemeConfigs"]),
                item["id"],
            )
            for item in items
        ],
        empty="There are no systems.",
    )


def _refused(found: Json) -> str | None:
    """That the system refuses requests, for people."""
    refused = found.get("refused")
    if not refused:
        return None
    return f"{refused['count']}+ requests with {refused['status']} since {refused['since']}"


def _agents_may(found: Json) -> str | None:
    """What agents may call, for people; None for nothing."""
    tools = found.get("tools") or {}
    read = ["call operations with GET and HEAD"] if tools.get("read") else []
    names = [f"call {', '.join(tools['operations'])}"] if tools.get("operations") else []
    return "; ".join([*read, *names]) or None


def _types(connection: Json) -> list[str]:
    return [(item.get("credential") or {}).get("type") or "none" for item in connection["credentials"]]


def _errors(connection: Json) -> list[str]:
    return [
        error
        for item in connection["credentials"]
        for error in (item.get("credential") or {}).get("errors") or ()
    ]
