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
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind

LATEST = "latest"
DEFAULT_ENVIRONMENT = "production"
MAX_ENVIRONMENTS = 20
MAX_REPLICAS = 50
MAX_ENV = 64
ENV_NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]*$"
RESERVED_ENV = "TIELINE_"

ConfigMapKey = Annotated[str, StringConstraints(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]


class InlineFile(Shape):
    """A small file, written into the manifest."""

    filename: Filename
    """Relative path with forward slashes, such as main.py or shop/orders.py."""
    content: Annotated[str, StringConstraints(max_length=262144)]
    """The file's text, at most 256 KiB; larger ones belong into ConfigMaps."""


class KeyToPath(Shape):
    """Which file a ConfigMap's key is."""

    key: ConfigMapKey
    """The key in the ConfigMap."""
    path: Filename
    """The file's relative path."""


class FilesConfigMap(Shape):
    """A ConfigMap whose keys are files."""

    name: ObjectName
    """The ConfigMap's name."""
    items: Annotated[list[KeyToPath], Field(max_length=1024, json_schema_extra=list_map("key"))] | None = None
    """Which keys are which files; all keys under their own names when absent."""


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
    """The folder in it with the project's main.py, or with integration/main.py; the root when absent."""


class ProjectSource(Shape):
    """Where the project's current files come from: from a source of Flux, or from files and ConfigMaps.

    Files and ConfigMaps may both be given, with different file names.
    """

    files: Annotated[list[InlineFile], Field(max_length=64, json_schema_extra=list_map("filename"))] = []
    """Small files, written into the manifest."""
    config_maps: FilesConfigMaps = []
    """ConfigMaps whose keys are files, such as those of kustomize's configMapGenerator."""
    source_ref: SourceReference | None = None
    """A folder of a Git repository, OCI artifact or bucket that Flux's source-controller follows."""


ONE_SOURCE = (
    "!has(self.sourceRef) || (!has(self.files) && !has(self.configMaps))",
    "sourceRef already says where the files come from; remove files and configMaps, or sourceRef",
)


class ProjectSettings(Shape):
    """How the project behaves."""

    accept_code_changes_automatically: bool = False
    """Whether deployed environments follow new files by themselves. False by default."""
    keep_inputs: bool = False
    """Whether the run history keeps the inputs of direct webhooks and schedules, so that they can be run again. False
    by default."""


class ResourceAmounts(Shape):
    """Amounts of compute resources, in Kubernetes' notation."""

    cpu: Quantity | None = None
    """CPU, such as 500m."""
    memory: Quantity | None = None
    """Memory, such as 256Mi."""


class RuntimeResources(Shape):
    """What a pod is given."""

    requests: ResourceAmounts | None = None
    """What is reserved."""
    limits: ResourceAmounts | None = None
    """What may be used at most; a pod over its memory limit is restarted."""


class ImagePullSecret(Shape):
    """A Secret that images are pulled with."""

    name: ObjectName
    """Name of a Secret of type kubernetes.io/dockerconfigjson in the project's namespace."""


class SecretKey(Shape):
    """A key of a Secret."""

    name: ObjectName
    """The name of a Secret of type tieline.dev/credential in the project's namespace. Its owner opens it to code with
    the label tieline.dev/expose-to-code."""
    key: ConfigMapKey
    """The key in the Secret."""


class EnvVarSource(Shape):
    """Where the value of an environment variable comes from."""

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
    """The name that code reads, such as LOG_LEVEL. Names that begin with TIELINE_ are the platform's."""
    value: Annotated[str, StringConstraints(max_length=4096)] | None = None
    """The value, as it is. Everybody who may read the project can read it: put secrets into Secrets."""
    value_from: EnvVarSource | None = None
    """Where the value comes from, instead of value."""


class Runtime(Shape):
    """How the code is run."""

    replicas: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] | None = None
    """Number of pods. 1 by default."""
    resources: RuntimeResources | None = None
    """Compute resources of each pod."""
    image: Annotated[str, StringConstraints(min_length=1, max_length=512)] | None = None
    """An image of your own, based on Tieline's runtime image."""
    image_pull_secrets: (
        Annotated[list[ImagePullSecret], Field(max_length=16, json_schema_extra=list_map("name"))] | None
    ) = None
    """Secrets to pull the image with, beside those that the platform is configured with."""
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
    """Environment variables for the code. Those of an environment are merged with the project's by name."""


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
    """A place where the project runs."""

    name: EnvironmentName
    """The environment's name, unique in the project."""
    version: ObjectName | None = None
    """What runs: "latest" follows the current files, a ProjectVersion's name pins it; absent: a draft."""
    suspended: bool = False
    """Whether it is told to stop. False by default."""
    runtime: Runtime | None = None
    """Overrides the project's runtime for this environment, field by field."""
    paused_schedules: Annotated[list[ScheduleName], Field(max_length=MAX_PAUSED_SCHEDULES)] = []
    """Names of schedules whose due times are skipped."""


