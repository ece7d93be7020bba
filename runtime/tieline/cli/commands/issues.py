"""``tieline issues``."""

from typing import Annotated, Any

import typer
from rich.text import Text

from tieline.cli.commands.run_filters import KindOption, SinceOption, TaskOption
from tieline.cli.exit_codes import UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import (
    InEnvironment,
    InProject,
    LimitOption,
    OutputOption,
    Platform,
    YesOption,
    confirm,
    moment,
    seconds_of,
    time_after,
)
from tieline.cli.remote.client import Client, Json, segment
from tieline.cli.terminal import Output, age, details, duration, local, note, say, show, styled

issues = Commands(
    no_args_is_help=True, help="List failures grouped by cause; resolve, mute, assign and replay them."
)

IssueArgument = Annotated[str, typer.Argument(metavar="ISSUE", help="The issue's id.")]
_UNRESOLVED = ["open", "regressed"]
_BARS = "·▁▂▃▄▅▆▇█"


@issues.command("list")
def list_issues(
    *,
    where: InEnvironment,
    everywhere: Annotated[bool, typer.Option("--all", "-A", help="Issues of all projects.")] = False,
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="open, regressed, resolved or muted; may be repeated. Default: open and regressed.",
        ),
    ] = None,
    kind: KindOption = None,
    task: TaskOption = None,
    system: Annotated[str | None, typer.Option("--system", metavar="NAME", help="The system's name.")] = None,
    assignee: Annotated[str | None, typer.Option("--assignee", help="The assignee.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Last seen since this time, or within a duration: 10m, 2h.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="First seen before this time, or a duration ago: 10m, 2h.")
    ] = None,
    limit: LimitOption = 20,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List issues, last seen first: failed runs and dead letters, grouped by cause."""
    remote = platform.client()
    path = "issues" if everywhere else f"projects/{where.project_id(remote)}/issues"
    found = list(
        remote.pages(
            path,
            limit=limit + 1,
            project_env=where.environment,
            state=state or _UNRESOLVED,
            kind=kind,
            task=task,
            system=system,
            assignee=assignee,
            since=moment(since),
            until=moment(until),
        )
    )
    items = found[:limit]
    show(
        output,
        items,
        (
            "id",
            "state",
            "task",
            "count",
            "last day",
            "last seen",
            "users",
            "since",
            "assignee",
            "what failed",
        ),
        lambda: [
            (
                item["id"],
                _state(item),
                item["task"],
                item["count"],
                chart(item["hours"]),
                age(item["lastSeen"]),
                item["users"],
                (item.get("firstVersion") or {}).get("name"),
                item.get("assignee"),
                _what(item),
            )
            for item in items
        ],
        empty="No issues match these filters.",
    )
    if len(found) > limit:
        note("There are more issues: use filters, or --limit")


@issues.command("show")
def show_issue(
    issue: IssueArgument,
    *,
    where: InProject,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show an issue with its latest runs."""
    remote = platform.client()
    found = remote.get(_path(remote, where, issue))
    versions = [(found.get(name) or {}).get("name") for name in ("firstVersion", "lastVersion")]
    details(
        output,
        found,
        {
            "issue": found["id"],
            "state": _state(found),
            "task": f"{found['kind']} {found['task']}",
            "system": _system(found),
            "error": f"{found['type']}: {found['message']}",
            "count": found["count"],
            "last day": chart(found["hours"]),
            "first seen": f"{local(found['firstSeen'])} ({age(found['firstSeen'])} ago)",
            "last seen": f"{local(found['lastSeen'])} ({age(found['lastSeen'])} ago)",
            "versions": " to ".join(dict.fromkeys(filter(None, versions))),
            "users": found["users"],
            "keys": found["keys"],
            "assignee": found.get("assignee"),
            "changed": f"{local(found['changedAt'])} by {found.get('changedBy')}"
            if found.get("changedAt")
            else None,
            "resolved after": (found.get("resolvedAfter") or {}).get("name"),
            "regressed in": (found.get("regressedIn") or {}).get("name"),
            "muted until": local(found.get("mutedUntil")),
            "reason": found.get("reason"),
        },
    )
    if output is not Output.TABLE:
        return
    if affected := found.get("mostAffectedUsers"):
        say("Most affected users:", style="bold")
        rows = [(one["user"]["externalId"], one["count"]) for one in affected]
        show(output, affected, ("user", "failed runs"), lambda: rows)
    say("Latest runs:", style="bold")
    show(
        output,
        found["latestRuns"],
        ("id", "status", "user", "key", "age", "took"),
        lambda: [
            (
                run["id"],
                styled(run["status"]),
                (run.get("user") or {}).get("externalId"),
                run.get("key"),
                age(run["queuedAt"]),
                duration(run.get("startedAt"), run.get("endedAt")),
            )
            for run in found["latestRuns"]
        ],
        empty="Its runs are no longer kept.",
    )


@issues.command("resolve")
def resolve(
    issue: IssueArgument,
    *,
    next_version: Annotated[
        bool,
        typer.Option(
            "--next-version",
            help="Resolve it in the next version: failures of deployed versions do not reopen it.",
        ),
    ] = False,
    where: InProject,
    platform: Platform,
) -> None:
    """Resolve an issue. If a run fails with it again, it is reopened as regressed."""
    body: Json = {"state": "resolved"} | ({"nextVersion": True} if next_version else {})
    found = _change(platform.client(), where, issue, body)
    after = (found.get("resolvedAfter") or {}).get("name")
    say(f"Resolved {issue}" + (f" in the version after {after}" if after else ""))


@issues.command("mute")
def mute(
    issue: IssueArgument,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why it is muted.")],
    time: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="TIME", help="For this long: 30m, 2h, 7d. Default: until it is reopened."
        ),
    ] = None,
    where: InProject,
    platform: Platform,
) -> None:
    """Mute an issue: new failures do not need attention."""
    body: Json = {"state": "muted", "reason": reason}
    if time is not None:
        if not seconds_of(time):
            raise UsageError("--for takes a time such as 30m, 2h or 7d")
        body["mutedUntil"] = time_after(time)
    found = _change(platform.client(), where, issue, body)
    until_text = local(found.get("mutedUntil"))
    say(f"Muted {issue}" + (f" until {until_text}" if until_text else ""))


