"""Clients whose types were generated from the contract read every answer, whoever wrote what it shows."""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.harness.clients import typed_client
from tests.harness.clients.answers.base import Error
from tests.harness.cluster.kubectl import Kubectl, Organisation
from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import eventually
from tests.integration.api.conftest import Answer, Client
from tests.integration.api.contract.all_resources import Everything, make_everything
from tests.integration.api.objects import MAIN, make_project, make_system, make_template
from tieline_api.handlers import OPERATIONS
from tieline_api.http.openapi import parameters
from tieline_api.http.operation import Operation
from tieline_core.identity.ids import new_id

pytestmark = pytest.mark.cluster

Json = dict[str, Any]
ZERO = "0" * 26
# Logs and traces are about what ran, and have tests of their own; so has the stream, which does not end.
UNREAD = {"getProjectLogs", "listProjectTraces", "getTrace", "watchOrganisation"}
NOT_OURS = {"proxyGet", "getCurrentConnectSession"}  # of another system; of end users
READS = [one for one in OPERATIONS if one.method == "GET" and one.id not in UNREAD | NOT_OURS]
BROUGHT = [
    one
    for one in READS
    if not {
        "connector_id",
        "run_id",
        "approval_id",
        "issue_id",
        "release",
        "scheduler_id",
        "session_id",
        "key",
        "path",
        "entry",
    }
    & set(parameters(one))
]
TOKEN_URL = "https://login.example/token"


def grant(kind: str, **client: Any) -> Json:
    return {"tokenUrl": TOKEN_URL, "grant": {"type": kind, kind: client}}


SCHEMES: list[Json] = [
    {"id": "key", "type": "api-key", "apiKey": {"name": "X-API-Key", "in": "header"}},
    {"id": "nothing", "type": "none"},
    {"id": "login", "type": "basic-auth"},
    {"id": "mtls", "type": "certificate"},
    {"id": "Unterschrift / ü", "type": "hmac", "hmac": {
        "name": "X-Signature", "in": "header", "algorithm": "sha256", "digestInputs": ["body"]}},
    {"id": "jwt", "type": "jwt-bearer", "jwtBearer": {"algorithm": "ES256", "payload": {"a": None}}},
    {"id": "shared", "type": "secret", "secret": {"name": "token", "in": "body"}},
    {"id": "one", "type": "oauth1", "oauth1": {"tokenEndpoint": {"url": TOKEN_URL, "additionalParamConfigs": [
        {"parameterName": "p", "usages": "USAGE_TOKEN_REQUEST_ENDPOINT"}, {"parameterName": "q"}]}}},
    {"id": "one-named", "type": "oauth1", "oauth1": {"credentialId": "shop-consumer"}},
    {"id": "inline", "type": "oauth2", "oauth2": grant("authorizationCode", clientId="tieline")},
    {"id": "empty", "type": "oauth2", "oauth2": grant("password")},
    {"id": "named", "type": "oauth2", "oauth2": {
        **grant("authorizationCode", credentialId="shop-client"), "mtlsEnabled": True, "mtlsCredentialId": "tls"}},
    {"id": "machine", "type": "oauth2", "oauth2": grant("clientCredentials")},
]  # fmt: skip


def manifest(kind: str, called: str, /, *, labels: Json | None = None, **spec: Any) -> Json:
    return {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": kind,
        "metadata": {"name": called, "labels": labels or {}},
        "spec": spec,
    }


def secret(item: Json) -> Json:
    return {**item, "secretRef": {"name": "nowhere"}}


