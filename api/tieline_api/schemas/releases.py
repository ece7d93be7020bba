"""Releases of environments in REST."""

from enum import StrEnum

from tieline_api.schemas.base import Page, PageQuery, Rest, TimeOut, UlidOut
from tieline_api.schemas.versions import VersionDiff


class ReleaseOutcome(StrEnum):
    """What became of a release."""

    PROGRESSING = "progressing"
    """It is being rolled out."""
    SERVING = "serving"
    """It serves, and has not been healthy for long enough yet."""
    HEALTHY = "healthy"
    """It has served alone for a while without a restart."""
    FAILED = "failed"
    """It was refused, or its pods never served."""
    CRASHED = "crashed"
    """It served, and its pods no longer do."""
    SUSPENDED = "suspended"
    """The environment is suspended."""
    REPLACED = "replaced"
    """Another version took over."""
    ROLLED_BACK = "rolled_back"
    """An earlier version took over."""


class ReleasedVersion(Rest):
    """The version of a release."""

    id: UlidOut | None = None
    """Its id; absent if the version no longer exists."""
    name: str
    """Its name."""
    created_by: str | None = None
    """Who made it, where that is known."""


class ReleaseFailure(Rest):
    """Why a release failed or crashed."""

    reason: str
    """One word, such as Crashed or VersionRefused."""
    message: str
    """One line: for code that crashes the error with its file and line."""


class Release(Rest):
    """A deploy of a version to an environment, and what became of it."""

    number: int
    """Counts the releases of the environment from 1."""
    version: ReleasedVersion
    """The version."""
    deployed_at: TimeOut
    """When it was deployed."""
    by: str | None = None
    """Who deployed it by REST, the command line or the console: the user's name in RBAC."""
    via: str | None = None
    """The GitOps tool that deployed it, such as Flux (Kustomization "apps"). Without ``by`` and ``via`` it was deployed
    with kubectl or another client of Kubernetes."""
    message: str | None = None
    """What the deploy is for, where that was given."""
    revision: str | None = None
    """The revision in version control that the files are of, where that is known."""
    outcome: ReleaseOutcome
    """What became of it: progressing, serving (all pods are of the version), healthy (it has served alone for a while
    without a restart), failed (it never served), crashed (it served, and does not now), suspended, replaced or
    rolled_back (an earlier version took over)."""
    was_healthy: bool
    """Whether it has been healthy."""
    failure: ReleaseFailure | None = None
    """Why it failed or crashed last; absent while it serves."""
    served_from: TimeOut | None = None
    """When it first served alone; absent if it never did."""
    served_until: TimeOut | None = None
    """When it stopped serving; absent while it serves."""
    served_seconds: int | None = None
    """How long it has served until then or now; absent if it never did."""
    runs: int | None = None
    """How many runs of its version the run history has since the deploy; absent if that is unknown."""
    failed_runs: int | None = None
    """How many of these failed."""


class ReleaseDetail(Release):
    """A release with what it changed."""

    previous: int | None = None
    """The number of the release before; absent for the first one in the list."""
    changes: VersionDiff | None = None
    """What differs from the release before, with diffs cut at 128 KiB for a file and 2 MiB together. Absent for the
    first release in the list, and if one of the two versions no longer exists."""
    rollback_version: ReleasedVersion | None = None
    """The version that a rollback of the environment leads to now; absent where there is none."""


class ReleasePage(Page):
    """A part of the list of releases."""

    items: list[Release]
    """The releases, newest first."""


class ReleasesQuery(PageQuery):
    """Which part of the list."""