@issues.command("reopen")
def reopen(issue: IssueArgument, *, where: InProject, platform: Platform) -> None:
    """Reopen an issue that was resolved or muted."""
    _change(platform.client(), where, issue, {"state": "open"})
    say(f"Reopened {issue}")


@issues.command("assign")
def assign(
    issue: IssueArgument,
    assignee: Annotated[
        str | None, typer.Argument(metavar="[WHO]", help="The assignee: a name, or any text.")
    ] = None,
    *,
    nobody: Annotated[bool, typer.Option("--nobody", help="Remove the assignee.")] = False,
    where: InProject,
    platform: Platform,
) -> None:
    """Assign an issue."""
    if (assignee is None) != nobody:
        raise UsageError("Name an assignee, or use --nobody")
    _change(platform.client(), where, issue, {"assignee": assignee or ""})
    say(f"Assigned {issue} to {assignee or 'nobody'}")


@issues.command("replay")
def replay(
    issue: IssueArgument,
    *,
    since: SinceOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count the runs that would be replayed.")
    ] = False,
    yes: YesOption = False,
    where: InProject,
    platform: Platform,
) -> None:
    """Replay the runs of an issue that have not been replayed yet."""
    remote = platform.client()
    path = f"{_path(remote, where, issue)}/replay"
    chosen = {"start": moment(since)} if since else {}
    counted = remote.request("POST", path, body={**chosen, "dryRun": True})
    question = f"Replay {counted['count']}{'+' if counted.get('more') else ''} runs"
    if dry_run or not counted["count"]:
        say(f"{question} ({counted.get('skipped', 0)} others of the issue would be skipped)")
        return
    confirm(f"{question}?", yes=yes)
    answer = remote.request("POST", path, body=chosen or None, read_seconds=300)
    say(f"Replayed {answer['count']} runs ({answer.get('skipped', 0)} skipped)")
    if answer.get("more"):
        note("There are more runs: use `tieline replay --issue` with an earlier --until")


def chart(hours: list[int]) -> str:
    """The counts of hours as a small chart.

    >>> chart([0, 1, 4, 8])
    '·▁▄█'
    """
    most = max(hours, default=0)
    return "".join(_BARS[-(-count * (len(_BARS) - 1) // most)] if most else _BARS[0] for count in hours)


def _change(remote: Client, where: InProject, issue: str, body: Json) -> Json:
    found: Json = remote.request("PATCH", _path(remote, where, issue), body=body)
    return found


def _path(remote: Client, where: InProject, issue: str) -> str:
    return f"projects/{where.project_id(remote)}/issues/{segment(issue)}"


def _state(issue: Json) -> Text:
    return styled(issue["state"])


def _system(issue: Json) -> str | None:
    if not issue.get("system"):
        return None
    status: Any = issue.get("upstreamStatus")
    return f"{issue['system']} answered {status}" if status else str(issue["system"])


def _what(issue: Json) -> str:
    text = _system(issue) or f"{issue['type'].rpartition('.')[2]}: {issue['message']}"
    return text.strip().partition("\n")[0][:200]
