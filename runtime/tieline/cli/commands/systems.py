"""``tieline systems``."""

from typing import Annotated
from urllib.parse import urlsplit

import typer

from tieline.cli.option_groups import Commands
from tieline.cli.options import LimitOption, OutputOption, Platform, json_value
from tieline.cli.terminal import Output, say, show

systems = Commands(no_args_is_help=True, help="List, create, search and add systems.")


@systems.command("create")
def create_system(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The system's name.")],
    *,
    url: Annotated[str, typer.Option("--url", help="Base URL of its API.")],
    domain: Annotated[str | None, typer.Option("--domain", help="Default: the URL's host.")] = None,
    inputs: Annotated[
        str,
        typer.Option(
            "--inputs", metavar="JSON", help="inputs as by REST: JSON, @FILE or - (standard input)."
        ),
    ] = "[]",
    auth: Annotated[
        str,
        typer.Option(
            "--auth", metavar="JSON", help="authSchemeConfigs as by REST: JSON, @FILE or - (standard input)."
        ),
    ] = "[]",
    platform: Platform,
) -> None:
    """Create a system."""
    from tieline_protocol.url_inputs import domain_behind  # noqa: PLC0415  (loads aiohttp)

    host = urlsplit(url).hostname or ""
    body = {
        "name": name,
        "domain": domain or (domain_behind(host) if "{" in host else host) or name,
        "templateBaseUrl": url,
        "authSchemeConfigs": json_value(auth),
        "inputs": json_value(inputs),
    }
    made = platform.client().request("POST", "systems", body=body)
    say(f"Created the system {made['name']} ({made['id']})")


@systems.command("list")
def list_systems(
    *,
    search: Annotated[str | None, typer.Option(help="Text in name or domain.")] = None,
    limit: LimitOption = 100,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List systems."""
    remote = platform.client()
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
