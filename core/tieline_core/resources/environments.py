"""Environment: an environment of a Project as an object of its own, to look at, to scale, and to give rights on."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.resources.fields import (
    STORED_DEFAULT,
    EnvironmentName,
    ObjectName,
    Reference,
    Shape,
    Status,
    immutable,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, Scale
from tieline_core.resources.projects import MAX_REPLICAS, EnvironmentState
from tieline_core.resources.releases import RolloutState


class EnvironmentObjectSpec(Shape):
    """The desired state of the environment. Everything else about it is in the Project."""

    project_ref: Annotated[Reference, Field(json_schema_extra=immutable("projectRef"))]
    """The Project."""
    environment: Annotated[EnvironmentName, Field(json_schema_extra=immutable("environment"))]
    """The environment's name in the Project."""
    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS, json_schema_extra={STORED_DEFAULT: 1})] = 1
    """Number of pods, as kubectl scale and autoscalers set it. If the Project sets runtime.replicas, this follows the
    Project. Default: 1."""


class EnvironmentObjectStatus(Status):
    """The observed state of the environment."""

    state: EnvironmentState | None = None
    """draft, running, suspended or error."""
    version: ObjectName | None = None
    """The ProjectVersion that serves."""
    desired_version: ObjectName | None = None
    """The ProjectVersion that should serve."""
    rollout: RolloutState | None = None
    """What became of the last deploy: progressing, complete or failed. Absent for a draft, and while the environment is
    suspended."""
    replicas: Annotated[int, Field(ge=0)] = 0
    """Number of pods."""
    ready_replicas: Annotated[int, Field(ge=0)] = 0
    """Number of ready pods."""
    selector: Annotated[str, StringConstraints(max_length=512)] = ""
    """Label selector of the pods, for autoscalers."""
    public_url: Annotated[str, StringConstraints(max_length=2048)] = ""
    """URL of its webhooks."""
    queued: Annotated[int, Field(ge=0)] = 0
    """Queued events, rounded down to a power of ten and at least a minute old. Metrics are exact."""
    dead_letters: Annotated[int, Field(ge=0)] = 0
    """Number of dead letters, rounded down to a power of ten."""


class Environment(CustomResource):
    """An environment of a Project. The operator creates and deletes it with the Project's spec.environments."""

    kind_info: ClassVar = Kind(
        name="Environment",
        plural="environments",
        short_names=("tlenv",),
        columns=(
            Column(name="Project", path=".spec.projectRef.name", description="The Project", priority=1),
            Column(
                name="Environment",
                path=".spec.environment",
                description="Its name in the Project",
                priority=1,
            ),
            Column(name="State", path=".status.state", description="draft, running, suspended or error"),
            Column(name="Version", path=".status.version", description="The version that serves"),
            Column(
                name="Pods", path=".status.readyReplicas", type="integer", description="Number of ready pods"
            ),
            Column(name="URL", path=".status.publicUrl", description="URL of its webhooks", priority=1),
            *READY_COLUMNS,
        ),
        scale=Scale(
            spec_replicas=".spec.replicas",
            status_replicas=".status.replicas",
            label_selector=".status.selector",
        ),
    )

    spec: EnvironmentObjectSpec
    """The desired state of the environment."""
    status: EnvironmentObjectStatus
    """The observed state of the environment."""