BY_KUBECTL: list[Json] = [
    manifest(
        "System", "odd", labels={"tieline.dev/id": "no-ulid"}, name="Odd", domain="odd.example",
        templateBaseUrl="https://odd.example", authSchemeConfigs=SCHEMES,
    ),
    manifest("System", "from-connector", name="Of a connector", connectorRef={"name": "nowhere"}),
    manifest("EndUser", "ann", labels={"tieline.dev/id": new_id().lower()}, externalId="ann"),
    manifest("EndUser", "ben", externalId=new_id(), displayName=""),
    manifest("Project", "bare", name="Bare"),
    manifest(
        "Project", "two", name="Two", source={"files": [MAIN]}, dynamicVariablesSchema={"type": "object"},
        runtime={"replicas": 2, "resources": {"limits": {"memory": "64Mi"}}},
        environments=[
            {"name": "a", "version": "nowhere", "runtime": {"replicas": 0, "image": "mine"}},
            {"name": "b", "version": "two-1"},
        ],
    ),
    manifest("ProjectVersion", "two-1", projectRef={"name": "two"}, digest="0" * 64, configMaps=[]),
    manifest(
        "Connection", "odd", name="Odd", systemRef={"name": "odd"}, variables={"region": "eu"},
        connectionTemplateRef={"name": "nowhere"},
        credentials=[
            secret({"id": "key", "type": "string", "authSchemeConfigId": "key",
                    "expiresAt": "2049-01-01T02:00:00+02:00"}),
            secret({"id": "client", "type": "oauth2-client", "authSchemeConfigId": "named",
                    "credentialId": "shop-client"}),
            secret({"id": "tls", "type": "certificate", "authSchemeConfigId": "mtls",
                    "credentialId": new_id().lower()}),
            {"id": "gone", "type": "none", "authSchemeConfigId": "gone"},
            {"id": "own", "type": "none", "authSchemeConfig": {
                "id": "own", "type": "oauth2", "oauth2": grant("password")}},
        ],
    ),
    manifest("Connection", "lost", name="Lost", systemRef={"name": "nowhere"}, credentials=[
        {"id": "x", "type": "none", "authSchemeConfigId": "x"}]),
    manifest("Connection", "empty", name="Empty", systemRef={"name": "odd"}, endUserRef={"name": "nowhere"}),
    manifest("ConnectionTemplate", "static", name="odd", projectRef={"name": "two"}, environment="a",
             systemRef={"name": "odd"}, connectionRef={"name": "odd"}, authSchemeConfigIds=["key", "gone"]),
    manifest("ConnectionTemplate", "dynamic", name="theirs", projectRef={"name": "two"}, environment="a",
             systemRef={"name": "odd"}, dynamic=True),
    manifest("ConnectionTemplate", "lost", name="lost", projectRef={"name": "two"}, environment="a",
             systemRef={"name": "nowhere"}),
    manifest("Activation", "ann", projectRef={"name": "two"}, environment="a", endUserRef={"name": "ann"},
             variables={"nothing": None}, connections=[
                 {"connectionTemplate": "dynamic", "connectionRef": {"name": "odd"}},
                 {"connectionTemplate": "nowhere", "connectionRef": {"name": "nowhere"}}]),
    manifest("Activation", "lost", projectRef={"name": "two"}, environment="a", endUserRef={"name": "nowhere"}),
    manifest("Activation", "static", projectRef={"name": "two"}, environment="b"),
]  # fmt: skip
# What operators wrote before definitions were stricter, which nothing checks again.
FROM_CONNECTOR: Json = {
    "fromConnector": {
        "version": "1",
        "authSchemeConfigs": [
            {"id": "newer", "type": "oauth3", "oauth3": {}},
            {"id": "half", "type": "oauth2", "oauth2": {"grant": None}},
            {"id": "nulls", "type": "oauth2", "description": None, "oauth2": {
                **grant("clientCredentials"), "scopes": None, "defaultScopes": None, "pkce": None}},
        ],
    }
}  # fmt: skip


