"""Project: integration code, its environments, and what runs in each of them."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field, StringConstraints

from tieline_core.resources.fields import (
    Digest,
    DisplayName,
    EnvironmentName,
    Filename,
    JsonObject,
    Labels,
    ObjectName,
    Quantity,
    Shape,
    ShortText,
    Status,
    Timestamp,
    Ulid,
    list_map,
    rules,
)
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, display_name
from tieline_core.resources.placement import Placement
from tieline_core.resources.releases import MAX_RELEASES, DeployNote, Release, RolloutState
from tieline_core.resources.scaling import Scaling

LATEST = "latest"
DEFAULT_ENVIRONMENT = "production"
MAX_ENVIRONMENTS = 20
MAX_REPLICAS = 50
MAX_ENV = 64
ENV_NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
RESERVED_ENV = "TIELINE_"

ConfigMapKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


class InlineFile(Shape):
    """A small file in the manifest."""

    filename: Filename
    """Relative path with forward slashes, such as main.py or shop/orders.py."""
    content: Annotated[str, StringConstraints(max_length=262144)]
    """The file's text, at most 256 KiB. Put larger files into ConfigMaps."""


class KeyToPath(Shape):
    """Maps a ConfigMap's key to a file."""

    key: ConfigMapKey
    """The key in the ConfigMap."""
    path: Filename
    """The file's relative path."""


class FilesConfigMap(Shape):
    """A ConfigMap whose keys are files."""

    name: ObjectName
    """The ConfigMap's name."""
    items: Annotated[list[KeyToPath], Field(max_length=1024, json_schema_extra=list_map("key"))] | None = None
    """Maps keys to files. Default: each key is a file of that name."""


FilesConfigMaps = Annotated[list[FilesConfigMap], Field(max_length=64, json_schema_extra=list_map("name"))]


class SourceKind(StrEnum):
    """Kinds of Flux's source-controller that serve an artifact: a folder with files as of one revision."""

    GIT_REPOSITORY = "GitRepository"
    OCI_REPOSITORY = "OCIRepository"
    BUCKET = "Bucket"
    EXTERNAL_ARTIFACT = "ExternalArtifact"


class SourceReference(Shape):
    """A source of Flux in the Project's namespace."""

    kind: SourceKind
    """GitRepository, OCIRepository, Bucket or ExternalArtifact."""
    name: ObjectName
    """The object's name."""
    path: Annotated[str, StringConstraints(max_length=512)] = ""
    """The folder that contains main.py or integration/main.py. Default: the root."""


class ProjectSource(Shape):
    """Where the project's current files come from: from a source of Flux, or from files and ConfigMaps.

    Files and ConfigMaps may both be given, with different file names.
    """

    files: Annotated[list[InlineFile], Field(max_length=64, json_schema_extra=list_map("filename"))] = []
    """Small files in the manifest."""
    config_maps: FilesConfigMaps = []
    """ConfigMaps whose keys are files, such as those of kustomize's configMapGenerator."""
    source_ref: SourceReference | None = None
    """A folder of a Git repository, OCI artifact or bucket that Flux's source-controller follows."""


ONE_SOURCE = (
    "!has(self.sourceRef) || (!has(self.files) && !has(self.configMaps))",
    "sourceRef already says where the files come from; remove files and configMaps, or sourceRef",
)


class ProjectSettings(Shape):
    """Settings of the project."""

    accept_code_changes_automatically: bool = False
    """Deploys new files to deployed environments automatically. Default: false."""
    keep_inputs: bool = False
    """Keeps the inputs of direct webhooks and schedules in the run history, so that they can be replayed. Default:
    false."""


class ResourceAmounts(Shape):
    """Amounts of compute resources, in Kubernetes' notation."""

    cpu: Quantity | None = None
    """CPU, such as 500m."""
    memory: Quantity | None = None
    """Memory, such as 256Mi."""


class RuntimeResources(Shape):
    """Compute resources of a pod."""

    requests: ResourceAmounts | None = None
    """Resources that are reserved for the pod."""
    limits: ResourceAmounts | None = None
    """Maximum resources. A pod that exceeds its memory limit is restarted."""


class ImagePullSecret(Shape):
    """A Secret for pulling images."""

    name: ObjectName
    """Name of a Secret of type kubernetes.io/dockerconfigjson in the project's namespace."""


class SecretKey(Shape):
    """A key of a Secret."""

    name: ObjectName
    """The name of a Secret of type tieline.dev/credential in the project's namespace. Its owner exposes it to code with
    the label tieline.dev/expose-to-code."""
    key: ConfigMapKey
    """The key in the Secret."""


class EnvVarSource(Shape):
    """Source of the value of an environment variable."""

    secret_key_ref: SecretKey
    """A key of a Secret."""


class EnvVar(Shape):
    """An environment variable of the pods."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            ("has(self.value) != has(self.valueFrom)", "give either value or valueFrom"),
        )
    )

    name: Annotated[str, StringConstraints(min_length=1, max_length=256, pattern=ENV_NAME_PATTERN)]
    """The variable's name, such as LOG_LEVEL. Names that begin with TIELINE_ are reserved."""
    value: Annotated[str, StringConstraints(max_length=4096)] | None = None
    """The value. Everyone who can read the project can read it: use valueFrom for secrets."""
    value_from: EnvVarSource | None = None
    """Source of the value, instead of value."""


