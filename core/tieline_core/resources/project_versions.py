"""ProjectVersion: an immutable snapshot of a project's files and labels."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.connectors.webhooks import MAX_EVENTS, MAX_WEBHOOKS
from tieline_core.resources.fields import (
    Digest,
    Filename,
    JsonObject,
    Labels,
    Reference,
    Shape,
    ShortText,
    Status,
    Text,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind
from tieline_core.resources.projects import FilesConfigMaps
from tieline_core.severity import Severity
from tieline_protocol.webhook_names import MAX_TOOL

MAX_TOOLS = 64
MAX_INPUT_SCHEMAS = 64 * 1024
"""Bytes of the schemas of all tools of a version."""


class VersionState(StrEnum):
    """The state of a version."""

    DRAFT = "draft"
    READY = "ready"
    FAILED = "failed"
    SUPERSEDED = "superseded"


class ProjectVersionSpec(Shape):
    """The snapshot. None of it can be changed."""

    project_ref: Reference
    """The Project."""
    version_name: ShortText = ""
    """The version's name, for people."""
    version_description: Text = ""
    """Description of the changes."""
    labels: Labels = {}
    """The labels of its files."""
    created_by: ShortText = ""
    """The RBAC name of the user who created it by REST. Other writers can set their own name only."""
    digest: Digest
    """SHA-256 over its files' names and contents."""
    config_maps: FilesConfigMaps
    """Immutable ConfigMaps with the files."""


class FileFinding(Shape):
    """A finding of the check of the files."""

    filename: Filename | None = None
    """The file."""
    line: Annotated[int, Field(ge=1)] | None = None
    """The line in it."""
    severity: Severity
    """Severity. Errors prevent the deploy."""
    message: Annotated[str, StringConstraints(max_length=2048)]
    """What was found, and what to do."""


class WebhookTool(Shape):
    """A webhook that agents may call."""

    webhook: Annotated[str, StringConstraints(max_length=128)]
    """The webhook's name."""
    method: Annotated[str, StringConstraints(max_length=16)]
    """The HTTP method of the call."""
    description: Annotated[str, StringConstraints(max_length=MAX_TOOL)]
    """Description of the tool."""
    input_schema: JsonObject | None = None
    """JSON Schema of the body, if the code has one."""


class VersionInterface(Shape):
    """Webhooks, tools and events of the version, read from its files. The project's connector shows them."""

    digest: Digest
    """Digest of the interface."""
    webhooks: Annotated[
        list[Annotated[str, StringConstraints(max_length=128)]], Field(max_length=MAX_WEBHOOKS)
    ] = []
    """Webhooks with a literal name in the code."""
    tools: Annotated[list[WebhookTool], Field(max_length=MAX_TOOLS)] = []
    """Webhooks that agents may call."""
    description_file: Filename | None = None
    """The file with the project's own API description."""
    events: (
        Annotated[list[Annotated[str, StringConstraints(max_length=128)]], Field(max_length=MAX_EVENTS)]
        | None
    ) = None
    """Tasks for events with a literal name in the code. Absent if a name is computed."""


class ProjectVersionStatus(Status):
    """The observed state of the version."""

    state: VersionState | None = None
    """draft (not deployed yet), ready (deployed, or the newest), failed (refused) or superseded."""
    findings: Annotated[list[FileFinding], Field(max_length=64)] = []
    """What the checks of its files found."""
    interface: VersionInterface | None = None
    """Webhooks, tools and events of the version."""
    package_lock: Digest | None = None
    """SHA-256 of the lock of the packages that the version needs. Absent if it needs none."""


class ProjectVersion(CustomResource):
    """An immutable snapshot of a project's files and labels, which environments run."""

    kind_info: ClassVar = Kind(
        name="ProjectVersion",
        plural="projectversions",
        short_names=("tlprojver",),
        columns=(
            Column(name="Project", path=".spec.projectRef.name", description="The project"),
            Column(name="Version", path=".spec.versionName", description="The version's name"),
            Column(name="State", path=".status.state", description="draft, ready, failed or superseded"),
            *READY_COLUMNS,
        ),
        selectable=(".spec.projectRef.name",),
        rules=(("self.metadata.name != 'latest'", 'metadata.name: "latest" is reserved'),),
    )

    spec: Annotated[
        ProjectVersionSpec,
        Field(
            json_schema_extra=rules(
                ("self == oldSelf", "a ProjectVersion cannot be changed; create a new one")
            )
        ),
    ]
    """The snapshot. None of it can be changed."""
    status: ProjectVersionStatus
    """The observed state of the version."""
