"""A strict reader of answers, as clients are whose types were generated from the contract.

The types stand here by hand, from the contract, so that they do not change along with the models of the API. Ids parse
as ULIDs, times as RFC 3339 in UTC, required fields are there, enumerations are known, and nothing is null.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter
from pydantic.alias_generators import to_camel

Json = dict[str, Any]
Ulid = Annotated[str, StringConstraints(pattern=r"^[0-7][0-9A-HJKMNP-TV-Z]{25}$")]
Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z$")]


class Strict(BaseModel):
    """A type without coercion; fields that it does not know are newer than it."""

    model_config = ConfigDict(strict=True, extra="allow", alias_generator=to_camel)


class Message(Strict):
    text: str
    severity: Literal["info", "warning", "error"]
    detail: list[str]


class Scheme(Strict):
    id: Annotated[str, StringConstraints(min_length=1)]
    description: str
    validation_messages: list[Message]


class ApiKey(Scheme):
    name: str


class Hmac(Scheme):
    name: str
    algorithm: Literal["sha1", "sha256", "sha512"]
    digest_inputs: list[Literal["body", "url"]]


class Client(Strict):
    credential_id: Ulid
    organisation_id: Ulid
    client_id: str


class Grant(Strict):
    type: Literal["authorizationCode", "clientCredentials", "password"]
    authorization_code: Client | None = None
    password: Client | None = None
    client_credentials: Json | None = None

    @property
    def client(self) -> Client | None:
        """The client of the grant's own type."""
        return self.password if self.type == "password" else self.authorization_code


class Scope(Strict):
    name: str
    description: str


class OAuth2(Scheme):
    token_url: str
    scopes: list[Scope]
    default_scopes: list[str]
    grant: Grant
    mtls_enabled: bool
    mtls_credential_id: Ulid | None = None
    pkce: bool


class OAuth1(Scheme):
    consumer_key: str
    signature_method: str
    credential_id: Ulid


SUB_OBJECTS: Mapping[str, tuple[str, type[Scheme]]] = {
    "none": ("none", Scheme),
    "api-key": ("apiKey", ApiKey),
    "basic-auth": ("basicAuth", Scheme),
    "oauth2": ("oauth2", OAuth2),
    "hmac": ("hmac", Hmac),
    "jwt-bearer": ("jwtBearer", Scheme),
    "certificate": ("certificate", Scheme),
    "oauth1": ("oauth1", OAuth1),
    "secret": ("secret", Scheme),
}


class SchemeConfig(Strict):
    type: Literal[
        "none", "api-key", "basic-auth", "oauth2", "hmac", "jwt-bearer", "certificate", "oauth1", "secret"
    ]

    def model_post_init(self, _context: object) -> None:
        key, model = SUB_OBJECTS[self.type]
        found = model.model_validate((self.model_extra or {})[key])
        if isinstance(found, OAuth2) and found.grant.type != "clientCredentials":
            assert found.grant.client is not None, "the grant has its client"


class System(Strict):
    id: Ulid
    name: str
    domain: str
    auth_scheme_configs: list[SchemeConfig]
    template_base_url: str


class Credential(Strict):
    id: Ulid
    organisation_id: Ulid
    type: Literal[
        "none", "string", "binary", "basic-auth", "oauth2-client", "oauth2-code", "oauth2-password", "oauth2-token",
        "oauth1", "certificate", "jwt-bearer",
    ]  # fmt: skip
    name: str
    errors: list[str] | None = None
    expires_at: Time | None = None


class ConnectionCredential(Strict):
    id: Ulid
    auth_scheme_config: SchemeConfig
    auth_scheme_config_id: str | None = None
    credential: Credential


class Variable(Strict):
    name: str
    value: str


class Connection(Strict):
    id: Ulid
    name: str
    credentials: list[ConnectionCredential]
    variables: list[Variable]
    created_at: Time
    updated_at: Time
    base_url: str | None = None
    system_id: Ulid | None = None
    connection_template_id: Ulid | None = None


class Template(Strict):
    id: Ulid
    name: str
    domain: str
    dynamic: bool
    auth_scheme_configs: list[SchemeConfig]
    template_base_url: str
    connection_template_id: Ulid


