"""Versions of a project's files in REST, what differs between them, and what a deploy would refuse."""

from typing import Annotated, Literal

from pydantic import Field

from tieline_api.schemas.base import MaybeId, Page, Query, Rest, TimeOut, UlidOut
from tieline_api.schemas.names import DisplayName
from tieline_api.schemas.projects import EnvironmentId, FileList, LabelMap
from tieline_core.resources.fields import Text
from tieline_core.severity import Severity


class Version(Rest):
    """A version of a project's files."""

    id: UlidOut
    """The version's id."""
    name: str
    """Its name."""
    state: str
    """draft, ready, failed or superseded."""
    created_at: TimeOut
    """When it was made."""
    labels: LabelMap
    """Its labels."""
    description: str | None = None
    """What is new in it; absent where nobody has said that."""
    created_by: str | None = None
    """Who made it: the user's name in RBAC. Absent where that is not known: for versions that the operator made of
    files in ConfigMaps or from Git, and for those that were made with other tools."""


class VersionPage(Page):
    """A part of the list of versions."""

    items: list[Version]
    """The versions, newest first."""


class VersionCreate(Rest):
    """A new version, which is not deployed."""

    name: DisplayName
    """The version's name."""
    description: Text | None = None
    """Description of the changes."""
    labels: LabelMap | None = None
    """Its labels; the project's current ones when left out."""
    files: Annotated[FileList, Field(min_length=1)]
    """All files."""


class DiffQuery(Query):
    """What to compare with."""

    since: Annotated[EnvironmentId | None, MaybeId, Field(alias="from")] = None
    """The id of the version to compare with; the one that was made before when left out."""


class VersionRef(Rest):
    """A version."""

    id: UlidOut
    """The version's id."""
    name: str
    """Its name."""


class FileDiff(Rest):
    """A file that differs between two versions."""

    filename: str
    """The file's path."""
    change: Literal["added", "removed", "changed"]
    """What became of it."""
    binary: bool
    """Whether it is no text in one of the versions; then there is no diff."""
    truncated: bool
    """Whether the diff is too large, or takes too long to find: it ends early, or is absent."""
    diff: str | None = None
    """A unified diff."""


class LabelDiff(Rest):
    """A label that differs between two versions."""

    key: str
    """The label's key."""
    before: str | None = None
    """Its value in the earlier version; absent where that does not have it."""
    after: str | None = None
    """Its value in this version; absent where this does not have it."""


class VersionDiff(Rest):
    """What differs between two versions."""

    since: Annotated[VersionRef | None, Field(alias="from")] = None
    """The version that it is compared with; absent for the first one, in which all files are added."""
    to: VersionRef
    """The version."""
    files: list[FileDiff]
    """The files that differ, by name."""
    labels: list[LabelDiff]
    """The labels that differ, by key."""


class ValidateBody(Rest):
    """What to check; without files the current ones."""

    files: FileList | None = None
    """All files."""
    labels: LabelMap | None = None
    """Their labels; the project's current ones when left out."""


class Finding(Rest):
    """Something that the checks found."""

    filename: str | None = None
    """The file, where it is about one."""
    line: int | None = None
    """The line in it, from 1."""
    severity: Severity
    """An error refuses a deploy."""
    message: str
    """What was found, and what to do."""


class Validation(Rest):
    """The outcome of a check."""

    success: bool
    """Whether a deploy would take the files."""
    error: str
    """The first errors in one sentence; empty when there are none."""
    output: str
    """All findings, a line each."""
    duration: int
    """Milliseconds that the check took."""
    timestamp: TimeOut
    """When it was made."""


class ValidationAnswer(Rest):
    """What a deploy of files would refuse."""

    project_id: Annotated[UlidOut, Field(alias="project_id")]
    """The project's id."""
    environment: str
    """The name of the environment that the files were checked for."""
    validation: Validation
    """The outcome."""
    findings: list[Finding]
    """What was found, at most 64."""
