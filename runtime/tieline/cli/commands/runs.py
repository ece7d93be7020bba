"""``tieline runs``, ``replay`` and ``traces``."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from tieline.cli.commands.run_filters import (
    ChosenOption,
    RunArgument,
    RunFilters,
    StatusOption,
    VersionOption,
)
from tieline.cli.exit_codes import UsageError
from tieline.cli.option_groups import Commands
from tieline.cli.options import (
    InEnvironment,
    LimitOption,
    OutputOption,
    Platform,
    YesOption,
    confirm,
    json_value,
)
from tieline.cli.remote.client import Client, Json, segment
from tieline.cli.remote.private_files import write_private
from tieline.cli.terminal import (
    Output,
    age,
    details,
    duration,
    indented,
    local,
    note,
    one_line,
    say,
    show,
    styled,
    write,
)

runs = Commands(no_args_is_help=True, help="List, inspect, replay, cancel and discard runs.")

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only count the runs.")]


@runs.command("list")
def list_runs(
    *,
    where: InEnvironment,
    everywhere: Annotated[bool, typer.Option("--all", "-A", help="Runs of all projects.")] = False,
    status: StatusOption = None,
    version: VersionOption = None,
    fits: RunFilters,
    left: Annotated[
        bool, typer.Option("--left", help="Only dead runs that were neither run again nor discarded.")
    ] = False,
    limit: LimitOption = 20,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """List runs, newest first."""
    remote = platform.client()
    path = "runs" if everywhere else f"projects/{where.project_id(remote)}/runs"
    filters = fits.query(where.environment, status=status, version=version)
    if left:
        if status and status != ["dead"]:
            raise UsageError(f"--left is about dead runs, not about --status {' '.join(status)}")
        filters |= {"status": ["dead"], "discarded": False, "replayed": False}
    found = list(remote.pages(path, limit=limit + 1, **filters))
    items = found[:limit]
    show(
        output,
        items,
        ("id", "status", "kind", "task", "user", "tags", "attempt", "age", "took", "reason"),
        lambda: [
            (
                item["id"],
                _status(item),
                item["kind"],
                item["task"],
                (item.get("user") or {}).get("externalId"),
                _tags(item),
                f"{item['attempt']}/{item['attempts']}" if item.get("attempts") else item["attempt"],
                age(item["queuedAt"]),
                duration(item.get("startedAt"), item.get("endedAt")),
                _reason(item),
            )
            for item in items
        ],
        empty="There are no such runs.",
    )
    if len(found) > limit:
        note("There are more runs: use filters, or --limit")


@runs.command("show")
def show_run(
    run: RunArgument,
    *,
    where: InEnvironment,
    platform: Platform,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show a run: attempts, steps, the error with the upstream's answer, and the input where it is kept."""
    remote = platform.client()
    found = remote.get(
        f"projects/{where.project_id(remote)}/runs/{segment(run)}", project_env=where.environment
    )
    error = found.get("error") or {}
    details(
        output,
        found,
        {
            "run": found["id"],
            "status": styled(found["status"]),
            "task": f"{found['kind']} {found['task']}",
            "user": (found.get("user") or {}).get("externalId"),
            "version": (found.get("version") or {}).get("name"),
            "key": found.get("key"),
            "tags": _tags(found),
            "progress": _progress(found),
            "waits for": _waits_for(found),
            "queued": f"{local(found['queuedAt'])} ({age(found['queuedAt'])} ago)",
            "next attempt": local(found.get("nextAttemptAt")),
            "activation": found.get("activationId"),
            "trace": found.get("traceId"),
            "replay of": found.get("replayOf"),
            "replayed by": found.get("replayedBy"),
            "parent": found.get("parent"),
            "discarded": local(found.get("discardedAt")),
            "error": f"{error['type']}: {error['message']}" if error else None,
            "issue": found.get("issueId"),
        },
    )
    if output is not Output.TABLE:
        return
    if upstream := error.get("upstream"):
        system = one_line(upstream.get("system") or "The system")
        say(f"{system} answered {one_line(upstream['status'])}:", style="bold")
        say(indented(f"  {upstream['body']}", 2))
    _show_attempts(output, found)
    if "input" in found:
        say("Input:", style="bold")
        write(found["input"], Output.JSON)
    elif found.get("inputBase64"):
        content = one_line(found.get("inputContentType") or "bytes")
        say(f"Input: {content}; --output json has it", style="bold")