class Runtime(Placement):
    """How pods run the code."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Number of pods. Default: 1."""
    scaling: Scaling | None = None
    """Lets environments sleep while they have no work. Default: they always have pods."""
    resources: RuntimeResources | None = None
    """Compute resources of each pod."""
    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """A custom image, based on Tieline's runtime image."""
    image_pull_secrets: (
        Annotated[list[ImagePullSecret], Field(max_length=16, json_schema_extra=list_map("name"))] | None
    ) = None
    """Secrets for pulling the image, in addition to those of the platform's configuration."""
    env: (
        Annotated[
            list[EnvVar],
            Field(
                max_length=MAX_ENV,
                json_schema_extra={
                    **list_map("name"),
                    **rules(
                        (
                            f"self.all(one, !one.name.startsWith('{RESERVED_ENV}'))",
                            f"names that begin with {RESERVED_ENV} are the platform's; choose another name",
                        )
                    ),
                },
            ),
        ]
        | None
    ) = None
    """Environment variables. Those of an environment are merged with the project's by name."""


def merged_fields(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """A runtime as plain data with what an environment sets over it, field by field, and ``env`` by name.

    >>> merged_fields({"env": [{"name": "A", "value": "1"}]}, {"env": [{"name": "A", "value": "2"}], "replicas": 2})
    {'env': [{'name': 'A', 'value': '2'}], 'replicas': 2}
    """
    result = dict(base)
    for key, value in over.items():
        below = base.get(key)
        if key == "env":
            result[key] = list({item["name"]: item for item in [*(below or ()), *(value or ())]}.values())
            continue
        nested = isinstance(value, Mapping) and isinstance(below, Mapping)
        result[key] = merged_fields(below, value) if nested and isinstance(below, Mapping) else value
    return result


SCHEDULE_NAME_PATTERN = "^[A-Za-z0-9][A-Za-z0-9_.-]*$"
ScheduleName = Annotated[str, StringConstraints(max_length=100, pattern=SCHEDULE_NAME_PATTERN)]
MAX_PAUSED_SCHEDULES = 100


class EnvironmentSpec(Shape):
    """An environment of the project."""

    name: EnvironmentName
    """The environment's name, unique in the project."""
    version: ObjectName | None = None
    """Version: latest, which follows the current files, or the name of a ProjectVersion. Absent: none is deployed."""
    suspended: bool = False
    """Suspends the environment. Default: false."""
    runtime: Runtime | None = None
    """Overrides the project's runtime for this environment, field by field."""
    paused_schedules: Annotated[list[ScheduleName], Field(max_length=MAX_PAUSED_SCHEDULES)] = []
    """Names of paused schedules. Their due times are skipped."""
    deploy_note: DeployNote | None = None
    """Who deployed the version, and why. The list of releases shows it."""


Environments = Annotated[
    list[EnvironmentSpec], Field(max_length=MAX_ENVIRONMENTS, json_schema_extra=list_map("name"))
]


class ProjectSpec(Shape):
    """The desired state of the project."""

    name: DisplayName
    """The project's name, for people."""
    source: Annotated[ProjectSource, Field(json_schema_extra=rules(ONE_SOURCE))] = ProjectSource()
    """The current files. They can differ from the deployed ones."""
    labels: Labels = {}
    """Labels of the current files. Every version keeps them."""
    settings: ProjectSettings = ProjectSettings()
    """Settings of the project."""
    dynamic_variables_schema: JsonObject | None = None
    """JSON Schema of the variables that activations set and code reads."""
    runtime: Runtime = Runtime()
    """How pods run the code, in all environments."""
    environments: Environments = []
    """Environments of the project. Default: one environment named production."""

    def effective_environments(self) -> list[EnvironmentSpec]:
        """The environments, with the default one for a project that names none."""
        return list(self.environments) or [EnvironmentSpec(name=DEFAULT_ENVIRONMENT)]

    def scaling_of(self, environment: EnvironmentSpec) -> Scaling:
        """How one of the environments scales: the project's scaling with the environment's over it."""
        own = environment.runtime.scaling if environment.runtime else None
        base = self.runtime.scaling
        return Scaling.model_validate(
            merged_fields(base.to_dict() if base else {}, own.to_dict() if own else {})
        )


class EnvironmentState(StrEnum):
    """The states of the status table (design, "Project and environments")."""

    DRAFT = "draft"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ERROR = "error"


MAX_HEALTHY_VERSIONS = 5


class HealthyVersion(Shape):
    """A ProjectVersion that served alone for a while without a restart."""

    name: ObjectName
    """Its name."""
    digest: Digest
    """Its digest. An object of the same name with other files is another version."""


class EnvironmentStatus(Shape):
    """Observed state of an environment."""

    name: EnvironmentName
    """The environment's name."""
    id: Ulid
    """The environment's id, derived from the project's id and the environment's name."""
    workload: ObjectName | None = None
    """The name of its Deployment, Service and other objects."""
    status: EnvironmentState
    """draft, running, suspended or error."""
    message: Annotated[str, StringConstraints(max_length=8192)] = ""
    """The reason for the status and what to do, with the last log lines after a crash. Empty if nothing is wrong."""
    version: ObjectName | None = None
    """The ProjectVersion that serves."""
    desired_version: ObjectName | None = None
    """The ProjectVersion that should serve."""
    pinned_version: ObjectName | None = None
    """The version in the spec when it last changed."""
    pinned_digest: Annotated[str, StringConstraints(max_length=64)] = ""
    """The digest of the current files when the version was last chosen."""
    ready_replicas: Annotated[int, Field(ge=0)] = 0
    """Number of ready pods."""
    sleeping: bool = False
    """Whether it has no pods until work comes, or wakes and no pod serves yet."""
    queued: Annotated[int, Field(ge=0)] = 0
    """Queued events, rounded down to a power of ten and at least a minute old. Metrics are exact."""
    oldest_queued_minutes: Annotated[int, Field(ge=0)] = 0
    """Age of the oldest queued event in minutes, rounded down to a power of ten."""
    dead_letters: Annotated[int, Field(ge=0)] = 0
    """Number of dead letters, rounded down to a power of ten."""
    engine_bytes: Annotated[int, Field(ge=0)] = 0
    """Bytes that its streams may take in the event engine."""
    public_url: Annotated[str, StringConstraints(max_length=2048)] = ""
    """URL of its webhooks."""
    created_at: Timestamp
    """When the environment was first seen."""
    updated_at: Timestamp
    """When the running version or the status last changed."""
    deployed_at: Timestamp | None = None
    """When the version that should serve was chosen."""
    rollout: RolloutState | None = None
    """What became of the last deploy: progressing, complete once the version alone has served with all its pods, or
    failed. Absent for a draft, and while the environment is suspended."""
    deploy_failure: ShortText = ""
    """Why the version that should serve could not be deployed, as one word. Absent once it serves."""
    serving_since: Timestamp | None = None
    """Time since which all pods serve the desired version without a restart. Absent otherwise."""
    healthy_versions: Annotated[list[HealthyVersion], Field(max_length=MAX_HEALTHY_VERSIONS)] = []
    """The ProjectVersions that served here alone and without a restart for TIELINE_HEALTHY_SECONDS (60), the last one
    first. A version that is healthy again takes its old place, and those before it are dropped. They are kept, so that
    you can roll back."""
    releases: Annotated[list[Release], Field(max_length=MAX_RELEASES)] = []
    """The last 20 deploys, newest first, including those that were refused or crashed."""


class SourceStatus(Shape):
    """Source of the current files."""

    revision: Annotated[str, StringConstraints(max_length=1024)]
    """The revision that Flux names, such as main@sha1:6d3c…"""
    artifact: Annotated[str, StringConstraints(max_length=256)]
    """The artifact's digest."""
    path: Annotated[str, StringConstraints(max_length=512)] = ""
    """The folder in it."""
    digest: Digest
    """SHA-256 over the names and contents of the project's files."""
    repository: Annotated[str, StringConstraints(max_length=2048)] = ""
    """The URL of the source, without credentials."""


class ProjectStatus(Status):
    """The observed state of the project."""

    latest_version: ObjectName | None = None
    """The newest ProjectVersion of the current files."""
    source: SourceStatus | None = None
    """Source of the current files, if spec.source.sourceRef is set."""
    environments: Annotated[
        list[EnvironmentStatus], Field(max_length=MAX_ENVIRONMENTS, json_schema_extra=list_map("name"))
    ] = []
    """Observed state of each environment."""
    summary: ShortText = ""
    """Summary of the environments, for kubectl get."""


class Project(CustomResource):
    """Integration code with its environments. Each environment is a Deployment with a Service."""

    kind_info: ClassVar = Kind(
        name="Project",
        plural="projects",
        short_names=("tlproj",),
        columns=(
            Column(name="Environments", path=".status.summary", description="What runs"),
            *READY_COLUMNS,
            display_name(".spec.name", "The project's name"),
        ),
    )

    spec: ProjectSpec
    """The desired state of the project."""
    status: ProjectStatus
    """The observed state of the project."""


__all__ = [
    "DEFAULT_ENVIRONMENT",
    "ENV_NAME_PATTERN",
    "LATEST",
    "MAX_ENV",
    "MAX_ENVIRONMENTS",
    "MAX_HEALTHY_VERSIONS",
    "MAX_REPLICAS",
    "RESERVED_ENV",
    "ConfigMapKey",
    "EnvVar",
    "EnvVarSource",
    "EnvironmentSpec",
    "EnvironmentState",
    "EnvironmentStatus",
    "FilesConfigMap",
    "InlineFile",
    "KeyToPath",
    "Project",
    "ProjectSource",
    "ProjectSpec",
    "ProjectStatus",
    "ResourceAmounts",
    "Runtime",
    "RuntimeResources",
    "Scaling",
    "SecretKey",
    "merged_fields",
]
