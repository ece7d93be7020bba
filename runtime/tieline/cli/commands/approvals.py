"""``tieline approvals``."""

from typing import Annotated, Any

import typer

from tieline.cli.exit_codes import CommandError, UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import (
    LimitOption,
    OutputOption,
    Platform,
    json_value,
)
from tieline.cli.remote.client import Client, Json, segment
from tieline.cli.remote.lookup import find_project
from tieline.cli.terminal import Output, age, details, json_text, local, note, say, show, styled

approvals = Commands(no_args_is_help=True, help="See what runs ask people, and approve or reject it.")

ApprovalArgument = Annotated[str, typer.Argument(metavar="APPROVAL", help="The approval's id.")]
CommentOption = Annotated[str, typer.Option("--comment", "-m", help="Why.")]
LocalOption = Annotated[
    bool, typer.Option("--local", help="Of `tieline run` in this folder, instead of a platform.")
]
NamedProjectOption = Annotated[
    str | None,
    typer.Option("--project", "-p", metavar="NAME", help="Only those of this project, by name or id."),
]
NamedEnvironmentOption = Annotated[
    str | None, typer.Option("--environment", "-e", metavar="NAME", help="Only in environments of this name.")
]
_MOST = 1000


@approvals.command("list")
def list_approvals(
    *,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="open, approved, rejected, timed_out or withdrawn; may be repeated. Default: open.",
        ),
    ] = None,
    mine: Annotated[bool, typer.Option("--mine", help="Only open ones that you may answer.")] = False,
    project: NamedProjectOption = None,
    environment: NamedEnvironmentOption = None,
    limit: LimitOption = 20,
    is_local: LocalOption = False,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List what runs ask, newest first: of all projects, unless one is named."""
    states = state or ["open"]
    if is_local:
        from tieline.cli.commands.local_approvals import local_approvals  # noqa: PLC0415  (it loads what runs events)

        items = [one for one in reversed(local_approvals()) if one["state"] in states]
    else:
        remote = platform.client()
        items = list(
            remote.pages(
                "approvals",
                limit=limit + 1,
                project=find_project(remote, project)["id"] if project else None,
                project_env=environment,
                state=None if mine else states,
                answerable="true" if mine else None,
            )
        )
    show(
        output,
        items[:limit],
        ("id", "state", "task", "asked", "for", "title"),
        lambda: [
            (
                item["id"],
                styled(item["state"]),
                item["task"],
                age(item["askedAt"]) if item.get("askedAt") else None,
                ", ".join(item["by"]) or "role:tieline-editor",
                item["title"],
            )
            for item in items[:limit]
        ],
        empty="No approvals match these filters.",
    )
    if len(items) > limit:
        note("There are more approvals: use filters, or --limit")


@approvals.command("show")
def show_approval(
    approval: ApprovalArgument,
    *,
    is_local: LocalOption = False,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a run asks, and the answer."""
    if is_local:
        from tieline.cli.commands.local_approvals import local_approval  # noqa: PLC0415  (it loads what runs events)

        found = local_approval(approval)
    else:
        found = _find(platform.client(), approval)
    _show(found, output)


@approvals.command("approve")
def approve(
    approval: ApprovalArgument,
    *,
    comment: CommentOption = "",
    values: Annotated[
        str | None,
        typer.Option("--values", metavar="JSON", help="What the form asks for: JSON, @FILE or -."),
    ] = None,
    is_local: LocalOption = False,
    platform: Platform,
) -> None:
    """Approve what a run asks. The run continues."""
    given = None if values is None else json_value(values)
    if given is not None and not isinstance(given, dict):
        raise UsageError("--values takes a JSON object")
    body = {"approved": True, "comment": comment} | ({} if given is None else {"values": given})
    _answer(approval, body, platform, is_local=is_local)
    say(f"Approved {approval}")


@approvals.command("reject")
def reject(
    approval: ApprovalArgument,
    *,
    comment: CommentOption = "",
    is_local: LocalOption = False,
    platform: Platform,
) -> None:
    """Reject what a run asks. The run continues."""
    _answer(approval, {"approved": False, "comment": comment}, platform, is_local=is_local)
    say(f"Rejected {approval}")


def _answer(approval: str, body: Json, platform: Platform, *, is_local: bool) -> None:
    if is_local:
        from tieline.cli.commands.local_approvals import answer_locally  # noqa: PLC0415  (it loads what runs events)

        answer_locally(approval, body)
        return
    remote = platform.client()
    found = _find(remote, approval)
    environment = segment(found["environmentId"])
    remote.request("POST", f"environments/{environment}/approvals/{segment(approval)}/answer", body=body)


def _find(remote: Client, approval: str) -> Json:
    """The approval with this id, in whatever environment. Raises CommandError."""
    segment(approval)
    for found in remote.pages("approvals", limit=_MOST):
        if str(found["id"]).lower() == approval.lower():
            return found
    raise CommandError(f"There is no approval {approval} among the newest; see `tieline approvals list`")


def _show(found: Json, output: Output) -> None:
    answer = found.get("answer") or {}
    details(
        output,
        found,
        {
            "approval": found["id"],
            "title": found["title"],
            "state": styled(found["state"]),
            "details": _json(found.get("details")),
            "task": found["task"],
            "run": found["runId"],
            "for": ", ".join(found["by"]) or "role:tieline-editor",
            "other than": found.get("otherThan"),
            "form": _json(found.get("form")),
            "asked": local(found.get("askedAt")),
            "until": local(found.get("until")),
            "answered by": answer.get("by"),
            "answered at": local(answer.get("at")),
            "comment": answer.get("comment"),
            "values": _json(answer.get("values")),
        },
    )


def _json(value: Any) -> str | None:
    return None if value is None else json_text(value)
