"""``tieline users``."""

from typing import Annotated

import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, LimitOption, OutputOption, Platform, json_value
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import find_in_pages, template_of
from tieline.cli.terminal import Output, age, note, say, show

users = Commands(no_args_is_help=True, help="List, create and activate end users.")
UserArgument = Annotated[str, typer.Argument(metavar="ID", help="The user's id in your application.")]


@users.command("list")
def list_users(
    *,
    search: Annotated[
        str | None, typer.Option("--search", metavar="TEXT", help="Only users with this text in id or name.")
    ] = None,
    limit: LimitOption = 100,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List end users."""
    found = list(platform.client().pages("users", limit=limit + 1, search=search))
    items = found[:limit]
    show(
        output,
        items,
        ("external id", "name", "age", "id"),
        lambda: [
            (item["externalId"], item.get("displayName"), age(item["createdAt"]), item["id"])
            for item in items
        ],
        empty="There are no users. Create one with `tieline users create`.",
    )
    if len(found) > limit:
        note("There are more users: use --search, or --limit")


@users.command("create")
def create_user(
    user: UserArgument,
    *,
    name: Annotated[str, typer.Option("--name", help="The name, for people.")] = "",
    platform: Platform,
) -> None:
    """Create an end user."""
    body = {"externalId": user, "displayName": name}
    made = platform.client().request("POST", "users", body=body)
    say(f"Created the user {made['externalId']} ({made['id']})")


@users.command("activate")
def activate_user(
    user: UserArgument,
    *,
    connection: Annotated[
        list[str] | None,
        typer.Option("--connection", metavar="TEMPLATE=NAME", help="The user's connection for a template."),
    ] = None,
    variables: Annotated[
        str | None,
        typer.Option("--variables", metavar="JSON", help="Values: JSON, @FILE or - (standard input)."),
    ] = None,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Activate an end user on an environment, with variables and connections."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    body: Json = {
        "userId": user,
        "environmentId": chosen["id"],
        "connections": [_given(remote, found, chosen, item) for item in connection or ()],
    }
    if variables is not None:
        body["dynamicVariables"] = json_value(variables)
    made = remote.request("POST", "activations", body=body)
    say(f"Activated {user} on {chosen['name']} of {found['name']} ({made['id']})")


def _given(remote: Client, project: Json, environment: Json, text: str) -> Json:
    template, equals, name = text.partition("=")
    if not equals:
        raise UsageError(f"{text!r} is no connection of a template: write TEMPLATE=NAME")
    chosen = template_of(remote, project, environment, template)
    found = find_in_pages(remote, "connection", "connections", name, system_id=chosen["id"])
    return {"connectionTemplateId": chosen["connectionTemplateId"], "existingConnectionId": found["id"]}
