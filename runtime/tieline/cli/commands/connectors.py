"""``tieline connectors``."""

from pathlib import Path
from typing import Annotated

import orjson
import typer
from ulid import ULID

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.options import (
    HERE,
    ContextOption,
    FolderArgument,
    LimitOption,
    OrganisationOption,
    OutputOption,
    client,
    read_file,
)
from tieline.cli.remote.client import segment
from tieline.cli.remote.lookup import find_in_pages
from tieline.cli.terminal import Output, age, details, note, progress, show
from tieline.configuration.project_folder import find

connectors = typer.Typer(
    no_args_is_help=True, help="List and search connectors, import API descriptions, and add them to code."
)


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


@connectors.command("add")
def add_connector(
    connector: Annotated[str, typer.Argument(metavar="NAME", help="The connector: name or id.")],
    folder: FolderArgument = HERE,
    *,
    version: Annotated[
        str, typer.Option("--version", metavar="NAME", help="The connector's version: name or id, or latest.")
    ] = "default",
    stored_as: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name in code. Default: the connector's."),
    ] = None,
    operations: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="Only these operations, with commas between them. May be repeated."
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All operations, also if some were named before.")
    ] = False,
    plain: Annotated[
        bool | None,
        typer.Option("--sync/--no-sync", help="Write methods for plain functions, without await."),
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail if the files are out of date.")
    ] = False,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Write a connector's description and a typed module of its operations beside the code."""
    from tieline.cli.connector_code.files import ConnectorFiles, write  # noqa: PLC0415

    files = ConnectorFiles.of(find(folder).code, stored_as or connector)
    chosen = files.chosen()
    wanted = [name.strip() for text in operations or () for name in text.split(",") if name.strip()]
    with progress(f"Reading {connector}"):
        remote = client(context, organisation)
        found = files.built(
            remote,
            connector,
            version,
            only=() if every else wanted or chosen.only,
            plain=chosen.plain if plain is None else plain,
        )
    if check_only:
        stale = [
            path for path, text in found.items() if not path.is_file() or path.read_text("utf-8") != text
        ]
        for path in stale:
            note(f"{path} is out of date; run `tieline connectors add` again")
        raise typer.Exit(ExitCode.FAILED if stale else ExitCode.OK)
    write(found)
    print(
        f"Wrote {' and '.join(str(path) for path in found)}; use it by "
        f"`from {files.module} import {files.class_named}` and `{files.class_named}(ctx)`"
    )


@connectors.command("search")
def search_operations(
    words: Annotated[
        list[str],
        typer.Argument(metavar="WORD...", help="Words of names, paths and summaries, such as create order."),
    ],
    *,
    connector: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only operations of this connector: name or id.")
    ] = None,
    limit: LimitOption = 50,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Search the operations of all connectors."""
    remote = client(context, organisation)
    only = find_in_pages(remote, "connector", "connectors", connector)["id"] if connector else None
    items = list(
        remote.pages("connectors/operations", limit=limit, search=" ".join(words), connector_id=only)
    )
    show(
        output,
        items,
        ("connector", "operation", "method", "path", "summary"),
        lambda: [
            (item["connectorName"], item["name"], item["method"], item["path"], item["summary"])
            for item in items
        ],
        empty="No connector has such an operation.",
    )
