"""Types of answers about projects, versions, environments and schedules."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from tests.harness.clients.answers.base import Json, Page, Strict, Time, Ulid


class File(Strict):
    filename: str
    content: str


class Files(Strict):
    files: list[File]
    labels: dict[str, str]


class DeploymentSpec(Strict):
    replicas: int
    resources: Json


class Scaling(Strict):
    min: int
    idle_after: str


class Config(Strict):
    deployment_spec: DeploymentSpec
    scaling: Scaling | None = None


class Deployed(Strict):
    id: Ulid
    name: str
    state: Literal["draft", "ready", "failed", "superseded"]
    created_at: Time


class Environment(Strict):
    id: Ulid
    name: str
    status: Literal["running", "suspended", "error", "draft"]
    sleeping: bool | None = None
    created_at: Time
    updated_at: Time
    public_url: str
    last_deployed_at: Time
    config: Config
    deployed_version: Deployed | None = None
    message: str | None = None


class ProjectItem(Strict):
    id: Ulid
    name: str
    created_at: Time
    updated_at: Time
    environments: list[Environment]
    starred: bool


class Settings(Strict):
    accept_code_changes_automatically: bool
    keep_inputs: bool


class FilesManager(Strict):
    manager: str
    path: str
    revision: str | None = None
    repository: str | None = None
    advice: str


class Project(ProjectItem):
    current_files: Files
    files_managed_by: FilesManager | None = None
    settings: Settings
    metadata: Json
    dynamic_variables_schema: Json | None = None


class ProjectList(Strict):
    projects: list[ProjectItem]


class Version(Strict):
    id: Ulid
    name: str
    state: Literal["draft", "ready", "failed", "superseded"]
    created_at: Time
    created_by: str | None = None
    labels: dict[str, str]


class VersionRef(Strict):
    id: Ulid
    name: str


class FileDiff(Strict):
    filename: str
    change: Literal["added", "removed", "changed"]
    binary: bool
    truncated: bool
    diff: str | None = None


class VersionDiff(Strict):
    model_config = ConfigDict(alias_generator=lambda name: name.removesuffix("_version"))

    from_version: VersionRef | None = None
    to: VersionRef
    files: list[FileDiff]
    labels: list[Json]


class Outcome(Strict):
    success: bool
    error: str
    output: str
    duration: int
    timestamp: Time


class Finding(Strict):
    filename: str | None = None
    line: int | None = None
    severity: Literal["info", "warning", "error"]
    message: str


class Validation(Strict):
    model_config = ConfigDict(alias_generator=None)

    project_id: Ulid
    environment: str
    validation: Outcome
    findings: list[Finding]


class WebhookAnswer(Strict):
    status: int
    headers: dict[str, list[str]]
    body: str
    body_encoding: Literal["base64", "text"]


class Versions(Page):
    items: list[Version]


class Scheduler(Strict):
    id: Ulid
    name: str
    schedule: str
    url: str
    environment_id: Annotated[Ulid, Field(alias="environment_id")]
    timezone: str
    activations: str
    paused: bool
    next_run: Time | None = None
    last_run: Time | None = None
    last_run_id: Ulid | None = None
    last_run_status: str | None = None
    missed: Time | None = None


class OrganisationScheduler(Scheduler):
    project_id: Ulid
    project_name: str
    environment_name: str


class OrganisationSchedulers(Strict):
    items: list[OrganisationScheduler]
    total_count: int
    next: str | None = None
    prev: str | None = None


class LateScheduler(Strict):
    id: Ulid
    name: str
    project_id: Ulid
    project_name: str
    environment_id: Ulid
    environment_name: str
    missed: Time


class LateSchedulers(Strict):
    items: list[LateScheduler]
    total_count: int


class NeededConnection(Strict):
    name: str
    purpose: str
    catalogue: str | None = None


class ExampleRequest(Strict):
    method: str
    path: str
    body: Any = None


class ProjectTemplate(Strict):
    key: str
    name: str
    summary: str
    connections: list[NeededConnection]
    request: ExampleRequest | None = None
    files: list[File]


class ProjectTemplateList(Strict):
    items: list[ProjectTemplate]