class File(Strict):
    filename: str
    content: str


class Files(Strict):
    files: list[File]
    labels: dict[str, str]


class DeploymentSpec(Strict):
    replicas: int
    resources: Json


class Config(Strict):
    deployment_spec: DeploymentSpec


class Deployed(Strict):
    id: Ulid
    name: str


class Environment(Strict):
    id: Ulid
    name: str
    status: Literal["running", "suspended", "error", "draft"]
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


class Settings(Strict):
    accept_code_changes_automatically: bool
    keep_inputs: bool


class Project(ProjectItem):
    current_files: Files
    settings: Settings
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
    headers: dict[str, str]
    body: str


class EndUser(Strict):
    id: Ulid
    external_id: str
    display_name: str
    organisation_id: Ulid
    created_at: Time
    updated_at: Time


class StaticActivation(Strict):
    id: Ulid
    environment: Environment
    connections: list[Connection]
    dynamic_variables: Json


class Activation(StaticActivation):
    user: EndUser


class Page(Strict):
    total_count: int
    next: str | None = None
    prev: str | None = None


class Systems(Page):
    items: list[System]


class Connections(Page):
    items: list[Connection]


class Templates(Page):
    items: list[Template]


class Versions(Page):
    items: list[Version]


class Users(Page):
    users: list[EndUser]


class ConnectorScheme(Scheme):
    scheme_type: Literal[
        "none", "api-key", "basic-auth", "oauth2", "hmac", "jwt-bearer", "certificate", "oauth1", "secret"
    ]


class ConnectorVersion(Strict):
    id: Ulid
    name: str
    description: str
    is_latest: bool
    is_default: bool
    created_at: Time
    updated_at: Time
    published_at: Time
    messages: list[Message] | None = None


class Connector(Strict):
    id: Ulid
    organisation_id: Ulid
    name: str
    public: bool
    tags: dict[str, str]
    protocol: Literal["http"]
    auth_scheme_configs: list[ConnectorScheme]
    connection_variables: list[Variable]
    connections: list[Json]
    versions: list[ConnectorVersion]
    created_at: Time
    updated_at: Time
    base_url: str


class Referrer(Strict):
    type: Literal["definition"]
    id: Ulid
    name: str


class Definition(Strict):
    id: Ulid
    name: str
    accept: list[str]
    description: str
    url: str
    referenced_by: list[Referrer]


class Parameter(Strict):
    name: str
    required: bool
    type: str


class BodyDefinition(Strict):
    id: Ulid
    definition: Json


class RequestBody(Strict):
    required: bool
    definitions: list[BodyDefinition]


class Response(Strict):
    status: int
    id: Ulid
    definitions: list[BodyDefinition]


class ActionError(Strict):
    field: str
    message: str
    severity: Literal["info", "warning", "error"]


class Trigger(Strict):
    id: Ulid
    errors: list[ActionError]
    type: Literal["http"]
    name: str
    summary: str
    description: str
    method: str
    parameters: list[Parameter]
    request_body: RequestBody | None = None
    responses: list[Response]


class Action(Trigger):
    path: str


class ImportResult(Strict):
    connector: Connector
    definitions: list[Definition]
    actions: list[Action]
    triggers: list[Trigger]
    messages: list[Message]


class Connectors(Page):
    items: list[Connector]


class ConnectorVersions(Page):
    items: list[ConnectorVersion]


class Actions(Page):
    items: list[Action]


class FoundOperation(Strict):
    id: Ulid
    name: str
    method: str
    path: str
    summary: str
    connector_id: Ulid
    connector_name: str
    version_id: Ulid
    version: str


class FoundOperations(Page):
    items: list[FoundOperation]


class Triggers(Page):
    items: list[Trigger]


class Definitions(Page):
    items: list[Definition]


class Url(Strict):
    url: str


class Empty(Strict):
    model_config = ConfigDict(extra="forbid")


RunStatus = Literal["queued", "running", "waiting", "succeeded", "failed", "dead", "cancelled"]
RunKind = Literal["webhook", "event", "schedule", "background", "call"]


