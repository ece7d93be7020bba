"""What the API reports about the approvals of an environment: one message, which the operator reads for notifications.

The API's replicas change it by compare-and-swap, so that each approval is reported once. It has the title as it is
stored, in which known secrets are masked, and none of the details.
"""

from typing import Annotated, Literal, NamedTuple, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tieline_core.identity.ids import ULID_PATTERN
from tieline_protocol.approvals import MAX_TITLE

MAX_REPORTS = 12
"""The newest reports of an environment are kept."""
MAX_NAMED = 5
"""Approvals that a report names; of more it says how many there are."""
MAX_APPROVERS = 5
"""Approvers that a report names."""
MAX_TEXT = 100
MAX_ASKED = 1000
"""Approvals that are remembered."""
KEY = "all"
"""Of the message."""

Id = Annotated[str, StringConstraints(pattern=ULID_PATTERN)]
Text = Annotated[str, StringConstraints(max_length=MAX_TEXT)]
Seconds = Annotated[int, Field(ge=0, lt=2**38)]
"""Since 1970."""


class Asked(NamedTuple):
    """What is remembered of an approval."""

    until: Seconds
    """When it times out."""
    report: Seconds
    """The time of the report that it is part of; 0 for one that is not reported."""


class _Stored(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class ReportedApproval(_Stored):
    """An approval, as messages show it."""

    id: Id
    run: Id
    title: Annotated[str, StringConstraints(max_length=MAX_TITLE)]
    until: Seconds
    by: Annotated[tuple[Text, ...], Field(max_length=MAX_APPROVERS)] = ()
    """The first of those who may answer: ``role:…``, ``user:…`` or ``group:…``. Empty: who may edit the project."""
    more: Annotated[int, Field(ge=0)] = 0
    """How many others may answer."""
    other_than: Text = ""
    """The name of a user who may not."""


class ApprovalReport(_Stored):
    """Approvals that were asked since the report before, and that are open."""

    event: Literal["approval_requested"] = "approval_requested"
    at: Seconds
    """When it was reported: no two reports of an environment have the same time."""
    total: Annotated[int, Field(ge=1)]
    """How many of them are open."""
    approvals: Annotated[tuple[ReportedApproval, ...], Field(max_length=MAX_NAMED)]
    """The first of them. Those that were closed meanwhile are left out."""
    console: Annotated[str, StringConstraints(max_length=512)] = ""
    """The URL of the console; empty where none is configured."""

    def is_open(self, now: float) -> bool:
        """Whether an answer may still count."""
        return self.total > len(self.approvals) or any(now < one.until for one in self.approvals)


class ApprovalLedger(_Stored):
    """The newest reports of an environment, and the approvals that are not new."""

    reports: Annotated[tuple[ApprovalReport, ...], Field(max_length=MAX_REPORTS)] = ()
    """Oldest first. A report without an open approval is left out."""
    last: Seconds = 0
    """The time of the last report."""
    asked: dict[Id, Asked] = {}
    """Approvals that are not new."""
    before: Annotated[str, StringConstraints(pattern=f"({ULID_PATTERN})|^$")] = ""
    """Approvals with ids up to this one are not new either. Ids begin with the time."""

    @classmethod
    def parse(cls, content: bytes) -> Self:
        """What ``content`` made. Raises ValueError."""
        return cls.model_validate_json(content)

    def content(self) -> dict[str, object]:
        """As the engine keeps it."""
        return self.model_dump(mode="json", exclude_defaults=True)