Environments = Annotated[
    list[EnvironmentSpec], Field(max_length=MAX_ENVIRONMENTS, json_schema_extra=list_map("name"))
]


class ProjectSpec(Shape):
    """The project as its users describe it."""

    name: DisplayName
    """The project's name, for people."""
    source: Annotated[ProjectSource, Field(json_schema_extra=rules(ONE_SOURCE))] = ProjectSource()
    """The current files, which may differ from what is deployed."""
    labels: Labels = {}
    """Labels of the current files, kept with every version."""
    settings: ProjectSettings = ProjectSettings()
    """How the project behaves."""
    dynamic_variables_schema: JsonObject | None = None
    """A JSON Schema for the variables that activations set and code reads."""
    runtime: Runtime = Runtime()
    """How the code is run in every environment."""
    environments: Environments = []
    """Where the project runs; one named "production" when there are none."""

    def effective_environments(self) -> list[EnvironmentSpec]:
        """The environments, with the default one for a project that names none."""
        return list(self.environments) or [EnvironmentSpec(name=DEFAULT_ENVIRONMENT)]


class EnvironmentState(StrEnum):
    """The states of the status table (design, "Project and environments")."""

    DRAFT = "draft"
    RUNNING = "running"
    SUSPENDED = "suspended"
    ERROR = "error"


class EnvironmentStatus(Shape):
    """What an environment's workload does."""

    name: EnvironmentName
    """The environment's name."""
    id: Ulid
    """The environment's id, derived from the project's id and the environment's name."""
    workload: ObjectName | None = None
    """The name of its Deployment, Service and other objects; it stays the same."""
    status: EnvironmentState
    """draft, running, suspended or error."""
    message: Annotated[str, StringConstraints(max_length=8192)] = ""
    """Why, and what to do; with the last log lines when the code crashed. Empty when all is well."""
    version: ObjectName | None = None
    """The ProjectVersion that serves."""
    desired_version: ObjectName | None = None
    """The ProjectVersion that should serve."""
    pinned_version: ObjectName | None = None
    """The version that the spec named when it was last changed."""
    pinned_digest: Annotated[str, StringConstraints(max_length=64)] = ""
    """The digest of the current files when the version was last chosen."""
    ready_replicas: Annotated[int, Field(ge=0)] = 0
    """Pods that serve."""
    queued: Annotated[int, Field(ge=0)] = 0
    """Events that wait for a run, rounded down to a power of ten. It is a minute old or more; metrics are exact."""
    oldest_queued_minutes: Annotated[int, Field(ge=0)] = 0
    """Minutes for which the oldest event has been in the queue, rounded down to a power of ten."""
    dead_letters: Annotated[int, Field(ge=0)] = 0
    """Events that could not be processed and were given up, rounded down to a power of ten."""
    public_url: Annotated[str, StringConstraints(max_length=2048)] = ""
    """Where its webhooks are reached."""
    created_at: Timestamp
    """When the environment was first seen."""
    updated_at: Timestamp
    """When what runs, or its status, last changed."""
    deployed_at: Timestamp | None = None
    """When the version that should serve was chosen."""
    deploy_failure: ShortText = ""
    """Why the version that should serve could not be deployed, as one word. Absent once it serves."""


class SourceStatus(Shape):
    """What the current files were read from."""

    revision: Annotated[str, StringConstraints(max_length=1024)]
    """The revision that Flux names, such as main@sha1:6d3c…"""
    artifact: Annotated[str, StringConstraints(max_length=256)]
    """The artifact's digest."""
    path: Annotated[str, StringConstraints(max_length=512)] = ""
    """The folder in it."""
    digest: Digest
    """SHA-256 over the names and contents of the project's files."""


class ProjectStatus(Status):
    """What the operator saw of the project."""

    latest_version: ObjectName | None = None
    """The newest ProjectVersion of the current files."""
    source: SourceStatus | None = None
    """What the current files were read from, where spec.source.sourceRef names a source of Flux."""
    environments: Annotated[
        list[EnvironmentStatus], Field(max_length=MAX_ENVIRONMENTS, json_schema_extra=list_map("name"))
    ] = []
    """What each environment's workload does."""
    summary: ShortText = ""
    """The environments in short, for kubectl get."""


class Project(CustomResource):
    """Integration code with the environments it runs in. Each environment is a real workload."""

    kind_info: ClassVar = Kind(
        name="Project",
        plural="projects",
        short_names=("proj",),
        columns=(
            Column(name="Name", path=".spec.name", description="The project's name"),
            Column(name="Environments", path=".status.summary", description="What runs"),
            *READY_COLUMNS,
        ),
    )

    spec: ProjectSpec
    """The project, as its users describe it."""
    status: ProjectStatus
    """What the operator saw."""


__all__ = [
    "DEFAULT_ENVIRONMENT",
    "ENV_NAME_PATTERN",
    "LATEST",
    "MAX_ENV",
    "MAX_ENVIRONMENTS",
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
    "SecretKey",
    "merged_fields",
]
