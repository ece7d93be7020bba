"""``tieline audit``."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from tieline.cli.option_groups import Commands
from tieline.cli.options import LimitOption, OutputOption, Platform, moment
from tieline.cli.remote.client import Client, Json
from tieline.cli.terminal import Output, local, note, show

audit = Commands(no_args_is_help=True, help="List who changed what, and who was refused.")

_MOST_PAGES = 100
"""With filters, a page can be empty although there are more records."""
_PAGE = 200
_SHOWN_FIELDS = 5


@audit.command("list")
def list_records(
    *,
    access: Annotated[
        bool,
        typer.Option(
            "--access", help="What end users and anonymous callers did, and requests through connections."
        ),
    ] = False,
    subject: Annotated[
        str | None, typer.Option("--subject", metavar="NAME", help="Of this subject, by its name in RBAC.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="About this kind, such as connections.")
    ] = None,
    about: Annotated[
        str | None,
        typer.Option("--id", metavar="ID", help="About the object with this id, or that changed it."),
    ] = None,
    outcome: Annotated[str | None, typer.Option("--outcome", help="allowed, refused or failed.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="At this time or later, or within a duration: 10m, 2h.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Before this time, or a duration ago: 10m, 2h.")
    ] = None,
    limit: LimitOption = 50,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List audit records, newest first. It needs the permission to assign roles."""
    query = {
        "log": "access" if access else "changes",
        "subject": subject,
        "kind": kind,
        "id": about,
        "outcome": outcome,
        "since": moment(since),
        "until": moment(until),
    }
    found = _Records(platform.client(), query, most=limit)
    items = list(found)
    show(
        output,
        items,
        ("number", "at", "who", "via", "operation", "object", "outcome", "what"),
        lambda: [
            (
                item["sequence"],
                local(item["at"]),
                item["subject"] or item["address"],
                item["via"],
                item["operation"],
                " ".join(filter(None, (item["kind"], item["object"]))),
                _outcome(item),
                what(item),
            )
            for item in items
        ],
        empty="No records match these filters.",
    )
    if found.more:
        note("There are more records: use filters, or --limit")


class _Records:
    """The records of a query. A page may have none and still lead to others."""

    def __init__(self, remote: Client, query: Json, *, most: int) -> None:
        self._remote = remote
        self._query = query
        self._most = most
        self.more = False
        """Whether there are more, or may be."""

    def __iter__(self) -> Iterator[Json]:
        left, after = self._most, None
        for _ in range(_MOST_PAGES):
            page = self._remote.get("audit", **self._query, first=min(left, _PAGE), after=after)
            items = page["items"][:left]
            yield from items
            left, after = left - len(items), page.get("next")
            self.more = bool(after)
            if not after or not left:
                return


def _outcome(item: Json) -> str:
    return (
        item["outcome"]
        if item["outcome"] == "allowed"
        else f"{item['outcome']} {item.get('code') or item['status']}"
    )


def what(item: Json) -> str:
    """What a record says changed, for people.

    >>> what({"changes": [{"action": "changed", "kind": "systems", "fields": [{"name": "name", "after": "Shop"}]}]})
    'changed systems: name=Shop'
    >>> what({"sent": [{"method": "GET", "host": "api.example", "path": "/orders"}]})
    'GET api.example/orders'
    """
    changes = [f"{one['action']} {one['kind']}{_fields(one['fields'])}" for one in item.get("changes") or ()]
    sent = [f"{one['method']} {one['host']}{one['path']}" for one in item.get("sent") or ()]
    return "; ".join((*changes, *sent))


def _fields(fields: list[dict[str, Any]]) -> str:
    shown = [
        f"{one['name']}={one['after']}" if "after" in one else one["name"] for one in fields[:_SHOWN_FIELDS]
    ]
    more = ["…"] if len(fields) > _SHOWN_FIELDS else []
    return f": {', '.join((*shown, *more))}" if shown else ""
