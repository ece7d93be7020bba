"""``--variable shop=my-shop``: values of variables in a system's URLs."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated

import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.remote.client import Json

VariableOption = Annotated[
    list[str] | None,
    typer.Option(
        "--variable",
        metavar="NAME=VALUE",
        help="The value of a variable in the system's URLs, such as shop=my-shop; may be repeated. An address such as "
        "my-shop.myshopify.com is cut down to the value.",
    ),
]


def chosen_variables(
    given: Sequence[str] | None, inputs: Iterable[Mapping[str, str]], stored: Sequence[Json] = ()
) -> list[Json]:
    """The variables of a connection with those of the options; ``inputs`` are the system's. Raises UsageError."""
    from tieline_protocol.url_inputs import value_in  # noqa: PLC0415  (loads aiohttp)

    suffixes = {one["name"]: one.get("suffix") or "" for one in inputs}
    values = {one["name"]: one["value"] for one in stored}
    for text in given or ():
        name, separator, value = text.partition("=")
        if not name or not separator:
            raise UsageError(f"--variable {text} is not NAME=VALUE")
        values[name] = value_in(value, suffixes.get(name, ""))
    return [{"name": name, "value": value} for name, value in values.items() if value]
