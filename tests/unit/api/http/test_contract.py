"""The contract: every row of it is an operation, with its method, path, fields and status."""

from typing import Any

import pytest

from tieline_api.handlers import OPERATIONS
from tieline_api.http.openapi import document
from tieline_api.schemas.base import PageQuery

O = "/api/v2/o/{organisation_id}"  # noqa: E741
BY_PLACE = {(operation.method, operation.path): operation for operation in OPERATIONS}
PAGING = "first after before"
RUN_FILTERS = "project_env status kind task user version start end search"
ROWS = [
    # method, path, status, query, body, what the body must have
    ("GET", f"{O}/systems", 200, f"{PAGING} search", "", ""),
    ("PUT", f"{O}/systems/{{system_id}}", 201, "", "name domain templateBaseUrl", ""),
    (
        "POST", f"{O}/systems/{{system_id}}/oauth2/initialise", 200, "",
        "credential authorizeUrl clientId scopes disableOfflineAccess prompt additionalParams",
        "credential authorizeUrl clientId",
    ),
    (
        "POST", f"{O}/systems", 201, "", "name domain templateBaseUrl authSchemeConfigs labels",
        "name domain templateBaseUrl authSchemeConfigs",
    ),
    ("PUT", f"{O}/systems/{{system_id}}/auth-scheme-configs/{{id}}", 201, "", "type apiKey oauth2 hmac", "type"),
    ("DELETE", f"{O}/systems/{{system_id}}/auth-scheme-configs/{{id}}", 204, "", "", ""),
    ("GET", f"{O}/systems/{{system_id}}", 200, "", "", ""),
    ("DELETE", f"{O}/systems/{{system_id}}", 204, "", "", ""),
    ("PUT", f"{O}/connections/{{connection_id}}", 200, "", "name credentials baseUrl", ""),
    ("POST", f"{O}/connections/{{connection_id}}/link", 201, "", "connectionTemplateId", "connectionTemplateId"),
    ("DELETE", f"{O}/connections/{{connection_id}}/link", 204, "", "connectionTemplateId", "connectionTemplateId"),
    (
        "POST", f"{O}/connections", 201, "", "connectionTemplateId connection",
        "connectionTemplateId connection",
    ),
    ("GET", f"{O}/connections", 200, f"{PAGING} search system_id end_user_id unused expires_before", "", ""),
    ("GET", f"{O}/connections/{{connection_id}}", 200, "", "", ""),
    ("GET", f"{O}/connections/{{connection_id}}/uses", 200, "", "", ""),
    ("DELETE", f"{O}/connections/{{connection_id}}", 204, "", "", ""),
    ("POST", f"{O}/connections/{{connection_id}}/test", 200, "", "method path", ""),
    *(
        (method, f"{O}/connections/{{connection_id}}/proxy/{{path}}", 200, "", "", "")
        for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
    ),
    ("GET", f"{O}/api-keys", 200, PAGING, "", ""),
    ("POST", f"{O}/api-keys", 201, "", "user groups expiresAt", "user"),
    ("DELETE", f"{O}/api-keys/{{key_id}}", 204, "", "", ""),
    ("GET", f"{O}/role-bindings", 200, PAGING, "", ""),
    ("POST", f"{O}/role-bindings", 201, "", "role subject", "role subject"),
    ("DELETE", f"{O}/role-bindings/{{binding_id}}", 204, "", "", ""),
    ("GET", f"{O}/backlog", 200, "first", "", ""),
    ("GET", f"{O}/environments/{{environment_id}}/sleepers", 200, "first", "", ""),
    ("GET", f"{O}/changes", 200, "first id", "", ""),
    ("GET", f"{O}/watch", 200, "", "", ""),
    ("POST", f"{O}/projects", 200, "", "name id", "name"),
    ("GET", f"{O}/projects", 200, "", "", ""),
    ("PUT", f"{O}/projects/{{project_id}}", 200, "", "name settings", ""),
    (
        "PUT", f"{O}/projects/{{project_id}}/deploy", 200, "project_env env_id wait",
        "files labels versionName versionDescription message revision", "",
    ),
    ("POST", f"{O}/projects/{{project_id}}/suspend", 200, "environment* wait", "", ""),
    ("PUT", f"{O}/projects/{{project_id}}/variables", 200, "", "*", ""),
    ("PATCH", f"{O}/projects/{{project_id}}/variables", 200, "", "op path value", "op path"),
    ("GET", f"{O}/projects/{{project_id}}", 200, "", "", ""),
    ("DELETE", f"{O}/projects/{{project_id}}", 204, "", "", ""),
    ("POST", f"{O}/projects/{{project_id}}/clone", 200, "", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/files", 200, "", "", ""),
    ("PUT", f"{O}/projects/{{project_id}}/files", 200, "", "files labels", "files labels"),
    ("PATCH", f"{O}/projects/{{project_id}}/files", 204, "", "files labels", ""),
    (
        "PUT", f"{O}/projects/{{project_id}}/validate", 200, "project_env env_id",
        "files labels", "",
    ),
    ("POST", f"{O}/projects/{{project_id}}/environments", 200, "", "name", "name"),
    ("DELETE", f"{O}/projects/{{project_id}}/environments/{{environment_id}}", 200, "", "", ""),
    ("POST", f"{O}/projects/{{project_id}}/environments/{{environment_id}}", 200, "", "", ""),
    (
        "POST", f"{O}/projects/{{project_id}}/environments/clone", 200, "",
        "oldEnvName newEnvName cloneSystems copyStaticUserVariables", "oldEnvName newEnvName",
    ),
    (
        "POST", f"{O}/projects/{{project_id}}/environments/sync", 200, "wait",
        "sourceEnvName targetEnvName force message revision", "sourceEnvName targetEnvName",
    ),
    ("GET", f"{O}/projects/{{project_id}}/environments/{{environment_id}}/releases", 200, PAGING, "", ""),
    ("GET", f"{O}/projects/{{project_id}}/environments/{{environment_id}}/releases/{{release}}", 200, "", "", ""),
    ("PUT", f"{O}/environments/{{environment_id}}/config", 204, "", "deploymentSpec image env scaling", ""),
    (
        "POST", f"{O}/projects/{{project_id}}/environments/call", 200, "project_env env_id",
        "urlPath method headers query body", "urlPath method",
    ),
    (
        "POST", f"{O}/projects/{{project_id}}/versions", 200, "", "name description labels files",
        "name files",
    ),
    ("GET", f"{O}/projects/{{project_id}}/versions/{{version_id}}/diff", 200, "from", "", ""),
    (
        "GET", f"{O}/projects/{{project_id}}/logs", 200,
        "project_env next_token start end search build latest first order", "", "",
    ),
    ("GET", f"{O}/projects/{{project_id}}/variables", 200, "", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/versions", 200, PAGING, "", ""),
    ("GET", f"{O}/projects/{{project_id}}/versions/{{version_id}}/files", 200, "", "", ""),
    (
        "PUT", f"{O}/projects/{{project_id}}/versions/{{version_id}}/deploy", 200, "project_env env_id wait",
        "message revision", "",
    ),
    ("GET", f"{O}/environments/{{environment_id}}/variables", 200, "", "", ""),
    ("POST", f"{O}/notification_channels/{{channel_id}}/test", 200, "", "", ""),
    ("GET", f"{O}/schedulers", 200, f"{PAGING} search project_id", "", ""),
    ("GET", f"{O}/schedulers/late", 200, "first", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/connections", 200, f"{PAGING} env_id", "", ""),
    (
        "POST", f"{O}/projects/{{project_id}}/connection-templates", 200, "",
        "systemId name environmentId dynamic", "systemId name",
    ),
    (
        "PUT", f"{O}/projects/{{project_id}}/connection-templates/{{template_id}}", 200, "",
        "name dynamic authSchemeConfigIds", "",
    ),
    ("DELETE", f"{O}/projects/{{project_id}}/connection-templates/{{template_id}}", 200, "", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/connection-templates", 200, "env_id", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/systems", 200, "env_id", "", ""),
    (
        "POST", f"{O}/projects/{{project_id}}/systems", 204, "",
        "systemId name environmentId dynamic", "systemId name",
    ),
    (
        "DELETE", f"{O}/projects/{{project_id}}/systems", 204, "",
        "systemId name environmentId dynamic", "systemId name",
    ),
    (
        "PUT", f"{O}/projects/{{project_id}}/systems", 204, "",
        "systemId name environmentId dynamic", "systemId name",
    ),
    (
        "POST", f"{O}/activations", 200, "", "userId environmentId connections dynamicVariables",
        "userId environmentId connections",
    ),
    ("PATCH", f"{O}/environments/{{environment_id}}/activations/{{activation_id}}/variables", 200, "", "*", ""),
    ("DELETE", f"{O}/environments/{{environment_id}}/activations/{{activation_id}}", 200, "", "", ""),
    (
        "PUT", f"{O}/environments/{{environment_id}}/activations/{{activation_id}}/variables/{{name}}", 200, "",
        "value", "value",
    ),
    ("PATCH", f"{O}/environments/{{environment_id}}/variables", 200, "", "*", ""),
    ("GET", f"{O}/environments/{{environment_id}}/activations", 200, "first after", "", ""),
    ("GET", f"{O}/environments/{{environment_id}}/activations/{{activation_id}}", 200, "", "", ""),
    ("GET", f"{O}/environment/{{environment_id}}/users/{{external_user_id}}/activations", 200, "", "", ""),
    (
        "GET", f"{O}/environment-systems/{{connection_template_id}}/activations/{{activation_id}}", 200,
        "", "", "",
    ),
    (
        "POST", f"{O}/connect-sessions", 201, "",
        "user environmentId templates connection allowedOrigins returnUrl expiresIn", "user environmentId",
    ),
    ("GET", f"{O}/connect-sessions", 200, PAGING, "", ""),
    ("GET", f"{O}/connect-sessions/{{session_id}}", 200, "", "", ""),
    ("DELETE", f"{O}/connect-sessions/{{session_id}}", 204, "", "", ""),
    ("POST", f"{O}/users", 201, "", "externalId displayName", "externalId"),
    ("GET", f"{O}/users", 200, f"{PAGING} search activated environment_id", "", ""),
    ("GET", f"{O}/users/{{user_id}}", 200, "", "", ""),
    ("DELETE", f"{O}/users/{{user_id}}", 204, "", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/traces/{{trace_id}}", 200, "", "", ""),
    (
        "GET", f"{O}/projects/{{project_id}}/traces", 200,
        "project_env next_token start end filter error task", "", "",
    ),
    ("GET", f"{O}/runs", 200, f"{PAGING} {RUN_FILTERS}", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/runs", 200, f"{PAGING} {RUN_FILTERS}", "", ""),
    ("GET", f"{O}/projects/{{project_id}}/runs/{{run_id}}", 200, "project_env", "", ""),
    ("POST", f"{O}/projects/{{project_id}}/runs/{{run_id}}/replay", 202, "project_env", "payload", ""),
    ("POST", f"{O}/projects/{{project_id}}/runs/{{run_id}}/cancel", 202, "project_env", "", ""),
    ("POST", f"{O}/projects/{{project_id}}/runs/{{run_id}}/discard", 202, "project_env", "", ""),
    (
        "POST", f"{O}/projects/{{project_id}}/runs/replay", 202, f"{RUN_FILTERS} dryRun",
        f"{RUN_FILTERS} dryRun", "",
    ),
    (
        "POST", f"{O}/projects/{{project_id}}/runs/cancel", 202, f"{RUN_FILTERS} dryRun",
        f"{RUN_FILTERS} dryRun", "",
    ),
    (
        "POST", f"{O}/projects/{{project_id}}/runs/discard", 202, f"{RUN_FILTERS} dryRun",
        f"{RUN_FILTERS} dryRun", "",
    ),
    (
        "POST", f"{O}/environments/{{environment_id}}/events", 202, "", "task payload key id user delay",
        "task payload",
    ),
    ("GET", f"{O}/metricssummary", 200, "start end buckets", "", ""),
    ("GET", f"{O}/projects/metricssummary", 200, "start end buckets", "", ""),
    ("GET", f"{O}/environments/{{environment_id}}/schedulers", 200, "", "", ""),
    ("GET", f"{O}/environments/{{environment_id}}/schedulers/{{scheduler_id}}", 200, "", "", ""),
    ("POST", f"{O}/environments/{{environment_id}}/schedulers/{{scheduler_id}}", 204, "", "user", ""),
    ("PUT", f"{O}/environments/{{environment_id}}/schedulers/{{scheduler_id}}", 200, "", "paused", "paused"),
    ("GET", "/api/v2/me", 200, "", "", ""),
    ("GET", "/api/v2/catalogue", 200, f"{PAGING} search category", "", ""),
    ("GET", "/api/v2/catalogue/{entry}", 200, "", "", ""),
    ("GET", "/api/v2/project-templates", 200, "", "", ""),
    ("POST", f"{O}/catalogue/{{entry}}/systems", 201, "", "name variables labels schemes clients", ""),
    ("GET", "/api/v2/connect/session", 200, "", "", ""),
    ("DELETE", "/api/v2/connect/session", 204, "", "", ""),
    (
        "POST", "/api/connect/v1/o/{organisation_id}/connector/{connector_id}/http/import", 201, "",
        "format version", "format version",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "status", "query", "body", "required"),
    ROWS,
    ids=[f"{row[0]} {row[1]}" for row in ROWS],
)
def test_every_row_is_an_operation(
    method: str, path: str, status: int, query: str, body: str, required: str
) -> None:
    operation = BY_PLACE[method, path]
    assert operation.success == status
    parameters = operation.query.model_fields if operation.query else {}
    asked = {info.alias or name: info for name, info in parameters.items()}
    wanted = query.replace("*", "").split()
    assert set(wanted) <= set(asked)
    assert {name for name in asked if asked[name].is_required()} == {
        name.rstrip("*") for name in query.split() if name.endswith("*")
    }
    if body == "*":
        assert operation.body is not None
        return
    fields = operation.body.model_fields if operation.body else {}
    names = {info.alias or name for name, info in fields.items()}
    assert set(body.split()) <= names
    assert {info.alias or name for name, info in fields.items() if info.is_required()} == set(
        required.split()
    )


def test_pages_have_20_items_unless_asked_and_200_at_most() -> None:
    assert PageQuery().first == 20
    first = PageQuery.model_json_schema()["properties"]["first"]
    assert (first["minimum"], first["maximum"]) == (1, 200)


def test_keys_are_bearer_values_for_the_two_rows_that_clients_call_so() -> None:
    assert {one.id for one in OPERATIONS if one.key_as_bearer} == {"listSystems", "importConnector"}


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.id)
def test_what_replaces_or_patches_one_thing_honours_if_match(operation: object) -> None:
    exempt = {"removeSystemFromEnvironmentByPut", "validateProject"}  # a removal, and a check
    if operation.method in ("PUT", "PATCH"):  # type: ignore[attr-defined]
        assert operation.conditional or operation.proxies or operation.id in exempt  # type: ignore[attr-defined]


SCHEMES = "id:string description:string validationMessages:[ValidationMessage]"
# What the specification says of answers: the field and its type; [x] is a list of x.
ANSWERED = {
    "System": "id:string name:string domain:string authSchemeConfigs:[AuthSchemeConfig] templateBaseUrl:string",
    "ValidationMessage": "text:string severity:string detail:[string]",
    "ApiKeyScheme": f"{SCHEMES} name:string in:string",
    "HmacScheme": f"{SCHEMES} name:string in:string algorithm:string digestInputs:[string]",
    "OAuth2Scheme": f"{SCHEMES} tokenUrl:string authorizeUrl:string scopes:[OAuth2Scope] defaultScopes:[string] "
    "grant:Grant additionalAuthorizeParams:string additionalTokenParams:string mtlsEnabled:boolean "
    "mtlsCredentialId:string pkce:boolean",
    "OAuth2Scope": "name:string description:string",
    "GrantClient": "credentialId:string organisationId:string clientId:string clientSecret:string",
    "OAuth1Scheme": f"{SCHEMES} consumerKey:string consumerSecret:string signatureMethod:string credentialId:string "
    "tempCredentialEndpoint:OAuth1Endpoint resourceOwnerAuthorizationEndpoint:OAuth1Endpoint "
    "tokenEndpoint:OAuth1Endpoint",
    "OAuth1Endpoint": "url:string additionalParamConfigs:[OAuth1Parameter] parameterTransmission:string",
    "OAuth1Parameter": "parameterName:string location:string required:boolean modifiable:boolean targetName:string "
    "usages:string",
    "Credential": "id:string organisationId:string type:string name:string errors:[string] data:CredentialData "
    "expiresAt:string",
    "Connection": "id:string name:string credentials:[ConnectionCredential] createdAt:string updatedAt:string "
    "baseUrl:string systemId:string connectionTemplateId:string",
    "ConnectionTemplate": "id:string name:string domain:string dynamic:boolean authSchemeConfigs:[AuthSchemeConfig] "
    "templateBaseUrl:string connectionTemplateId:string",
    "SystemPage": "totalCount:integer items:[System] next:string prev:string",
    "Environment": "id:string name:string status:string createdAt:string updatedAt:string publicUrl:string "
    "files:[File] labels:object",
    "Trace": "traceId:string spans:[TraceSpan]",
    "TraceSpan": "spanId:string parentSpanId:string name:string startTime:string endTime:string "
    "attributes:[SpanAttribute] status:SpanStatus",
}


@pytest.fixture(scope="module")
def schemas() -> dict[str, Any]:
    found: dict[str, Any] = document(OPERATIONS, title="Tieline", version="1")["components"]["schemas"]
    return found


@pytest.mark.parametrize("name", ANSWERED)
def test_fields_of_answers_have_the_specified_types(name: str, schemas: dict[str, Any]) -> None:
    shown = {field: _type(schema, schemas) for field, schema in schemas[name]["properties"].items()}
    wanted = dict(one.split(":") for one in ANSWERED[name].split())
    assert {field: shown.get(field) for field in wanted} == wanted


def _type(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    if options := [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]:
        return "|".join(_type(one, schemas) for one in options)
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[-1]
        return name if "properties" in schemas[name] else _type(schemas[name], schemas)
    return f"[{_type(schema['items'], schemas)}]" if schema["type"] == "array" else str(schema["type"])
