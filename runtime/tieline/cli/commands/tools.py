"""``tieline open`` and ``tieline api``."""

import sys
import webbrowser
from typing import Annotated

import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.options import OutputOption, Platform, json_value
from tieline.cli.terminal import Output, say, write

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def open_console(
    *,
    browser: Annotated[bool, typer.Option(help="--no-browser only shows the address.")] = True,
    platform: Platform,
) -> None:
    """Open the console in a browser."""
    found = platform.selected()
    url = f"{found.url}/console/o/{found.organisation}"
    say(url)
    if browser:
        webbrowser.open(url)


def api(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="Below the organisation, such as projects; or from / on.")
    ],
    *,
    method: Annotated[str, typer.Option("--method", "-X", help="The method.")] = "GET",
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", metavar="JSON", help="The body: JSON, @FILE or - (standard input)."),
    ] = None,
    query: Annotated[
        list[str] | None,
        typer.Option("--query", "-q", metavar="NAME=VALUE", help="A query parameter; may be repeated."),
    ] = None,
    platform: Platform,
    output: OutputOption = Output.JSON,
) -> None:
    """Send a request to any operation of the REST API, and show the answer."""
    if method.upper() not in _METHODS:
        raise UsageError(f"{method!r} is none of {', '.join(_METHODS)}")
    parameters = {}
    for item in query or ():
        name, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"{item!r} is no parameter: write NAME=VALUE")
        parameters[name] = value
    answer = platform.client().request(
        method.upper(), path, query=parameters, body=None if data is None else json_value(data)
    )
    if answer is not None:
        write(answer, Output.JSON if output is Output.TABLE else output)
    sys.stdout.flush()
