"""``tieline connections``."""

from typing import Annotated

import typer

from tieline.cli import connection_texts
from tieline.cli.bodies import RequestOptions, write_body
from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, LimitOption, OutputOption, Platform, json_value, time_after
from tieline.cli.remote.client import Json
from tieline.cli.remote.lookup import find_in_pages, template_of
from tieline.cli.terminal import Output, age, details, note, say, show
from tieline.cli.url_variables import VariableOption, chosen_variables

connections = Commands(no_args_is_help=True, help="List, create, rotate, test and connect connections.")
NameArgument = Annotated[str, typer.Argument(metavar="CONNECTION", help="The connection's name or id.")]


@connections.command("list")
def list_connections(
    *,
    search: Annotated[str | None, typer.Option(help="Text in the name.")] = None,
    system: Annotated[str | None, typer.Option(help="Only connections of this system: name or id.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="ID", help="Only connections of this user: id or external id.")
    ] = None,
    expiring: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Only connections with a credential, token or certificate that expires within this time, such as 14d.",
        ),
    ] = None,
    limit: LimitOption = 100,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List connections with their state, last success, and what expires next."""
    until = time_after(expiring) if expiring else None
    remote = platform.client()
    chosen = find_in_pages(remote, "system", "systems", system)["id"] if system else None
    items = list(
        remote.pages(
            "connections",
            limit=limit,
            search=search,
            system_id=chosen,
            end_user_id=user,
            expires_before=until,
        )
    )
    names = {item["id"]: item["name"] for item in remote.pages("systems", limit=10_000)}
    show(
        output,
        items,
        ("name", "system", "credentials", "state", "last success", "expires", "id"),
        lambda: [
            (
                item["name"],
                names.get(item.get("systemId"), item.get("systemId")),
                ", ".join(connection_texts.credential_types(item)),
                connection_texts.state(item),
                connection_texts.ago(item.get("lastSuccessAt")),
                connection_texts.expires(item["expires"][:1]),
                item["id"],
            )
            for item in items
        ],
        empty="Nothing expires within that time." if expiring else "There are no connections.",
    )


@connections.command("create")
def create_connection(
    template: Annotated[str, typer.Argument(metavar="TEMPLATE", help="The connection template.")],
    *,
    name: Annotated[str, typer.Option("--name", help="The connection's name.")],
    credentials: Annotated[
        str | None,
        typer.Option("--credentials", metavar="JSON", help="As by REST: JSON, @FILE or - (standard input)."),
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="In place of the system's base URL.")] = None,
    variable: VariableOption = None,
    user: Annotated[
        str | None, typer.Option("--user", metavar="ID", help="The user whose connection it is.")
    ] = None,
    expose_to_code: Annotated[
        bool, typer.Option("--expose-to-code", help="The code reads the credentials (ctx.credentials).")
    ] = False,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Create a connection for a connection template. A static template without one is linked to it."""
    remote = platform.client()
    found, environment = where.find_environment(remote)
    chosen = template_of(remote, found, environment, template)
    connection: Json = {"name": name, "credentials": json_value(credentials) if credentials else []}
    connection |= {"baseUrl": url} if url else {}
    variables = chosen_variables(variable, chosen.get("inputs") or ())
    connection |= {"variables": variables} if variables else {}
    connection |= {"externalId": user} if user else {}
    connection |= {"exposeToCode": True} if expose_to_code else {}
    body = {"connectionTemplateId": chosen["connectionTemplateId"], "connection": connection}
    made = remote.request("POST", "connections", body=body)
    say(f"Created the connection {made['name']} for {chosen['name']} ({made['id']})")


