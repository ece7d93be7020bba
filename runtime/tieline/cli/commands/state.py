"""``tieline state``: what the code keeps in ``ctx.state``, for one activation."""

from typing import Annotated, Any

import orjson
import typer

from tieline.cli.exit_codes import CommandError, ExitCode
from tieline.cli.option_groups import Commands
from tieline.cli.options import (
    InEnvironment,
    LimitOption,
    OutputOption,
    Platform,
    YesOption,
    confirm,
    json_value,
    seconds_of,
)
from tieline.cli.remote.client import Client, segment
from tieline.cli.terminal import Output, note, say, show, write

state = Commands(no_args_is_help=True, help="List, read, set and delete the state of an activation.")
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
    store: Annotated[
        str | None,
        typer.Argument(
            metavar="[ACTIVATION]", help="The activation's id. Default: --user's, or the static one."
        ),
    ] = None,
    *,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="ID", help="The user's external id, in place of an activation."),
    ] = None,
    where: InEnvironment,
    prefix: Annotated[str | None, typer.Option(help="Only keys that begin with it.")] = None,
    limit: LimitOption = 100,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List the keys of an activation: by its id, by its user, or of the environment's static one."""
    remote = platform.client()
    if store is None:
        store = _activation(remote, where, user)
        note(f"Activation {store}")
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


def _activation(remote: Client, where: InEnvironment, user: str | None) -> str:
    """The id of a user's activation, or of the static one. Raises CommandError."""
    _, chosen = where.find_environment(remote)
    if user is None:
        static: str = remote.get(f"environments/{chosen['id']}/activations/static")["id"]
        return static
    found = remote.get(f"environment/{chosen['id']}/users/{segment(user)}/activations")
    if not found:
        raise CommandError(
            f"{user} is not active on {chosen['name']}; `tieline users activate` does that",
            ExitCode.NOT_FOUND,
        )
    identifier: str = found[0]["id"]
    return identifier


@state.command("get")
def get_value(
    store: StoreArgument,
    key: KeyArgument,
    *,
    platform: Platform,
    output: OutputOption = Output.JSON,
) -> None:
    """Show a value."""
    found = platform.client().get(f"store/{segment(store)}/kv/{segment(key)}")
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
    platform: Platform,
) -> None:
    """Set a value."""
    options: dict[str, Any] = {}
    if expires:
        options["expireIn"] = int(seconds_of(expires) * 1000)
    if new:
        options["ifNotExists"] = True
    platform.client().request(
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
    platform: Platform,
) -> None:
    """Delete a value."""
    confirm(f"Delete {key}?", yes=yes)
    platform.client().request("DELETE", f"store/{segment(store)}/kv/{segment(key)}")
    say(f"Deleted {key}")