@runs.command("download")
def download(
    run: RunArgument,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Default: run-ID.json in this folder; - for the terminal."
        ),
    ] = None,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Download a run that has ended as a file for `tieline run --replay FILE`."""
    remote = platform.client()
    found = remote.get(
        f"projects/{where.project_id(remote)}/runs/{segment(run)}/recording", project_env=where.environment
    )
    if file is not None and str(file) == "-":
        write(found, Output.JSON)
        return
    # The answer's id is no path.
    target = file or Path(f"run-{run.upper()}.json" if run.isalnum() else "run.json")
    write_private(target, f"{json.dumps(found, indent=2)}\n")
    for one in found.get("notes") or ():
        note(one_line(one))
    say(f"Written: {target}")


@runs.command("cancel")
def cancel_runs(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id; or filters of many.")
    ] = None,
    *,
    where: InEnvironment,
    chosen: ChosenOption = None,
    status: StatusOption = None,
    fits: RunFilters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Cancel a run, or all that fit the filters."""
    remote = platform.client()
    filters = fits.query(where.environment, status=status, ids=chosen)
    _act(remote, where.project_id(remote), run, "cancel", filters, dry_run=dry_run, yes=yes)


@runs.command("signal")
def signal(
    run: RunArgument,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The signal's name, as the code waits for it.")],
    payload: Annotated[
        str | None, typer.Argument(metavar="[JSON]", help="The payload: JSON, @FILE or - (standard input).")
    ] = None,
    *,
    id: Annotated[
        str | None, typer.Option("--id", help="Signals with one id count once (two minutes).")
    ] = None,
    is_local: Annotated[
        bool, typer.Option("--local", help="To a run of `tieline run` in this folder, instead of a platform.")
    ] = False,
    where: InEnvironment,
    platform: Platform,
) -> None:
    """Send a signal to a run. The run gets it once its code waits for a signal of this name."""
    content = json_value(payload) if payload is not None else None
    if is_local:
        from tieline.cli.commands.local_approvals import signal_locally  # noqa: PLC0415  (it loads what runs events)

        if id is not None:
            raise UsageError("--id is for signals to a platform")
        signal_locally(run, name, content)
        say(f"Sent to {run}")
        return
    remote = platform.client()
    answer = remote.request(
        "POST",
        f"projects/{where.project_id(remote)}/runs/{segment(run)}/signals/{segment(name)}",
        query={"project_env": where.environment},
        body={"payload": content} | ({} if id is None else {"id": id}),
    )
    known = " already, and not again" if answer["status"] == "duplicate" else ""
    say(f"Sent to {run}{known}")


@runs.command("discard")
def discard_runs(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id; or filters of many.")
    ] = None,
    *,
    where: InEnvironment,
    chosen: ChosenOption = None,
    status: StatusOption = None,
    fits: RunFilters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Delete the dead letter of a run, or of all that fit the filters."""
    remote = platform.client()
    filters = fits.query(where.environment, status=status, ids=chosen)
    _act(remote, where.project_id(remote), run, "discard", filters, dry_run=dry_run, yes=yes)


@runs.command("replay")
def replay(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run's id; or filters of many.")
    ] = None,
    *,
    payload: Annotated[
        str | None,
        typer.Option("--payload", metavar="JSON", help="Another input: JSON, @FILE or - (standard input)."),
    ] = None,
    where: InEnvironment,
    from_step: Annotated[
        str | None,
        typer.Option(
            "--from-step",
            metavar="STEP",
            help="Begin at this step, with the recorded results before it: NAME, or NAME#2 for the second of a name.",
        ),
    ] = None,
    chosen: ChosenOption = None,
    status: StatusOption = None,
    version: VersionOption = None,
    fits: RunFilters,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    platform: Platform,
) -> None:
    """Run a run again, or all that fit the filters, such as `--status dead`."""
    remote = platform.client()
    filters = fits.query(where.environment, status=status, version=version, ids=chosen)
    body = None
    if payload is not None:
        if run is None:
            raise UsageError("--payload needs the id of one run")
        body = {"payload": json_value(payload)}
    if from_step is not None:
        if run is None or payload is not None:
            raise UsageError("--from-step needs the id of one run, and goes without --payload")
        body = {"fromStep": _named_step(from_step)}
    _act(remote, where.project_id(remote), run, "replay", filters, dry_run=dry_run, yes=yes, body=body)


def _named_step(text: str) -> Json:
    """What ``--from-step`` names: of ``NAME#2`` the second step, of another text the first one of that name."""
    name, mark, number = text.rpartition("#")
    if mark and name and number.isascii() and number.isdecimal() and len(number) <= _MOST_DIGITS:
        return {"name": name, "occurrence": int(number)}
    return {"name": text, "occurrence": 1}


_MOST_DIGITS = 6
_PAST = {"replay": "Run again", "cancel": "Cancelled", "discard": "Discarded"}


