"""Which role may do what: the whole table of operations, asked of the real API with the roles that ship."""

import re
from collections.abc import Callable

import pytest

from tests.harness.cluster.kubectl import Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.integration.api.conftest import Client, Server
from tests.integration.api.engine_objects import make_state_streams
from tests.integration.api.objects import make_project
from tieline_api.handlers import OPERATIONS
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import new_id, static_activation_id

pytestmark = pytest.mark.cluster

ROLES = ("none", "viewer", "editor", "admin")
# What each role may do beyond the one before it. A new operation must be put where it belongs.
MAY = {
    "viewer": """
        listSystems getSystem listConnections getConnection listProjects getProject getFiles listVersions
        getVersionFiles diffVersions getProjectLogs getVariablesSchema listStaticConnections listConnectionTemplates
        listEnvironmentSystems listUsers getUser listActivations getActivation listUserActivations
        getActivationConnection getStaticVariables listConnectors getConnector listConnectorVersions getConnectorVersion
        searchOperations listActions listTriggers listDefinitions getDefinition listProjectTraces getTrace
        listRuns listProjectRuns getRun downloadRun listIssues listProjectIssues getIssue listReleases getRelease
        listApprovals getApproval answerApproval
        getMetricsSummary getProjectsMetricsSummary
        listSchedulers getScheduler listLateSchedulers listOrganisationSchedulers
        getStoreValue listStoreKeys countStoreKeys
        getStoreValueInOrganisation listStoreKeysInOrganisation countStoreKeysInOrganisation
        listQuotas getEnvironmentWork getBacklog getConnectionUses listApiKeys listRoleBindings listChanges
        watchOrganisation
        listNotificationChannels listNotifications listNotificationsOfProject
    """,
    "editor": """
        initialiseOAuth2 initialiseOAuth1 createConnection updateConnection deleteConnection linkConnection
        unlinkConnection createProject updateProject deleteProject updateFiles deployProject suspendProject
        deployVersion setVariablesSchema patchVariablesSchema createConnectionTemplate updateConnectionTemplate
        deleteConnectionTemplate addSystemToEnvironment removeSystemFromEnvironment
        removeSystemFromEnvironmentByPut createUser deleteUser activateUser deleteActivation
        updateActivationVariables setActivationVariable updateStaticVariables
        replayRun cancelRun discardRun replayRuns cancelRuns discardRuns publishEvent publishEvents
        signalRun listSleepers
        updateIssue replayIssue
        runScheduler updateScheduler
        setStoreValue deleteStoreValue setStoreValueInOrganisation deleteStoreValueInOrganisation
        createNotificationChannel updateNotificationChannel testNotificationChannel deleteNotificationChannel
        createNotification updateNotification deleteNotification
        createNotificationOfProject updateNotificationOfProject deleteNotificationOfProject
        createConnectSession listConnectSessions getConnectSession revokeConnectSession
        cloneProject patchFiles validateProject createVersion createEnvironment cloneEnvironment
        testConnection proxyGet proxyHead proxyOptions proxyPost proxyPut proxyPatch proxyDelete
        syncEnvironments deleteEnvironment deleteEnvironmentByPost updateEnvironmentConfig callEnvironment
    """,
    "admin": """
        createSystem createSystemFromConnector createSystemFromCatalogue updateSystem deleteSystem putAuthSchemeConfig
        deleteAuthSchemeConfig importConnector deleteConnector createApiKey deleteApiKey
        createRoleBinding deleteRoleBinding listAuditRecords
    """,
}
LEAST = {operation: role for role, operations in MAY.items() for operation in operations.split()}


@pytest.fixture(scope="module")
def callers(
    server: Server, engine: NatsServer, org: Organisation, token_for: Callable[..., str]
) -> dict[str, Client]:
    """One caller for each role, and one without any."""
    make_state_streams(engine, org.id)
    return {
        role: Client(
            server.url,
            token_for(org.namespace, f"table-{role}", None if role == "none" else f"tieline-{role}"),
            org.id,
        )
        for role in ROLES
    }


# tests/integration/api/access/test_me.py and test_end_users.py
ABOUT_THE_CALLER = {"getMe", "getCurrentConnectSession", "endCurrentConnectSession"}
# tests/integration/api/resources/test_catalogue.py
FOR_EVERYONE = {"listCatalogue", "getCatalogueEntry", "listProjectTemplates"}


def test_every_operation_is_in_the_table() -> None:
    assert {operation.id for operation in OPERATIONS} <= LEAST.keys() | ABOUT_THE_CALLER | FOR_EVERYONE
    assert {one.id for one in OPERATIONS if not one.permissions} == ABOUT_THE_CALLER | FOR_EVERYONE


# Where the project names the organisation, one that is not there is 404 to everybody.
# A stream does not end: tests/unit/api/watching.
IN_ORGANISATION = [one for one in OPERATIONS if "{organisation_id}" in one.path and not one.streams]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("operation", IN_ORGANISATION, ids=lambda operation: operation.id)
def test_a_role_may_do_what_the_table_says(
    callers: dict[str, Client], operation: Operation, role: str
) -> None:
    client = callers[role]
    path = operation.path.replace("{organisation_id}", client.organisation)
    answer = client.at(re.sub(r"\{\w+\}", lambda _: new_id(), path), method=operation.method, body={})
    assert answer.status < 500, answer.raw
    if operation.method == "HEAD":  # has no body
        least = ROLES.index(LEAST[operation.id])
        assert answer.status in ((404,) if role == "none" or ROLES.index(role) >= least else (403,))
    elif role == "none":
        assert answer.status == 404
        assert "organisation" in answer.json["message"]
    elif ROLES.index(role) < ROLES.index(LEAST[operation.id]):
        assert (answer.status, answer.json["code"]) == (403, "forbidden")
    else:
        assert answer.status not in (401, 403), answer.raw
        assert answer.status != 404 or "organisation " not in answer.json["message"].partition(",")[0][:24]


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if "{organisation_id}" not in one.path and one.permissions],
    ids=lambda operation: operation.id,
)
def test_a_role_may_do_the_same_where_the_project_names_the_organisation(
    callers: dict[str, Client], client: Client, operation: Operation, role: str
) -> None:
    project = make_project(client)
    path = operation.path.replace("{project_id}", project["id"])
    path = path.replace("{activation_id}", static_activation_id(project["environments"][0]["id"]))
    path = re.sub(r"\{\w+\}", lambda _: new_id(), path)
    answer = callers[role].at(path, method=operation.method, body={})
    if role == "none":
        assert answer.status == 404
        assert answer.json["message"].endswith("or it is not yours to see")
    elif ROLES.index(role) < ROLES.index(LEAST[operation.id]):
        assert (answer.status, answer.json["code"]) == (403, "forbidden")
    else:
        # What the path names is not there, or the body lacks something.
        assert answer.status in (200, 204, 404, 422), answer.raw
        assert "not yours" not in answer.raw.decode()
