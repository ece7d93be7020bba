"""``tieline connectors``."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from ulid import ULID

from tieline.cli.exit_codes import CommandError, ExitCode, UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import HERE, FolderArgument, LimitOption, OutputOption, Platform, read_file
from tieline.cli.remote.client import segment
from tieline.cli.remote.lookup import find_in_pages
from tieline.cli.terminal import Output, age, details, note, progress, show
from tieline.configuration.project_folder import find

if TYPE_CHECKING:
    from tieline.cli.connector_code.files import ConnectorFiles

_HEAD = 256
"""Bytes in which the answer to an introspection query shows what it is."""

_MAX_NAME = 63
"""Characters of an object's name that is made from a file's."""

connectors = Commands(
    no_args_is_help=True, help="List and search connectors, import API descriptions, and add them to code."
)


@connectors.command("list")
def list_connectors(
    *,
    limit: LimitOption = 100,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List connectors."""
    items = list(platform.client().pages("connectors", limit=limit))
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
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="An OpenAPI description in JSON or YAML, or a GraphQL schema: SDL, or the answer to an introspection.",
        ),
    ],
    *,
    version: Annotated[str, typer.Option("--version", metavar="NAME", help="The name of the new version.")],
    connector: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="An existing connector: name or id. Default: a new one."),
    ] = None,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Import an API description as a version of a connector. Exits with 1 if it has errors."""
    remote = platform.client()
    content = read_file(file)
    found = find_in_pages(remote, "connector", "connectors", connector)["id"] if connector else str(ULID())
    metadata: dict[str, str] = {"format": _format_of(file, content), "version": version}
    if connector is None and metadata["format"] == "graphql":
        # A schema has no title.
        metadata["name"] = file.stem[:_MAX_NAME]
    with progress(f"Importing {file}"):
        answer = remote.request(
            "POST",
            f"/api/connect/v1/o/{remote.context.organisation}/connector/{segment(found)}/http/import",
            fields={
                "metadata": orjson.dumps(metadata).decode(),
                "file": (file.name, content, "application/octet-stream"),
            },
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
            note(f"{message.get('severity', 'finding')}: {message.get('text')}")
    if any(str(message.get("severity")).upper() == "ERROR" for message in messages):
        raise CommandError("The description has errors")


def _format_of(file: Path, content: bytes) -> str:
    """What is imported: a schema of GraphQL by the file's name, or as the answer to an introspection query."""
    if file.suffix in (".graphql", ".graphqls", ".gql"):
        return "graphql"
    if file.suffix == ".json" and b'"__schema"' in content[:_HEAD]:
        return "graphql"
    return "openapi"


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
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A GraphQL schema, as SDL or as the answer to an introspection query, in place of a connector.",
        ),
    ] = None,
    documents: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A document with operations of GraphQL. May be repeated. Default: connectors/NAME.graphql.",
        ),
    ] = None,
    platform: Platform,
) -> None:
    """Write a connector's description and a typed module of its operations beside the code."""
    from tieline.cli.connector_code.files import ConnectorFiles, write  # noqa: PLC0415

    files = ConnectorFiles.of(find(folder).code, stored_as or connector)
    chosen = files.chosen()
    wanted = [name.strip() for text in operations or () for name in text.split(",") if name.strip()]
    is_plain = chosen.plain if plain is None else plain
    if schema is not None or documents or chosen.schema is not None:
        if wanted or every:
            raise UsageError("The operations of GraphQL are those of the documents; name them by --documents")
        found = _of_graphql(
            files,
            schema or chosen.schema,
            documents or list(chosen.documents) or files.documents,
            version="" if version == "default" else version,
            plain=is_plain,
        )
    else:
        with progress(f"Reading {connector}"):
            found = files.built(
                platform.client(),
                connector,
                version,
                only=() if every else wanted or chosen.only,
                plain=is_plain,
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


def _of_graphql(
    files: "ConnectorFiles", schema: Path | None, documents: Sequence[Path], *, version: str, plain: bool
) -> dict[Path, str]:
    if schema is None:
        raise UsageError("Documents of GraphQL need their schema; give it by --schema")
    if not documents:
        raise UsageError(
            f"There are no operations; write them to {files.source.with_suffix('.graphql')}, or give --documents"
        )
    return files.built_from_graphql(schema, documents, version=version, plain=plain)


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
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Search the operations of all connectors."""
    remote = platform.client()
    only = find_in_pages(remote, "connector", "connectors", connector)["id"] if connector else None
    items = list(
        remote.pages("connectors/operations", limit=limit, search=" ".join(words), connector_id=only)
    )
    show(
        output,
        items,
        ("connector", "operation", "method", "path", "summary"),
        lambda: [
            (
                item["connectorName"],
                item["name"],
                item.get("graphql") or item["method"],
                item["path"],
                item["summary"],
            )
            for item in items
        ],
        empty="No connector has such an operation.",
    )
