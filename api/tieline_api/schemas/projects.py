"""Projects, files and versions in REST."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, StrictBool, StringConstraints, model_validator

from tieline_api.schemas.base import (
    JsonObject,
    MaybeId,
    NullableObject,
    PageQuery,
    Query,
    Rest,
    TimeOut,
    UlidIn,
    UlidOut,
)
from tieline_api.schemas.names import DisplayName, EnvName, ShortName
from tieline_core.resources.fields import ObjectName, Text
from tieline_core.resources.projects import ConfigMapKey, EnvironmentState
from tieline_core.resources.releases import ReleaseText

MAX_WAIT_SECONDS = 300


class File(Rest):
    """A file of a project."""

    filename: Annotated[str, StringConstraints(max_length=1024)]
    """Relative path with forward slashes, such as main.py or shop/orders.py."""
    content: str
    """The file's text, at most 1 MiB."""


LabelMap = dict[str, str]
FileList = Annotated[list[File], Field(max_length=1024)]


class DeployedVersion(Rest):
    """A version that an environment runs."""

    id: UlidOut
    """The version's id."""
    name: str
    """Its name."""
    state: str
    """draft, ready, failed or superseded."""
    created_at: TimeOut
    """When it was created."""
    created_by: str | None = None
    """Who made it, as in the list of versions."""


class DeploymentSpec(Rest):
    """How many pods run, and what each of them is given."""

    replicas: int
    """Number of pods."""
    resources: dict[str, Any]
    """Requests and limits in Kubernetes' notation; what is absent is the platform's default."""


class SecretKey(Rest):
    """A key of a Secret."""

    name: ObjectName
    """The name of a Secret of type tieline.dev/credential whose owner opened it to code."""
    key: ConfigMapKey
    """The key in the Secret."""


class EnvVariableSource(Rest):
    """Where the value of an environment variable comes from."""

    secret_key_ref: SecretKey
    """A key of a Secret."""


class EnvVariable(Rest):
    """An environment variable of the pods."""

    name: EnvName
    """Its name. Names that begin with TIELINE_ are the platform's."""
    value: Annotated[str, StringConstraints(max_length=4096)] | None = None
    """Its value, which everybody who may read the project can read."""
    value_from: EnvVariableSource | None = None
    """A key of a Secret that the value comes from, instead of value. No answer has the value."""

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        if (self.value is None) == (self.value_from is None):
            raise ValueError("give either value or valueFrom")
        return self


class EffectiveEnvVariable(EnvVariable):
    """An environment variable that is in effect in an environment."""

    inherited: bool | None = None
    """True where it is the project's; absent where the environment has it of its own."""


class EffectiveScaling(Rest):
    """Whether an environment without work keeps pods."""

    min: int
    """Minimum number of pods; 0: it sleeps while it has no work."""
    idle_after: str
    """Time without work after which it sleeps, with s, m or h."""


class EnvironmentConfig(Rest):
    """How an environment runs its code."""

    deployment_spec: DeploymentSpec
    """Its pods."""
    image: str | None = None
    """The image, where it is not the platform's own."""
    env: list[EffectiveEnvVariable] | None = None
    """Environment variables of the code, where there are any."""
    scaling: EffectiveScaling | None = None
    """Whether it keeps pods without work; absent where neither the environment nor the project says."""


class Rollout(Rest):
    """What became of the last deploy to an environment."""

    state: Literal["progressing", "complete", "failed"]
    """progressing: the version is being rolled out. complete: all pods are of the version and have served. failed: it
    was refused, or its pods do not start; they are tried again."""
    reason: str | None = None
    """Why it failed, as one word."""
    message: str | None = None
    """Why it failed, in one line: for code that crashes the error with its file and line."""


class Environment(Rest):
    """Where a project runs, and what it does there."""

    id: UlidOut
    """The environment's id."""
    name: str
    """Its name."""
    status: EnvironmentState
    """draft, running, suspended or error."""
    sleeping: bool | None = None
    """True while it has no pods because it has no work; it runs as soon as work comes. Absent otherwise."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When what runs, or its status, last changed."""
    public_url: str
    """Where its webhooks are reached; empty until it has been deployed."""
    last_deployed_at: TimeOut
    """When a version was last deployed to it; its ``createdAt`` while there is no ``deployedVersion``."""
    config: EnvironmentConfig
    """How its code runs."""
    deployed_version: DeployedVersion | None = None
    """The version that was deployed last. It serves once ``rollout`` is complete. Absent while it is a draft."""
    serving_version: DeployedVersion | None = None
    """The version that answers requests now; absent while nothing does. During a rollout, and after one that failed, an
    earlier version than ``deployedVersion``."""
    rollback_version: DeployedVersion | None = None
    """The last version that was healthy here before ``deployedVersion``, which ``tieline rollback`` deploys. Absent
    where there is none."""
    rollout: Rollout | None = None
    """What became of the last deploy; absent for a draft, and while it is suspended."""
    message: str | None = None
    """Why it is in this state, where there is something to tell."""
    files: list[File] | None = None
    """What is deployed; absent in lists, and while nothing is."""
    labels: LabelMap | None = None
    """The labels of what is deployed."""


class CurrentFiles(Rest):
    """The files as they are now, which may differ from what is deployed."""

    files: list[File]
    """The files."""
    labels: LabelMap
    """Their labels."""


class FilesManager(Rest):
    """Who manages a project's files instead of REST, whose changes are refused."""

    manager: str
    """The source or the tool, such as Flux (GitRepository "orders") or Argo CD (Application "apps")."""
    path: str
    """The folder in the source, or the field of the Project."""
    revision: str | None = None
    """The revision of the source that the files are of, where that is known."""
    repository: str | None = None
    """The URL of the repository without credentials, where that is known."""
    advice: str
    """What to do to change the files."""


