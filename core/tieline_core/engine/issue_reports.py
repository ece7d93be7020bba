"""What the API reports about the issues of an environment: one message, which the operator reads for notifications.

The API's replicas change it by compare-and-swap, so that each issue is reported once. It never has an error's message,
which may hold what an event held.
"""

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MAX_REPORTS = 12
"""The newest reports of an environment are kept."""
MAX_NAMED = 5
"""Issues that a report names; of more it says how many there are."""
MAX_TEXT = 100
MAX_REPORTED = 500
"""Issues that are remembered as reported."""
KEY = "all"
"""Of the message."""

Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Seconds = Annotated[int, Field(ge=0, lt=2**35)]
"""Since 1970."""
Nanoseconds = Annotated[int, Field(ge=0, lt=2**63)]
"""Since 1970."""
ReportEvent = Literal["issue_opened", "issue_regressed"]


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ReportedIssue(_Stored):
    """An issue as it was when it was reported."""

    id: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{20}$")]
    task: Text
    type: Text = ""
    """Of the error."""
    system: Text = ""
    """The system that answered with an error."""
    status: int | None = None
    """What it answered."""
    runs: int
    since: Seconds
    version: Text = ""
    """Of one that regressed: the version that failed again."""


class IssueReport(_Stored):
    """Issues that opened, or that regressed, since the report before."""

    event: ReportEvent
    at: Seconds
    """When it was reported: no two reports of an environment have the same time."""
    total: int
    issues: Annotated[tuple[ReportedIssue, ...], Field(min_length=1, max_length=MAX_NAMED)]
    """The first of them."""
    console: Annotated[str, StringConstraints(max_length=512)] = ""
    """The URL of the console; empty where none is configured."""


class IssueLedger(_Stored):
    """The newest reports of an environment, and all that was reported."""

    reports: Annotated[tuple[IssueReport, ...], Field(max_length=MAX_REPORTS)] = ()
    """Oldest first."""
    opened: dict[str, Nanoseconds] = {}
    """Issues that are not new, in the order in which they were reported, with the times of their first failures."""
    opened_before: Nanoseconds = 0
    """Issues that are not in ``opened`` and failed first until then are not new either."""
    regressed: dict[str, Nanoseconds] = {}
    """Issues whose regression was reported, with the times of the decisions that they came back after."""
    regressed_before: Nanoseconds = 0
    """The same for decisions: regressions after decisions until then are not reported."""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """What ``content`` made. Raises ValueError."""
        return cls.model_validate_json(content)

    def content(self) -> dict[str, object]:
        """As the engine keeps it."""
        return self.model_dump(mode="json", exclude_defaults=True)
