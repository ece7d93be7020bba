"""A strict reader of answers, as clients are whose types were generated from the contract.

The types in ``answers`` are written by hand from the contract, so that they do not change with the models of the API.
Ids parse as ULIDs, times as RFC 3339 in UTC, required fields are there, enumerations are known, and nothing is null.
"""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from tests.harness.clients.answers.base import Empty, Json, Url
from tests.harness.clients.answers.connections import (
    Connection,
    Connections,
    ConnectionTestResult,
    ConnectionUses,
    SchemeConfig,
    System,
    Systems,
    Template,
    Templates,
)
from tests.harness.clients.answers.connectors import (
    Actions,
    CatalogueEntry,
    CataloguePage,
    Connector,
    Connectors,
    ConnectorVersion,
    ConnectorVersions,
    Definition,
    Definitions,
    FoundOperations,
    ImportResult,
    Triggers,
)
from tests.harness.clients.answers.organisations import (
    ApiKeys,
    AuditRecords,
    Changes,
    Me,
    NewApiKey,
    Notification,
    NotificationChannel,
    NotificationChannels,
    Notifications,
    Quotas,
    RoleBinding,
    RoleBindings,
    StoreCommitted,
    StoreCount,
    StorePage,
    StoreValue,
)
from tests.harness.clients.answers.projects import (
    Files,
    LateSchedulers,
    OrganisationSchedulers,
    Project,
    ProjectList,
    ProjectTemplateList,
    Scheduler,
    Validation,
    Version,
    VersionDiff,
    Versions,
    WebhookAnswer,
)
from tests.harness.clients.answers.runs import (
    Approval,
    Approvals,
    Backlog,
    EnvironmentWork,
    EventAccepted,
    EventBatchAccepted,
    Issue,
    IssueDetail,
    Issues,
    MetricsSummary,
    ProjectsMetricsSummary,
    ReleaseDetail,
    Releases,
    Run,
    RunDetail,
    RunRecording,
    Runs,
    RunsAffected,
    SignalAccepted,
    SleepingRuns,
)
from tests.harness.clients.answers.users import (
    Activation,
    ConnectSession,
    ConnectSessions,
    CurrentConnectSession,
    EndUser,
    NewConnectSession,
    StaticActivation,
    Users,
)

ANSWERS: Mapping[str, Any] = {
    "listProjectTemplates": ProjectTemplateList,
    "listCatalogue": CataloguePage,
    "getCatalogueEntry": CatalogueEntry,
    "getCurrentConnectSession": CurrentConnectSession,
    "createConnectSession": NewConnectSession,
    "listConnectSessions": ConnectSessions,
    "getConnectSession": ConnectSession,
    "listSchedulers": list[Scheduler],
    "listLateSchedulers": LateSchedulers,
    "listOrganisationSchedulers": OrganisationSchedulers,
    "getScheduler": Scheduler,
    "updateScheduler": Scheduler,
    "testConnection": ConnectionTestResult,
    **{f"setStoreValue{end}": StoreCommitted for end in ("", "InOrganisation")},
    **{f"getStoreValue{end}": StoreValue for end in ("", "InOrganisation")},
    **{f"listStoreKeys{end}": StorePage for end in ("", "InOrganisation")},
    **{f"countStoreKeys{end}": StoreCount for end in ("", "InOrganisation")},
    "getMe": Me,
    "getMetricsSummary": MetricsSummary,
    "getProjectsMetricsSummary": ProjectsMetricsSummary,
    "getConnectionUses": ConnectionUses,
    "getBacklog": Backlog,
    "getEnvironmentWork": EnvironmentWork,
    "listAuditRecords": AuditRecords,
    "listQuotas": Quotas,
    "createApiKey": NewApiKey,
    "listApiKeys": ApiKeys,
    "listRoleBindings": RoleBindings,
    "createRoleBinding": RoleBinding,
    "listChanges": Changes,
    "createNotificationChannel": NotificationChannel,
    "updateNotificationChannel": NotificationChannel,
    "testNotificationChannel": NotificationChannel,
    "listNotificationChannels": NotificationChannels,
    "createNotification": Notification,
    "updateNotification": Notification,
    "listNotifications": Notifications,
    "createNotificationOfProject": Notification,
    "updateNotificationOfProject": Notification,
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
    "getStaticVariables": Json,
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
    "createSystemFromCatalogue": System,
    "listRuns": Runs,
    "listProjectRuns": Runs,
    "getRun": RunDetail,
    "downloadRun": RunRecording,
    "replayRun": Run,
    "replayRuns": RunsAffected,
    "cancelRuns": RunsAffected,
    "discardRuns": RunsAffected,
    "listApprovals": Approvals,
    "getApproval": Approval,
    "answerApproval": Approval,
    "listIssues": Issues,
    "listProjectIssues": Issues,
    "getIssue": IssueDetail,
    "updateIssue": Issue,
    "replayIssue": RunsAffected,
    "listReleases": Releases,
    "getRelease": ReleaseDetail,
    "publishEvent": EventAccepted,
    "publishEvents": EventBatchAccepted,
    "signalRun": SignalAccepted,
    "listSleepers": SleepingRuns,
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