@pytest.fixture(scope="module")
def odd(kubectl: Kubectl, other_org: Organisation, neighbour: Client) -> dict[str, str]:
    """An organisation of objects in the forms that kubectl may write, with the ids of each by kind and name."""
    namespace = other_org.namespace
    listed = {"apiVersion": "v1", "kind": "List", "items": BY_KUBECTL}
    kubectl("apply", "--server-side", "-f", "-", namespace=namespace, stdin=json.dumps(listed))
    status = json.dumps({"status": FROM_CONNECTOR})
    kubectl(
        "patch", "system", "from-connector", "--subresource=status", "--type=merge", "-p", status, namespace=namespace
    )  # fmt: skip

    def known() -> dict[str, str] | None:
        systems = {one["name"]: one for one in neighbour.ok("GET", "/systems")["items"]}
        projects = {one["name"]: one for one in neighbour.ok("GET", "/projects")["projects"]}
        users = {one["externalId"]: one for one in neighbour.ok("GET", "/users")["users"]}
        connections = {one["name"]: one for one in neighbour.ok("GET", "/connections")["items"]}
        assert len(systems["Of a connector"]["authSchemeConfigs"]) == 3
        two = projects["Two"]
        environment = two["environments"][0]["id"]
        (activation,) = neighbour.ok("GET", f"/environments/{environment}/activations")
        templates = neighbour.ok("GET", f"/projects/{two['id']}/connection-templates")["items"]
        dynamic = next(one for one in templates if one["dynamic"])
        return {
            "organisation_id": neighbour.organisation,
            "system_id": systems["Odd"]["id"],
            "connection_id": connections["Odd"]["id"],
            "project_id": two["id"],
            "version_id": neighbour.ok("GET", f"/projects/{two['id']}/versions")["items"][0]["id"],
            "environment_id": environment,
            "activation_id": activation["id"],
            "user_id": users["ann"]["id"],
            "external_user_id": "ann",
            "connection_template_id": dynamic["connectionTemplateId"],
        }

    return eventually("the objects", known)


def test_there_is_a_type_for_every_answer() -> None:
    assert {one.id for one in OPERATIONS if one.response} - UNREAD == set(typed_client.ANSWERS)


@pytest.mark.parametrize("operation", BROUGHT, ids=lambda one: one.id)
def test_typed_clients_read_what_kubectl_wrote(
    neighbour: Client, odd: dict[str, str], operation: Operation
) -> None:
    answer = neighbour.at(operation.path.format_map(odd))
    assert answer.status == 200, answer.raw
    typed_client.read(operation.id, answer.json)


@pytest.fixture(scope="module")
def everything(client: Client, engine: NatsServer, kubectl: Kubectl, org: Organisation) -> Everything:
    return make_everything(client, engine, kubectl, org)


@pytest.mark.parametrize("operation", READS, ids=lambda one: one.id)
def test_typed_clients_read_what_rest_wrote(
    client: Client, everything: Everything, operation: Operation
) -> None:
    answer = client.at(everything.path(operation))
    assert answer.status == 200, answer.raw
    typed_client.read(operation.id, answer.json)


def test_one_broken_scheme_or_object_does_not_hide_the_others(neighbour: Client, odd: dict[str, str]) -> None:
    items = neighbour.ok("GET", "/systems")["items"]
    found = {one["name"]: one["authSchemeConfigs"] for one in items}
    assert [one["type"] for one in found["Odd"]] == [one["type"] for one in SCHEMES]
    newer, half, nulls = found["Of a connector"]
    for broken in (newer, half):
        (message,) = broken["none"]["validationMessages"]
        assert message["severity"] == "error"
    assert (nulls["oauth2"]["scopes"], nulls["oauth2"]["pkce"]) == ([], False)
    connection = neighbour.ok("GET", f"/connections/{odd['connection_id']}")
    assert connection["variables"] == [{"name": "region", "value": "eu"}]
    assert connection["credentials"][0]["credential"]["expiresAt"] == "2049-01-01T00:00:00Z"
    templates = neighbour.ok("GET", f"/projects/{odd['project_id']}/connection-templates")["items"]
    (template,) = (one for one in templates if one["name"] == "odd")
    assert [one["apiKey"]["id"] for one in template["authSchemeConfigs"]] == ["key"]