class RunUser(Strict):
    external_id: str
    id: Ulid | None = None


class RunVersion(Strict):
    name: str
    id: Ulid | None = None


class RunUpstream(Strict):
    status: int
    body: str


class RunError(Strict):
    type: str
    message: str
    upstream: RunUpstream | None = None


class Run(Strict):
    id: Ulid
    kind: RunKind
    task: str
    status: RunStatus
    environment_id: Ulid
    queued_at: Time
    attempt: int
    activation_id: Ulid | None = None
    user: RunUser | None = None
    version: RunVersion | None = None
    attempts: int | None = None
    started_at: Time | None = None
    ended_at: Time | None = None
    next_attempt_at: Time | None = None
    discarded_at: Time | None = None
    error: RunError | None = None
    trace_id: str | None = None
    replay_of: Ulid | None = None


class RunAttempt(Strict):
    attempt: int
    status: RunStatus
    steps: list[Json]
    started_at: Time | None = None
    ended_at: Time | None = None


class RunDetail(Run):
    attempt_history: list[RunAttempt]
    steps: list[Json]


class Runs(Page):
    items: list[Run]


class RunsAffected(Strict):
    count: int
    skipped: int
    more: bool


class EventAccepted(Strict):
    event_id: str
    run_id: Ulid | None = None


class FieldError(Strict):
    field: str
    message: str


class Error(Strict):
    """Any answer from 400 on."""

    code: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z_]*$")]
    message: str
    fields: list[FieldError] | None = None
    details: str | None = None


class NotificationChannel(Strict):
    id: Ulid
    name: str
    type: Literal["email", "webhook", "slack"]
    config: Json
    ready: bool | None = None
    message: str
    last_delivered_at: Time | None = None
    created_at: Time
    updated_at: Time


class NotificationChannels(Strict):
    total_count: int
    items: list[NotificationChannel]
    next: str | None = None
    prev: str | None = None


class BacklogItem(Strict):
    environment_id: Ulid
    task: str
    key: str | None = None
    status: Literal["queued", "running", "waiting", "dead"]
    count: int
    oldest: Time


class Backlog(Strict):
    items: list[BacklogItem]
    more: bool | None = None


class UsingTemplate(Strict):
    connection_template_id: Ulid
    name: str
    project_id: Ulid | None = None
    project_name: str
    environment_id: Ulid | None = None
    environment_name: str


class UsingActivation(Strict):
    id: Ulid
    user_id: Ulid | None = None
    external_id: str
    display_name: str
    project_id: Ulid | None = None
    project_name: str
    environment_name: str


class ConnectionUses(Strict):
    templates: list[UsingTemplate]
    template_count: int
    activations: list[UsingActivation]
    activation_count: int


class ApiKey(Strict):
    id: Ulid
    user: str
    groups: list[str]
    subject: str
    role: Literal["viewer", "editor", "admin", "custom", "none"]
    secret_name: str
    created_at: Time
    expires_at: Time | None = None


class NewApiKey(ApiKey):
    key: str


class ApiKeys(Strict):
    total_count: int
    items: list[ApiKey]
    next: str | None = None
    prev: str | None = None


class RoleSubject(Strict):
    kind: Literal["User", "Group", "ServiceAccount"]
    name: str
    namespace: str | None = None


class RoleBinding(Strict):
    id: Ulid
    name: str
    role_kind: Literal["Role", "ClusterRole"]
    role_name: str
    role: Literal["viewer", "editor", "admin"] | None = None
    subjects: list[RoleSubject]
    created_at: Time


class RoleBindings(Strict):
    total_count: int
    items: list[RoleBinding]
    next: str | None = None
    prev: str | None = None


class Change(Strict):
    type: Literal["change", "event"]
    kind: str
    id: Ulid | None = None
    name: str
    manager: str
    external: bool
    fields: list[str]
    reason: str
    message: str
    warning: bool
    at: Time


class Changes(Strict):
    items: list[Change]


Event = Literal[
    "run_dead",
    "failure_rate",
    "authorisation_needed",
    "deploy_failed",
    "environment_error",
    "schedule_missed",
    "connection.created",
    "connection.failed",
    "connection.needs_authorisation",
    "connection.deleted",
    "activation.created",
    "activation.deleted",
]