@connections.command("show")
def show_connection(
    name: NameArgument,
    *,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a connection, and what is wrong with its credentials. Values of credentials are never shown."""
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    details(
        output,
        found,
        {
            "connection": found["name"],
            "id": found["id"],
            "base URL": found.get("baseUrl"),
            "variables": connection_texts.variables(found),
            "credentials": ", ".join(connection_texts.credential_types(found)),
            "updated": f"{age(found['updatedAt'])} ago",
            "state": connection_texts.state(found),
            "last success": connection_texts.ago(found.get("lastSuccessAt")),
            "refused": connection_texts.refused(found),
            "last refusal": connection_texts.last_refusal(found),
            "expires": connection_texts.expires(found["expires"]),
            "values in": connection_texts.secrets(found),
            "used by": connection_texts.uses(remote, found),
            "agents may": connection_texts.agents_may(found),
        },
    )
    if output is Output.TABLE:
        for error in connection_texts.credential_errors(found):
            say(error, style="red")
    if connection_texts.credential_errors(found):
        raise CommandError(f"{found['name']} cannot be used as it is")


@connections.command("variables")
def set_variables(
    name: NameArgument,
    *,
    variable: VariableOption = None,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the values of variables in a connection's URLs, or change them. NAME= removes one. With another value of an
    input, a connection that was signed in to has to be connected again."""
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    if variable:
        inputs = (
            remote.get(f"systems/{found['systemId']}").get("inputs") or () if found.get("systemId") else ()
        )
        body = {"variables": chosen_variables(variable, inputs, found["variables"])}
        found = remote.request("PUT", f"connections/{found['id']}", body=body)
    shown = {"connection": found["name"], "variables": connection_texts.variables(found) or "none"}
    details(output, found["variables"], shown)


@connections.command("rotate")
def rotate_credential(
    name: NameArgument,
    *,
    values: Annotated[
        str,
        typer.Option(
            "--values",
            metavar="JSON",
            help='The new values, such as {"value": "…"} of a key: JSON, @FILE or - (standard input).',
        ),
    ] = "-",
    credential: Annotated[
        str | None, typer.Option("--credential", metavar="ID", help="Which credential, where it has several.")
    ] = None,
    keep_old_for: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Accept webhooks that are signed with the old values, too, for a while such as 7d.",
        ),
    ] = None,
    platform: Platform,
) -> None:
    """Replace the values of a credential. The other credentials stay, and pods use the new values within seconds."""
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    chosen = _credential_of(found, credential)
    kind = chosen["credential"]["type"]
    new = {"type": kind, "data": {_camel(kind): json_value(values)}}
    replaced = [{"id": chosen["id"], "credential": new}]
    if keep_old_for is not None:
        replaced = _beside(chosen, new, time_after(keep_old_for))
    items = [
        one for item in found["credentials"] for one in (replaced if item is chosen else [{"id": item["id"]}])
    ]
    remote.request("PUT", f"connections/{found['id']}", body={"credentials": items})
    say(f"Rotated the credential {chosen['id']} of {found['name']}")


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
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what agents may call through a connection, or change it. What you leave out stays."""
    if close and (read or operation):
        raise CommandError("Close the connection, or say what agents may call: not both")
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    if close or read is not None or operation:
        given = {"read": read, "operations": operation or None}
        chosen = {key: value for key, value in given.items() if value is not None}
        tools = {} if close else {**(found.get("tools") or {}), **chosen}
        found = remote.request("PUT", f"connections/{found['id']}", body={"tools": tools})
    shown = {"connection": found["name"], "agents may": connection_texts.agents_may(found) or "call nothing"}
    details(output, found.get("tools") or {}, shown)


@connections.command("check")
def check_connection(
    name: NameArgument,
    *,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send the system's check request now, and show the state. Exits with 1 if the connection does not work."""
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    answer = remote.request("POST", f"connections/{found['id']}/test", body={})
    found = remote.get(f"connections/{found['id']}")
    details(
        output,
        {**answer, "state": found["state"]},
        {
            "connection": found["name"],
            "state": connection_texts.state(found),
            **connection_texts.check_answer(answer),
        },
    )
    if not answer["ok"]:
        raise CommandError(f"{found['name']} does not work")


@connections.command("test")
def send_test_request(
    name: NameArgument,
    *,
    method: Annotated[
        str | None, typer.Option("--method", "-X", help="The method of the test request. Default: GET.")
    ] = None,
    path: Annotated[
        str | None,
        typer.Option("--path", help="The path of the test request. Default: the system's check request."),
    ] = None,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Send a request through a connection; exits with 1 if the other side refuses the credentials."""
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    given = {"method": method.upper() if method else None, "path": path}
    body = {key: value for key, value in given.items() if value is not None}
    answer = remote.request("POST", f"connections/{found['id']}/test", body=body)
    details(output, answer, connection_texts.check_answer(answer))
    if not answer["ok"]:
        raise CommandError(f"{found['name']} does not work")


@connections.command("call")
def send_request(
    name: NameArgument,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="The path below the base URL, with a query if you like.")
    ] = "",
    *,
    sent: RequestOptions,
    platform: Platform,
) -> None:
    """Send a request through a connection, with its credentials. Exits with 1 if the answer is an error (400 and
    above)."""
    remote = platform.client()
    found = find_in_pages(remote, "connection", "connections", name)
    headers = sent.headers()
    if any(item.lower() == "authorization" for item in headers):
        raise UsageError("The header Authorization is your sign-in; the connection adds its own credentials")
    answer = remote.once(
        sent.chosen_method(),
        f"connections/{found['id']}/proxy/{path.removeprefix('/')}",
        body=sent.body(),
        headers=headers,
        read_seconds=90,
    )
    if "X-Tieline-Upstream-Status" not in answer.headers:
        raise remote.refusal(answer)
    if sent.include:
        note(f"HTTP {answer.status}")
        for item, value in answer.headers.items():
            note(f"{item}: {value}")
    write_body(answer.body)
    if answer.status >= 400:
        raise CommandError(f"The system answers {answer.status}")


def _credential_of(connection: Json, given: str | None) -> Json:
    """The credential with an id, or the only one that has values."""
    items: list[Json] = [
        item for item in connection["credentials"] if (item.get("credential") or {}).get("type")
    ]
    chosen = [item for item in items if given in (None, item["id"], item["credential"].get("name"))]
    if len(chosen) == 1:
        return chosen[0]
    known = ", ".join(f"{item['id']} ({item['credential']['type']})" for item in items) or "none"
    which = f"There is no credential {given}" if given else "Name one with --credential"
    raise UsageError(f"{which}: {connection['name']} has {known}")


def _beside(chosen: Json, new: Json, ends: str) -> list[Json]:
    """The old credential until it ends, and the new one for the same auth scheme."""
    scheme = chosen.get("authSchemeConfigId")
    if not scheme:
        raise UsageError(
            "--keep-old-for needs an auth scheme of the system, and this one is the credential's own"
        )
    old = {"type": new["type"], "expiresAt": ends}
    return [{"id": chosen["id"], "credential": old}, {"authSchemeConfigId": scheme, "credential": new}]


def _camel(kind: str) -> str:
    """The sub-object of ``data`` that has the values of a type: basic-auth is basicAuth."""
    first, *others = kind.split("-")
    return first + "".join(word.capitalize() for word in others)