def test_the_ids_of_answers_lead_back_to_what_the_manifests_name(
    neighbour: Client, odd: dict[str, str]
) -> None:
    """The ULID of a credential is the one that schemes show for the name that the manifests give it."""
    schemes = neighbour.ok("GET", f"/systems/{odd['system_id']}")["authSchemeConfigs"]
    named = next(one["oauth2"] for one in schemes if one.get("oauth2", {}).get("id") == "named")
    connection = neighbour.ok("GET", f"/connections/{odd['connection_id']}")
    client = connection["credentials"][1]["credential"]
    assert named["grant"]["authorizationCode"]["credentialId"] == client["id"]
    assert named["grant"]["authorizationCode"]["organisationId"] == neighbour.organisation


def test_an_answer_that_is_sent_back_changes_nothing(
    kubectl: Kubectl, other_org: Organisation, neighbour: Client, odd: dict[str, str]
) -> None:
    def spec() -> Json:
        text = kubectl("get", "connection", "odd", "-o", "json", namespace=other_org.namespace).stdout
        found: Json = json.loads(text)["spec"]
        return found

    before = spec()
    path = f"/connections/{odd['connection_id']}"
    shown = neighbour.ok("GET", path)
    body = {"name": shown["name"], "credentials": shown["credentials"]}
    answer = neighbour("PUT", path, body)
    assert answer.status in (200, 409), answer.raw
    if answer.status == 409:  # kubectl owns the fields, and would have to be asked for what differs
        fields = answer.json["fields"]
        assert all("expiresAt" in one["field"] or "authSchemeConfig" in one["field"] for one in fields), (
            fields
        )
    after = spec()
    assert [one["id"] for one in after["credentials"]] == [one["id"] for one in before["credentials"]]
    assert [one.get("credentialId") for one in after["credentials"]] == [
        one.get("credentialId") for one in before["credentials"]
    ]


def test_every_error_has_details_for_people_and_the_rest_beside_them(client: Client) -> None:
    system = make_system(client)
    make_template(client, system=system["id"])
    used = client("DELETE", f"/systems/{system['id']}")
    Error.model_validate(used.json)
    assert used.json["usedBy"] == ['template "shop"']
    large = client("PUT", f"/projects/{make_project(client)['id']}/variables", raw=b" " * 2_000_000)
    Error.model_validate(large.json)
    assert large.json["limit"] == 1024 * 1024


def test_an_embedded_page_asks_before_anybody_is_created_and_connects_then(client: Client) -> None:
    project = make_project(client)
    _, template = make_template(client, project=project, dynamic=True)
    environment = project["environments"][0]["id"]
    external = f"customer/{new_id()} ü"
    at = f"/environment/{environment}/users/{quote(external, safe='')}"
    assert client.ok("GET", f"{at}/activations") == []
    scheme = {"type": "api-key", "apiKey": {"id": "", "name": "X-API-Key", "in": "header"}}
    credential = {
        "id": ZERO, "authSchemeConfig": scheme,
        "credential": {"id": ZERO, "organisationId": client.organisation, "data": {"string": {"value": "s3cr3t"}}},
    }  # fmt: skip
    first = {
        "connectionTemplateId": template["connectionTemplateId"],
        "connection": {"name": "Mine", "externalId": external, "credentials": [credential]},
    }
    made = typed_client.read("createConnection", client.ok("POST", "/connections", first, status=201))
    user = typed_client.read("getUser", client.ok("GET", f"/users/{quote(external, safe='')}"))
    assert (user.external_id, user.display_name) == (external, "")
    given = {
        "connectionTemplateId": template["connectionTemplateId"],
        "existingConnectionId": made.id,
        "connection": None,
    }
    body = {
        "userId": external,
        "environmentId": environment,
        "connections": [given],
        "dynamicVariables": None,
    }
    activation = typed_client.read("activateUser", client.ok("POST", "/activations", body))
    assert activation.user == user
    (connection,) = activation.connections
    assert (connection.id, connection.connection_template_id) == (made.id, template["connectionTemplateId"])
    assert (
        typed_client.read("listUserActivations", client.ok("GET", f"{at}/activations"))[0].id == activation.id
    )
    # A new one counts before the id of none that clients send beside it.
    again = {
        **given,
        "existingConnectionId": ZERO,
        "connection": {"name": "Other", "credentials": [credential]},
    }
    (other,) = client.ok("POST", "/activations", {**body, "connections": [again]})["connections"]
    mine = client.ok("GET", f"/connections?end_user_id={user.id}")["items"]
    assert {one["id"] for one in mine} == {connection.id, other["id"]}