class Underscored(Strict):
    model_config = ConfigDict(strict=True, extra="allow", alias_generator=None)


class FailureRate(Underscored):
    percent: int
    minimum_runs: int


class Incident(Underscored):
    event: Event
    subject: str | None = None
    message: str
    since: Time
    notified_at: Time | None = None
    ended_at: Time | None = None


class Notification(Underscored):
    id: Ulid
    name: str
    project_id: Ulid
    channel_id: Ulid | None = None
    environment_id: Ulid
    events: list[Event]
    failure_rate: FailureRate
    incidents: list[Incident]
    ready: bool | None = None
    message: str
    created_at: Time
    updated_at: Time


class Notifications(Strict):
    total_count: int
    items: list[Notification]
    next: str | None = None
    prev: str | None = None


class ReachedOrganisation(Strict):
    id: Ulid
    name: str
    namespace: str
    role: Literal["viewer", "editor", "admin", "custom"]


class Me(Strict):
    id: str
    name: str
    kind: Literal["user", "serviceAccount", "apiKey"]
    groups: list[str] | None = None
    organisations: list[ReachedOrganisation]


class Comparison(Strict):
    current: int
    past: int


class MetricsBucket(Strict):
    start: Time
    executions: int
    errors: int


class MetricsSummary(Strict):
    deployed_projects: Comparison
    total_executions: Comparison
    total_errors: Comparison
    series: list[MetricsBucket] | None = None


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


class ConnectionTestResult(Strict):
    ok: bool
    status: int | None = None
    message: str


class StoreCommitted(Strict):
    committed: bool
    versionstamp: str | None = None


class StoreValue(Strict):
    value: str
    versionstamp: str
    created_at: Time | None = None
    expires_at: Time | None = None


class StoreKey(Strict):
    key: list[str]


class StorePagination(Strict):
    next_cursor: str | None = None
    prev_cursor: str | None = None


class StorePage(Strict):
    data: list[StoreKey]
    pagination: StorePagination


class StoreCount(Strict):
    count: int


class SessionUser(Strict):
    external_id: str
    display_name: str


class ConnectSession(Strict):
    id: Ulid
    user: SessionUser
    environment_id: Ulid
    templates: list[Ulid]
    connection: Ulid | None = None
    allowed_origins: list[str]
    return_url: str | None = None
    created_by: str
    created_at: Time
    expires_at: Time


class NewConnectSession(Strict):
    id: Ulid
    token: str
    url: str | None = None
    expires_at: Time


class ConnectSessions(Strict):
    total_count: int
    items: list[ConnectSession]
    next: str | None = None
    prev: str | None = None


class Named(Strict):
    id: Ulid
    name: str


class CurrentConnectSession(Strict):
    id: Ulid
    organisation_id: Ulid
    user: SessionUser
    project: Named
    environment: Named
    connection: Ulid | None = None
    return_url: str | None = None
    allowed_origins: list[str]
    expires_at: Time
    templates: list[Template]
    systems: list[Named]
    connections: list[Connection]
    activation: Activation | None = None
    variables_schema: dict[str, Any]


