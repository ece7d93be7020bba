"""``tieline connectors``."""

from pathlib import Path
from typing import Annotated

import orjson
import typer
from ulid import ULID

from tieline.cli.exit_codes import CommandError
from tieline.cli.options import (
    ContextOption,
    LimitOption,
    OrganisationOption,
    OutputOption,
    client,
    read_file,
)
from tieline.cli.remote.client import segment
from tieline.cli.remote.lookup import find_in_pages
from tieline.cli.terminal import Output, age, details, note, progress, show

connectors = typer.Typer(no_args_is_help=True, help="List connectors, and import API descriptions.")


@connectors.command("list")
def list_connectors(
    *,
    limit: LimitOption = 100,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List connectors."""
    items = list(client(context, organisation).pages("connectors", limit=limit))
    show(
        output,
        items,
        ("name", "updated", "id"),
        lambda: [
            (item["name"], age(item.get("updatedAt") or item.get("createdAt")), item["id"]) for item in items
        ],
        empty="There are no connectors. Import one with `tieline connectors import FILE --version 1`.",
    )


@connectors.command("import")
def import_connector(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An OpenAPI description, in JSON or YAML.")],
    *,
    version: Annotated[str, typer.Option("--version", metavar="NAME", help="The name of the new version.")],
    connector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An existing connector: name or id. Default: a new one."),
    ] = None,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Import an OpenAPI description as a version of a connector. Exits with 1 if it has errors."""
    remote = client(context, organisation)
    content = read_file(file)
    found = find_in_pages(remote, "connector", "connectors", connector)["id"] if connector else str(ULID())
    metadata = orjson.dumps({"format": "openapi", "version": version}).decode()
    with progress(f"Importing {file}"):
        answer = remote.request(
            "POST",
            f"/api/connect/v1/o/{remote.context.organisation}/connector/{segment(found)}/http/import",
            fields={"metadata": metadata, "file": (file.name, content, "application/octet-stream")},
            read_seconds=300,
        )
    messages = answer.get("messages") or []
    details(
        output,
        answer,
        {
            "connector": found,
            "version": version,
            "operations": len(answer.get("actions") or ()),
            "findings": len(messages) or None,
        },
    )
    if output is Output.TABLE:
        for message in messages:
            note(f"{message.get('severity', 'finding')}: {message.get('message')}")
    if any(str(message.get("severity")).upper() == "ERROR" for message in messages):
        raise CommandError("The description has errors")