def _act(
    remote: Client,
    project: str,
    run: str | None,
    action: str,
    filters: Mapping[str, Any],
    *,
    dry_run: bool,
    yes: bool,
    body: Json | None = None,
) -> None:
    given = {name: value for name, value in filters.items() if value is not None}
    path = f"projects/{project}/runs"
    if run is not None:
        if dry_run:
            raise UsageError("--dry-run is for filters, not for one run")
        others = set(given) - {"project_env"}
        if others:
            raise UsageError("Name one run, or use filters, not both")
        answer = remote.request("POST", f"{path}/{segment(run)}/{action}", query=given, body=body)
        new = f" as {answer['id']}" if action == "replay" and answer else ""
        say(f"{_PAST[action]}: {run}{new}")
        return
    if not given:
        example = "--task NAME" if action == "discard" else "--status dead"
        raise UsageError(f"Name a run, or filters such as {example}; nothing would {action} every run")
    counted = remote.request("POST", f"{path}/{action}", body={**given, "dryRun": True})
    question = f"{action.capitalize()} {counted['count']}{'+' if counted.get('more') else ''} runs"
    if dry_run or not counted["count"]:
        say(f"{question} ({counted.get('skipped', 0)} others fit the filters and would be skipped)")
        return
    confirm(f"{question}?", yes=yes)
    answer = remote.request("POST", f"{path}/{action}", body=given, read_seconds=300)
    say(f"{_PAST[action]}: {answer['count']} runs ({answer.get('skipped', 0)} skipped)")
    if answer.get("more"):
        note("There are more runs than one request looks at: repeat the command with an earlier --until")


def _show_attempts(output: Output, run: Json) -> None:
    attempts = run.get("attemptHistory") or []
    if len(attempts) > 1 or any(item.get("steps") for item in attempts):
        say("Attempts:", style="bold")
        show(
            output,
            attempts,
            ("attempt", "status", "started", "took", "version", "steps", "error"),
            lambda: [
                (
                    item["attempt"],
                    styled(item["status"]),
                    local(item.get("startedAt")),
                    duration(item.get("startedAt"), item.get("endedAt")),
                    (item.get("version") or {}).get("name"),
                    ", ".join(map(_step, item.get("steps") or ())),
                    _first_line((item.get("error") or {}).get("message")),
                )
                for item in attempts
            ],
        )


def _status(run: Json) -> Text:
    """The status, and of a dead run what became of its dead letter."""
    shown = styled(run["status"])
    if run.get("replayedBy"):
        shown.append(", replayed")
    elif run.get("discardedAt"):
        shown.append(", discarded")
    return shown


def _reason(run: Json) -> str:
    """Why it has failed, or why it does not begin."""
    if run.get("waitsBehind"):
        return f"waits behind {run['waitsBehind']}"
    if run.get("waitsFor") and not run.get("error") and not run.get("progress"):
        return f"waits for {_waits_for(run)}"
    if run.get("progress") and run["status"] in ("running", "waiting") and not run.get("error"):
        return _first_line(_progress(run))
    return _first_line((run.get("error") or {}).get("message"))


_WAITS_FOR = {
    "slot": "a pod with room for it",
    "key": "its key",
    "delay": "its time",
    "sleep": "its time",
    "retry": "its next attempt",
    "debounce": "the end of its burst",
    "throttle": "its turn",
    "batch": "its batch",
    "event": "an event",
    "approval": "an approval",
    "child": "the run that it started",
}


def _waits_for(run: Json) -> str | None:
    """What it waits for; a word that this version does not know is shown as it is."""
    if run.get("waitsBehind"):
        return f"{run['waitsBehind']}, which has the same key"
    return _WAITS_FOR.get(str(run.get("waitsFor")), run.get("waitsFor"))


def _progress(run: Json) -> str | None:
    """What its code last said, and of an earlier attempt which one that was."""
    said = run.get("progress")
    if not said:
        return None
    percent = f" ({math.floor(said['fraction'] * 100)} %)" if said.get("fraction") is not None else ""
    earlier = f", in attempt {said['attempt']}" if said["attempt"] != run["attempt"] else ""
    return f"{said['text']}{percent}{earlier}"


def _tags(run: Json) -> str | None:
    """As ``--tag`` takes them."""
    return ", ".join(f"{tag['name']}={tag['value']}" for tag in run.get("tags") or ()) or None


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0][:200]


def _step(step: Json) -> str:
    recorded = " (recorded)" if step.get("recorded") else ""
    number = f"#{step['occurrence']}" if step.get("occurrence", 1) != 1 else ""
    child = f" {step['child']}" if step.get("child") else ""
    return f"{step['name']}{number}{child}{recorded}{' failed' if step.get('error') else ''}"