ANSWERS: Mapping[str, Any] = {
    "getCurrentConnectSession": CurrentConnectSession,
    "createConnectSession": NewConnectSession,
    "listConnectSessions": ConnectSessions,
    "getConnectSession": ConnectSession,
    "listSchedulers": list[Scheduler],
    "listLateSchedulers": LateSchedulers,
    "getScheduler": Scheduler,
    "updateScheduler": Scheduler,
    "testConnection": ConnectionTestResult,
    **{f"setStoreValue{end}": StoreCommitted for end in ("", "InOrganisation")},
    **{f"getStoreValue{end}": StoreValue for end in ("", "InOrganisation")},
    **{f"listStoreKeys{end}": StorePage for end in ("", "InOrganisation")},
    **{f"countStoreKeys{end}": StoreCount for end in ("", "InOrganisation")},
    "getMe": Me,
    "getMetricsSummary": MetricsSummary,
    "getProjectsMetricsSummary": MetricsSummary,
    "getConnectionUses": ConnectionUses,
    "getBacklog": Backlog,
    "createApiKey": NewApiKey,
    "listApiKeys": ApiKeys,
    "listRoleBindings": RoleBindings,
    "listChanges": Changes,
    "createNotificationChannel": NotificationChannel,
    "listNotificationChannels": NotificationChannels,
    "createNotification": Notification,
    "listNotifications": Notifications,
    "createNotificationOfProject": Notification,
    "listNotificationsOfProject": Notifications,
    "listSystems": Systems,
    "createSystem": System,
    "getSystem": System,
    "updateSystem": System,
    "putAuthSchemeConfig": SchemeConfig,
    "listConnections": Connections,
    "createConnection": Connection,
    "getConnection": Connection,
    "updateConnection": Connection,
    "createProject": Project,
    "listProjects": ProjectList,
    "getProject": Project,
    "updateProject": Project,
    "getFiles": Files,
    "updateFiles": Files,
    "deployProject": Project,
    "suspendProject": Project,
    "listVersions": Versions,
    "getVersionFiles": Files,
    "createVersion": Version,
    "diffVersions": VersionDiff,
    "validateProject": Validation,
    "cloneProject": Project,
    "createEnvironment": Project,
    "cloneEnvironment": Project,
    "syncEnvironments": Project,
    "deleteEnvironment": Project,
    "deleteEnvironmentByPost": Project,
    "callEnvironment": WebhookAnswer,
    "deployVersion": Project,
    "listStaticConnections": Connections,
    "createConnectionTemplate": Template,
    "listConnectionTemplates": Templates,
    "updateConnectionTemplate": Template,
    "listEnvironmentSystems": Templates,
    "createUser": EndUser,
    "listUsers": Users,
    "getUser": EndUser,
    "activateUser": Activation,
    "listActivations": list[Activation],
    "getActivation": StaticActivation,
    "listUserActivations": list[Activation],
    "getActivationConnection": Connection,
    "initialiseOAuth2": Url,
    "initialiseOAuth1": Url,
    "linkConnection": Empty,
    "deleteConnectionTemplate": Empty,
    "deleteActivation": Empty,
    "getVariablesSchema": Json,
    "setVariablesSchema": Json,
    "patchVariablesSchema": Json,
    "updateActivationVariables": Json,
    "setActivationVariable": Json,
    "updateStaticVariables": Json,
    "importConnector": ImportResult,
    "listConnectors": Connectors,
    "getConnector": Connector,
    "listConnectorVersions": ConnectorVersions,
    "getConnectorVersion": ConnectorVersion,
    "searchOperations": FoundOperations,
    "listActions": Actions,
    "listTriggers": Triggers,
    "listDefinitions": Definitions,
    "getDefinition": Definition,
    "createSystemFromConnector": System,
    "listRuns": Runs,
    "listProjectRuns": Runs,
    "getRun": RunDetail,
    "replayRun": Run,
    "replayRuns": RunsAffected,
    "cancelRuns": RunsAffected,
    "discardRuns": RunsAffected,
    "publishEvent": EventAccepted,
}
"""What clients read of an operation's good answer, by the operation's id."""

# Where anything that JSON can say may stand.
_FREE = (
    "dynamicVariables",
    "lastValidVariables",
    "dynamicVariablesSchema",
    "payload",
    "schema",
    "definition",
    "default",
)


def read(operation: str, answer: Any) -> Any:
    """A good answer as its type; AssertionError where a field is null, ValidationError where one does not fit."""
    nulls = list(_nulls(answer, operation))
    assert not nulls, f"null at {nulls}"
    parse: Callable[[Any], Any] = TypeAdapter(ANSWERS[operation]).validate_python
    return parse(answer)


def _nulls(value: Any, path: str) -> list[str]:
    if value is None:
        return [path]
    if isinstance(value, dict):
        return [
            found
            for name, one in value.items()
            if name not in _FREE
            for found in _nulls(one, f"{path}.{name}")
        ]
    if isinstance(value, list):
        return [found for index, one in enumerate(value) for found in _nulls(one, f"{path}[{index}]")]
    return []
