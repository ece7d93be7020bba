"""``tieline state``: what the code keeps in ``ctx.state``, for one activation."""

from typing import Annotated, Any

import orjson
import typer

from tieline.cli.options import (
    ContextOption,
    LimitOption,
    OrganisationOption,
    OutputOption,
    YesOption,
    client,
    confirm,
    json_value,
    seconds_of,
)
from tieline.cli.remote.client import segment
from tieline.cli.terminal import Output, say, show, write

state = typer.Typer(no_args_is_help=True, help="List, read, set and delete the state of an activation.")
StoreArgument = Annotated[
    str,
    typer.Argument(
        metavar="ACTIVATION",
        help="The activation's id: `activation` in `tieline runs show`, or `activationId` in log lines.",
    ),
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The key.")]


@state.command("list")
def list_keys(
    store: StoreArgument,
    *,
    prefix: Annotated[str | None, typer.Option(help="Only keys that begin with it.")] = None,
    limit: LimitOption = 100,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the keys of an activation."""
    remote = client(context, organisation)
    keys: list[str] = []
    after: str | None = None
    while len(keys) < limit:
        selector: dict[str, Any] = {
            "prefix": [prefix] if prefix else [],
            **({"after": after} if after else {}),
        }
        page = remote.request(
            "POST",
            f"store/{segment(store)}/kv/list",
            body={"selector": selector, "options": {"limit": min(100, limit - len(keys))}},
        )
        keys += ["/".join(item["key"]) for item in page["data"]]
        after = (page.get("pagination") or {}).get("nextCursor")
        if not after or not page["data"]:
            break
    show(output, keys, ("key",), lambda: [(key,) for key in keys], empty="The activation has no state.")


@state.command("get")
def get_value(
    store: StoreArgument,
    key: KeyArgument,
    *,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
    output: OutputOption = Output.JSON,
) -> None:
    """Show a value."""
    found = client(context, organisation).get(f"store/{segment(store)}/kv/{segment(key)}")
    value = found["value"]
    write(
        orjson.loads(value) if isinstance(value, str) else value,
        Output.JSON if output is Output.TABLE else output,
    )


@state.command("set")
def set_value(
    store: StoreArgument,
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="JSON", help="The value: JSON, @FILE or - (standard input).")
    ],
    *,
    expires: Annotated[str | None, typer.Option(help="Delete it after this long: 10m, 2h, 1d.")] = None,
    new: Annotated[bool, typer.Option("--new", help="Only if the key has no value.")] = False,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Set a value."""
    options: dict[str, Any] = {}
    if expires:
        options["expireIn"] = int(seconds_of(expires) * 1000)
    if new:
        options["ifNotExists"] = True
    client(context, organisation).request(
        "PUT",
        f"store/{segment(store)}/kv/{segment(key)}",
        body={"value": orjson.dumps(json_value(value)).decode(), "options": options},
    )
    say(f"Set {key}")


@state.command("delete")
def delete_value(
    store: StoreArgument,
    key: KeyArgument,
    *,
    yes: YesOption = False,
    context: ContextOption = None,
    organisation: OrganisationOption = None,
) -> None:
    """Delete a value."""
    confirm(f"Delete {key}?", yes=yes)
    client(context, organisation).request("DELETE", f"store/{segment(store)}/kv/{segment(key)}")
    say(f"Deleted {key}")
