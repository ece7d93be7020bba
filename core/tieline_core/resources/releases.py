"""Releases of a project's environments: who deployed what, and the outcome."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field, StringConstraints

from tieline_core.resources.fields import Digest, ObjectName, Shape, ShortText, Timestamp

MAX_RELEASES = 20
MAX_RELEASE_TEXT = 256
ReleaseText = Annotated[str, StringConstraints(max_length=MAX_RELEASE_TEXT)]


class DeployNote(Shape):
    """Who deployed a version, and why."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=26)]
    """Unique for each deploy, such as a ULID."""
    version: ObjectName
    """The version that the note is about. The note is ignored while the environment has another version."""
    by: ShortText = ""
    """The RBAC name of the user who deployed it by REST. Other writers can set their own name only."""
    message: ReleaseText = ""
    """What the deploy is for."""
    revision: ReleaseText = ""
    """The revision in version control that the files are of."""


class RolloutState(StrEnum):
    """What became of the last deploy to an environment."""

    PROGRESSING = "progressing"
    COMPLETE = "complete"
    FAILED = "failed"


class Release(Shape):
    """A deploy of a version to an environment, and its outcome."""

    number: Annotated[int, Field(ge=1)]
    """The number of the release in the environment, from 1."""
    version: ObjectName
    """The ProjectVersion."""
    digest: Digest | None = None
    """The digest of its files. Absent if the version does not exist."""
    deployed_at: Timestamp
    """When the operator saw the deploy."""
    note: Annotated[str, StringConstraints(max_length=26)] = ""
    """The id of the deploy note in the spec at that time. The note can be left over from an earlier deploy."""
    by: ShortText = ""
    """The user who deployed it by REST."""
    via: ShortText = ""
    """The GitOps tool that deployed it, and its object."""
    message: ReleaseText = ""
    """What the deploy is for."""
    revision: ReleaseText = ""
    """The revision in version control that the files are of."""
    rollout: RolloutState
    """The state of the rollout: progressing, complete or failed."""
    healthy: bool = False
    """Whether it served alone for TIELINE_HEALTHY_SECONDS (60) without a restart."""
    reason: ShortText = ""
    """Why it failed or crashed last, as one word. Absent while it serves."""
    failure: ReleaseText = ""
    """Why it failed or crashed last, in one line."""
    served_from: Timestamp | None = None
    """When the version first served alone. Absent if it never did."""
    served_until: Timestamp | None = None
    """When it stopped serving. Absent while it serves."""
