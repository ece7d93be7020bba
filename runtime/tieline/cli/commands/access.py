"""``tieline roles`` and ``tieline keys``."""

from typing import Annotated, Literal

import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import LimitOption, OutputOption, Platform, YesOption, confirm, time_after
from tieline.cli.remote.client import Json, segment
from tieline.cli.terminal import Output, age, note, say, show

roles = Commands(no_args_is_help=True, help="List, assign and remove roles in the organisation.")
keys = Commands(no_args_is_help=True, help="List, create and revoke API keys.")

_PATH = "role-bindings"
_KEYS = "api-keys"


@roles.command("list")
def list_roles(*, limit: LimitOption = 1000, platform: Platform, output: OutputOption = Output.TABLE) -> None:
    """List who has which role in the organisation. Roles for all namespaces are not among them."""
    found = list(platform.client().pages(_PATH, limit=limit + 1))
    items = found[:limit]
    show(
        output,
        items,
        ("id", "role", "who", "managed by", "age"),
        lambda: [
            (
                item["id"],
                item.get("role") or item["roleName"],
                ", ".join(_subject(one) for one in item["subjects"]),
                "tieline" if item["byRest"] else "kubectl",
                age(item["createdAt"]),
            )
            for item in items
        ],
        empty="Nobody has a role in this organisation. Assign one with `tieline roles assign`.",
    )
    if len(found) > limit:
        note("There are more roles: use --limit")


@roles.command("assign")
def assign_role(
    role: Annotated[
        Literal["viewer", "editor", "admin"], typer.Argument(metavar="ROLE", help="viewer, editor or admin.")
    ],
    *,
    user: Annotated[
        str | None, typer.Option("--user", metavar="NAME", help="A user's name in RBAC, such as login:ann.")
    ] = None,
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="A group's name in RBAC.")
    ] = None,
    service_account: Annotated[
        str | None,
        typer.Option(
            "--service-account",
            metavar="[NAMESPACE/]NAME",
            help="A ServiceAccount. Default namespace: the organisation's.",
        ),
    ] = None,
    platform: Platform,
) -> None:
    """Assign a role to a user, a group or a ServiceAccount. You need the rights of the role yourself."""
    given = {"User": user, "Group": group, "ServiceAccount": service_account}
    named = [(kind, name) for kind, name in given.items() if name is not None]
    if len(named) != 1:
        raise UsageError("Name one subject: --user, --group or --service-account")
    ((kind, name),) = named
    subject: Json = {"kind": kind, "name": name}
    if kind == "ServiceAccount" and "/" in name:
        subject["namespace"], _, subject["name"] = name.partition("/")
    made = platform.client().request("POST", _PATH, body={"role": role, "subject": subject})
    say(f"{name} has the role {role} ({made['id']})")


@roles.command("remove")
def remove_role(
    binding: Annotated[str, typer.Argument(metavar="ID", help="The id in `tieline roles list`.")],
    *,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Remove a role that `tieline`, the console or REST assigned."""
    confirm(f"Remove the role {binding}?", yes=yes)
    platform.client().request("DELETE", f"{_PATH}/{segment(binding)}")
    say(f"Removed the role {binding}")


@keys.command("list")
def list_keys(*, limit: LimitOption = 1000, platform: Platform, output: OutputOption = Output.TABLE) -> None:
    """List the organisation's API keys, without the keys themselves."""
    found = list(platform.client().pages(_KEYS, limit=limit + 1))
    items = found[:limit]
    show(
        output,
        items,
        ("id", "user", "role", "expires", "last used", "age"),
        lambda: [
            (
                item["id"],
                item["user"],
                item["role"],
                item.get("expiresAt") or "never",
                age(item["lastUsedAt"]) if item.get("lastUsedAt") else "never",
                age(item["createdAt"]),
            )
            for item in items
        ],
        empty="There are no API keys. Create one with `tieline keys create`.",
    )
    if len(found) > limit:
        note("There are more API keys: use --limit")


@keys.command("create")
def create_key(
    user: Annotated[str, typer.Argument(metavar="USER", help="The user that the key acts as, such as ci.")],
    *,
    group: Annotated[
        list[str] | None,
        typer.Option("--group", metavar="NAME", help="A group of that user; may be repeated."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option(
            "--expires", metavar="DURATION", help="How long it is valid: 12h, 90d. Default: for ever."
        ),
    ] = None,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Create an API key, and write it to standard output. It is shown once.

    What its user may do is up to roles: see `tieline roles assign`.
    """
    body: Json = {"user": user, "groups": group or []}
    if expires is not None:
        body["expiresAt"] = time_after(expires)
    made = platform.client().request("POST", _KEYS, body=body)
    if output is not Output.TABLE:
        show(output, made)
        return
    say(made["key"])
    note(f"The key {made['id']} is shown this once. Use it in the header X-API-Key, or with `tieline login`.")
    if made["role"] == "none":
        note(f"It may do nothing yet: tieline roles assign viewer --user {made['subject']}")


@keys.command("revoke")
def revoke_key(
    key: Annotated[str, typer.Argument(metavar="ID", help="The id in `tieline keys list`.")],
    *,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Revoke an API key. Requests with it are refused from then on."""
    confirm(f"Revoke the API key {key}?", yes=yes)
    platform.client().request("DELETE", f"{_KEYS}/{segment(key)}")
    say(f"Revoked the API key {key}")


def _subject(subject: Json) -> str:
    """A subject of a role, for people.

    >>> _subject({"kind": "ServiceAccount", "namespace": "acme", "name": "ci"})
    'ServiceAccount acme/ci'
    """
    namespace = f"{subject['namespace']}/" if subject.get("namespace") else ""
    return f"{subject['kind']} {namespace}{subject['name']}"
