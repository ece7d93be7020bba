"""What a deploy changes, for people and for programs."""

from collections.abc import Mapping, Sequence

from rich.text import Text

from tieline.cli.file_diff import FileChange, patch
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
