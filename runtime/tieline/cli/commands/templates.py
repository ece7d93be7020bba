"""``tieline templates``: which system and connection a name in the code leads to."""

from typing import Annotated

import typer

from tieline.cli.option_groups import Commands
from tieline.cli.options import InEnvironment, OutputOption, Platform, YesOption, confirm
from tieline.cli.remote.client import Client, Json
from tieline.cli.remote.lookup import find_in_pages, named
from tieline.cli.terminal import Output, say, show

templates = Commands(no_args_is_help=True, help="List, add and remove connection templates.")
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="The name that the code uses, such as shop.")
]


@templates.command("list")
def list_templates(
    *,
    where: InEnvironment,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the connection templates of an environment, and where they lead."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    items = _templates(remote, found, chosen)
    static = remote.get(f"projects/{found['id']}/connections", env_id=chosen["id"], first=200)["items"]
    linked = {item["id"]: item["name"] for item in static}
    show(
        output,
        items,
        ("name", "system", "base URL", "connection"),
        lambda: [
            (
                item["name"],
                item["domain"],
                item["templateBaseUrl"],
                "each user's own" if item["dynamic"] else linked.get(item.get("connectionId"), "none yet"),
            )
            for item in items
        ],
        empty=f"{chosen['name']} has no connection templates. Add one with `tieline templates add`.",
    )


@templates.command("add")
def add_template(
    name: NameArgument,
    *,
    system: Annotated[str, typer.Option("--system", metavar="NAME", help="The system's name or id.")],
    connection: Annotated[
        str | None, typer.Option("--connection", metavar="NAME", help="The connection to use: name or id.")
    ] = None,
    dynamic: Annotated[bool, typer.Option("--dynamic", help="Each user brings a connection.")] = False,
    expose_to_code: Annotated[
        bool, typer.Option("--expose-to-code", help="The code reads the credentials (ctx.credentials).")
    ] = False,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Add a system to an environment, under a name that the code uses."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    target = find_in_pages(remote, "system", "systems", system)
    link = connection and find_in_pages(
        remote, "connection", "connections", connection, system_id=target["id"]
    )
    body = {
        "systemId": target["id"],
        "name": name,
        "environmentId": chosen["id"],
        "dynamic": dynamic,
        **({"exposeToCode": True} if expose_to_code else {}),
    }
    made = remote.request("POST", f"projects/{found['id']}/connection-templates", body=body)
    if link:
        body = {"connectionTemplateId": made["connectionTemplateId"]}
        remote.request("POST", f"connections/{link['id']}/link", body=body)
    say(
        f"{name} in {chosen['name']} leads to {target['name']}" + (f" through {link['name']}" if link else "")
    )


@templates.command("remove")
def remove_template(
    name: NameArgument,
    *,
    where: InEnvironment,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Remove a connection template. Its system and connections stay."""
    remote = platform.client()
    found, chosen = where.find_environment(remote)
    items = [{**item, "id": item["connectionTemplateId"]} for item in _templates(remote, found, chosen)]
    template = named("connection template", items, name)
    confirm(f"Remove {template['name']} from {chosen['name']}?", yes=yes)
    remote.request("DELETE", f"projects/{found['id']}/connection-templates/{template['id']}")
    say(f"Removed {template['name']}")


def _templates(remote: Client, project: Json, environment: Json) -> list[Json]:
    path = f"projects/{project['id']}/connection-templates"
    items: list[Json] = remote.get(path, env_id=environment["id"])["items"]
    return items