class Settings(Rest):
    """How a project behaves."""

    accept_code_changes_automatically: bool
    """Whether deployed environments follow new files by themselves."""
    keep_inputs: bool
    """Whether the run history keeps the inputs of direct webhooks and schedules, so that they can be run again."""


class Project(Rest):
    """A deployable unit of files and labels, with the environments it runs in."""

    id: UlidOut
    """The project's id."""
    name: str
    """Its name, for people."""
    environments: list[Environment]
    """Where it runs."""
    current_files: CurrentFiles
    """The files as they are now."""
    files_managed_by: FilesManager | None = None
    """Who manages the files; absent where REST may change them."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When it was last changed."""
    settings: Settings
    """How it behaves."""
    dynamic_variables_schema: dict[str, Any] | None = None
    """A JSON Schema for the variables of activations."""
    metadata: dict[str, Any]
    """Always empty: clients of later contracts need it."""
    starred: Literal[False] = False
    """Always false: clients of later contracts need it."""


class ProjectItem(Rest):
    """A project in a list."""

    id: UlidOut
    """The project's id."""
    name: str
    """Its name, for people."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When it was last changed."""
    environments: list[Environment]
    """Where it runs, without files."""
    starred: Literal[False] = False
    """Always false: clients of later contracts need it."""


class ProjectList(Rest):
    """All projects, oldest first."""

    projects: list[ProjectItem]
    """The projects."""


class ProjectCreate(Rest):
    """A new project; it has one environment, named production."""

    name: DisplayName
    """Its name, for people."""
    id: Annotated[UlidIn | None, MaybeId] = None
    """The id it shall have; made up when left out."""


class SettingsUpdate(Rest):
    """Changes of the settings; what is left out stays."""

    accept_code_changes_automatically: StrictBool | None = None
    """Whether deployed environments follow new files by themselves."""
    keep_inputs: StrictBool | None = None
    """Whether the run history keeps the inputs of direct webhooks and schedules, so that they can be run again."""


class ProjectUpdate(Rest):
    """Changes of the record; never of files or of what runs."""

    name: DisplayName | None = None
    """Its name, for people."""
    settings: SettingsUpdate | None = None
    """How it behaves."""


class ProjectClone(Rest):
    """A copy of a project."""

    name: DisplayName | None = None
    """The name of the copy; "Copy of …" when left out."""


class FilesBody(Rest):
    """New current files."""

    files: FileList
    """All files; those not listed are removed."""
    labels: Annotated[LabelMap, NullableObject]
    """Their labels."""


class FileChange(Rest):
    """A file to add, to replace or to remove."""

    filename: Annotated[str, StringConstraints(max_length=1024)]
    """Relative path with forward slashes, such as main.py or shop/orders.py."""
    content: str | None
    """The file's text, at most 1 MiB; null removes the file."""


class FilesPatch(Rest):
    """Changes of the current files; what is not named stays."""

    files: Annotated[list[FileChange], Field(max_length=1024)] = Field(default_factory=list)
    """The files to change."""
    labels: dict[str, str | None] = Field(default_factory=dict)
    """The labels to change; null removes one."""


class DeployReason(Rest):
    """Why a version is deployed, for the list of releases."""

    message: ReleaseText | None = None
    """What the deploy is for: its first line is kept. Default: the version's description."""
    revision: ReleaseText | None = None
    """The revision in version control that the files are of, such as a commit."""


class DeployBody(DeployReason):
    """What to deploy; without files the current ones."""

    files: FileList | None = None
    """New current files, which are deployed."""
    labels: LabelMap | None = None
    """New labels."""
    version_name: ShortName | None = None
    """A name for the version."""
    version_description: Text | None = None
    """Description of the changes."""


EnvironmentId = Annotated[str, StringConstraints(max_length=64)]


class EnvironmentChoice(Query):
    """Which environment; optional when the project has one."""

    project_env: Annotated[str, StringConstraints(max_length=64)] | None = None
    """The environment's name."""
    env_id: Annotated[EnvironmentId | None, MaybeId] = None
    """The environment's id."""


class DeployQuery(EnvironmentChoice):
    """Which environment, and whether to wait."""

    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)] = 0
    """Seconds to wait for the end of the rollout, at most 300. The environment's ``rollout`` has the outcome, or says
    that it is under way still. The answer is 409 when another deploy replaces the version meanwhile."""


class EnvironmentQuery(Query):
    """Which environment."""

    env_id: Annotated[EnvironmentId | None, MaybeId] = None
    """Only what belongs to the environment with this id."""


class EnvironmentPageQuery(PageQuery):
    """Which part of the list, of which environment."""

    env_id: Annotated[EnvironmentId | None, MaybeId] = None
    """Only what belongs to the environment with this id."""


class SuspendQuery(Query):
    """Which environment."""

    environment: Annotated[str, StringConstraints(min_length=1, max_length=64)]
    """The environment's name or id."""
    wait: Annotated[float, Field(ge=0, le=MAX_WAIT_SECONDS, allow_inf_nan=False)] = 0
    """Seconds to wait until nothing of it runs any more, at most 300: then its ``status`` is ``suspended``."""


class SchemaPatch(Rest):
    """One operation of JSON Patch (RFC 6902) on the variables schema."""

    op: Annotated[str, StringConstraints(pattern="^(add|remove|replace)$")]
    """add, remove or replace."""
    path: Annotated[str, StringConstraints(max_length=1024)]
    """JSON Pointer, such as /properties/region."""
    value: Any = None
    """A JSON Schema; needed for add and replace."""


class VariablesSchema(JsonObject):
    """A JSON Schema of type object for the variables of activations."""