def test_a_static_template_is_not_linked_to_the_connection_of_one_user(client: Client) -> None:
    _, template = make_template(client)
    new = {"name": "Mine", "externalId": f"customer-{new_id()}", "credentials": []}
    body = {"connectionTemplateId": template["connectionTemplateId"], "connection": new}
    made = client.ok("POST", "/connections", body, status=201)
    static = client.ok("GET", f"/connections?system_id={made['systemId']}")["items"]
    assert [one["id"] for one in static] == [made["id"]]
    linked = {"connectionTemplateId": template["connectionTemplateId"]}
    assert client("DELETE", f"/connections/{made['id']}/link", linked).status == 404


def test_connecting_creates_users_for_those_alone_who_may(
    kubectl: Kubectl, client: Client, org: Organisation, token_for: Callable[..., str]
) -> None:
    """An id that is a ULID is no external id: a user that was deleted does not come back by mistake."""
    _, template = make_template(client, dynamic=True)

    def connect(who: Client, user: str) -> Answer:
        new = {"name": f"Of {user}", "externalId": user, "credentials": []}
        body = {"connectionTemplateId": template["connectionTemplateId"], "connection": new}
        return who("POST", "/connections", body)

    refused = connect(client, new_id())
    assert (refused.status, refused.fields) == (422, ["connection.externalId"])
    rules = ["create", "clusterrole", f"connects-{org.namespace}", "--verb=create,get,list,patch"]
    kubectl(*rules, "--resource=connections.tieline.dev,connectiontemplates.tieline.dev,projects.tieline.dev")
    limited = Client(client.url, token_for(org.namespace, "connects", f"connects-{org.namespace}"), org.id)
    limited.until_known()
    refused = connect(limited, f"customer-{new_id()}")
    assert (refused.status, refused.fields) == (422, ["connection.externalId"])
    assert "endusers" in refused.json["message"]


def test_a_template_offers_the_auth_schemes_that_it_names(client: Client) -> None:
    other = {"type": "none", "none": {"id": "open"}}
    schemes = [{"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}, other]
    project, template = make_template(client, schemes=schemes)
    path = f"/projects/{project['id']}/connection-templates/{template['connectionTemplateId']}"
    changed = client.ok("PUT", path, {"authSchemeConfigIds": ["open"]})
    assert [one["type"] for one in changed["authSchemeConfigs"]] == ["none"]
    refused = client("PUT", path, {"authSchemeConfigIds": ["open", "gone"]})
    assert (refused.status, refused.fields) == (422, ["authSchemeConfigIds[1]"])
    assert len(client.ok("PUT", path, {"authSchemeConfigIds": []})["authSchemeConfigs"]) == 2


def test_a_deploy_tells_the_version_that_it_made(client: Client, org: Organisation) -> None:
    project = make_project(client)
    (draft,) = project["environments"]
    assert (draft["publicUrl"], draft["config"]) == ("", {"deploymentSpec": {"replicas": 1, "resources": {}}})
    body = {"files": [MAIN], "labels": None, "versionName": "First"}
    deployed = typed_client.read("deployProject", client.ok("PUT", f"/projects/{project['id']}/deploy", body))
    (version,) = client.ok("GET", f"/projects/{project['id']}/versions")["items"]
    (environment,) = deployed.environments
    author = f"system:serviceaccount:{org.namespace}:admin"
    served = {name: version[name] for name in ("id", "name", "state", "createdAt", "createdBy")}
    assert environment.deployed_version.model_dump(by_alias=True) == served
    assert version["createdBy"] == author
    assert environment.last_deployed_at == version["createdAt"]
    assert deployed.updated_at >= project["updatedAt"]
