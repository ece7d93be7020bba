"""What runs are chosen by, in the commands about runs and traces."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from tieline.cli.exit_codes import UsageError
from tieline.cli.options import moment
from tieline_protocol.run_tags import parse_tag

RunArgument = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
StatusOption = Annotated[
    list[str] | None,
    typer.Option(
        "--status",
        help="queued, running, waiting, succeeded, failed, dead or cancelled; several times for one of these.",
    ),
]
KindOption = Annotated[str | None, typer.Option("--kind", help="webhook, event, schedule or background.")]
TaskOption = Annotated[str | None, typer.Option("--task", help="The webhook's, event's or schedule's name.")]
UserOption = Annotated[str | None, typer.Option("--user", metavar="ID", help="The user's external id.")]
VersionOption = Annotated[
    str | None, typer.Option("--version", metavar="NAME", help="The version's name or id.")
]
SinceOption = Annotated[
    str | None, typer.Option("--since", help="Queued from this time on, or this long ago: 10m, 2h.")
]
UntilOption = Annotated[
    str | None, typer.Option("--until", help="Queued before this time, or this long ago.")
]
SearchOption = Annotated[str | None, typer.Option("--search", help="Text in errors.")]
TagOption = Annotated[
    list[str] | None,
    typer.Option(
        "--tag", metavar="NAME=VALUE", help="A tag that the code has set; several times for all of these."
    ),
]
FindOption = Annotated[
    str | None,
    typer.Option(
        "--find", metavar="ID", help="The id of a run or event, a key, a user, or the value of a tag."
    ),
]
KeyOption = Annotated[str | None, typer.Option("--key", help="The event's key.")]
ChosenOption = Annotated[
    list[str] | None,
    typer.Option("--id", metavar="RUN", help="The run with this id; several times for several, at most 100."),
]
IssueOption = Annotated[
    str | None, typer.Option("--issue", metavar="ID", help="Failed runs of this issue, by its id.")
]


@dataclass(frozen=True, kw_only=True)
class RunFilters:
    """Options that choose runs."""

    kind: KindOption = None
    task: TaskOption = None
    user: UserOption = None
    since: SinceOption = None
    until: UntilOption = None
    tag: TagOption = None
    find: FindOption = None
    search: SearchOption = None
    key: KeyOption = None
    issue: IssueOption = None

    def query(
        self,
        environment: str | None,
        *,
        status: list[str] | None = None,
        version: str | None = None,
        ids: list[str] | None = None,
    ) -> dict[str, Any]:
        """The filters as the API takes them. Raises UsageError."""
        return {
            "ids": ids or None,
            "project_env": environment,
            "status": status or None,
            "kind": self.kind,
            "task": self.task,
            "user": self.user,
            "version": version,
            "start": moment(self.since),
            "end": moment(self.until),
            "tag": [_tag(text) for text in self.tag] if self.tag else None,
            "find": self.find,
            "search": self.search,
            "key": self.key,
            "issue": self.issue,
        }


def _tag(text: str) -> str:
    """A tag as the API takes it. Raises UsageError."""
    found = parse_tag(text, separator="=")
    if found is None:
        raise UsageError(f"--tag takes a name and a value, such as order=N-1101, not {text!r}")
    return ":".join(found)
