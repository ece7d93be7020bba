"""``tieline emulate``: providers of the catalogue on this machine."""

from typing import Annotated

import typer


def emulate(
    providers: Annotated[list[str], typer.Argument(metavar="PROVIDER...", help="Keys of the catalogue.")],
    *,
    port: Annotated[int, typer.Option(help="Where to listen; 0 for a free port.")] = 9100,
    redirect_uri: Annotated[
        list[str] | None,
        typer.Option("--redirect-uri", metavar="URL", help="A registered redirect URI. Default: any."),
    ] = None,
) -> None:
    """Play providers on this machine: consent page, tokens, limits, lists, errors and signed webhooks.

    Prints a connection for connections.yaml. The page at / expires tokens, revokes consents and sets limits.
    """
    from tieline.cli.emulator import run  # noqa: PLC0415  (imported by the command that needs it)

    run(providers, port=port, redirect_uris=frozenset(redirect_uri or ()))
