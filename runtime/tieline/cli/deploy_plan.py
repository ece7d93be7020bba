"""What a deploy changes, for people and for programs."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.text import Text

from tieline.cli.file_diff import FileChange, patch
from tieline.cli.inspect_code import LoadedCode
from tieline.cli.terminal import Output, err, one_line, safe, write

_CHANGES = {"+": "added", "-": "removed", "~": "changed"}
_SIGNS = {"+": "green", "-": "red", "~": "yellow"}


def show_changes(
    changed: Sequence[FileChange], before: Mapping[str, str], after: Mapping[str, str], *, whole: bool
) -> None:
    """Writes the files that differ to standard error, with their lines if ``whole``."""
    console = err()
    for change in changed:
        line = Text(f"{change.sign} {one_line(change.name)}", style=_SIGNS[change.sign])
        line.append(f"  +{change.added} -{change.removed}", style="dim")
        console.print(line)
        if whole:
            for text in patch(change.name, before.get(change.name), after.get(change.name)):
                console.print(Text(safe(text), style=_SIGNS.get(text[:1], "")))


def write_plan(output: Output, project: str, environment: str, changed: Sequence[FileChange]) -> None:
    """What a deploy would change, for programs; people have seen it."""
    if output is Output.TABLE:
        return
    files = [
        {"filename": item.name, "change": _CHANGES[item.sign], "added": item.added, "removed": item.removed}
        for item in changed
    ]
    write({"project": project, "environment": environment, "dryRun": True, "changes": files}, output)


def events_without_task(
    backlog: Iterable[Mapping[str, Any]], environment: str, loaded: LoadedCode
) -> list[str]:
    """A sentence for each task of waiting events that the code does not have. ``environment`` is an id."""
    known = {item["name"] for item in (*loaded.events, *loaded.waits, *loaded.webhooks, *loaded.schedules)}
    waiting: Counter[str] = Counter()
    for item in backlog:
        if item["environmentId"] == environment and item["status"] != "dead" and item["task"] not in known:
            waiting[item["task"]] += item["count"]
    return [
        f"{count} {'event waits' if count == 1 else 'events wait'} for {one_line(task)}, which this code does not "
        "have. They become dead letters minutes after the deploy. Keep the task until they have ended, or cancel them "
        f"with `tieline runs cancel --task {one_line(task)}`"
        for task, count in sorted(waiting.items())
    ]
