"""Examples of the OpenAPI document, by model; a test checks each against its schema."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from tieline_api.schemas import (
    access,
    authorisations,
    connect_sessions,
    connections,
    connectors,
    environments,
    me,
    metrics_summary,
    notifications,
    project_logs,
    projects,
    runs,
    schedules,
    store,
    systems,
    templates,
    users,
    versions,
)
from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.base import Empty

SYSTEM_ID = "01JD3Y7M5RZX9KQW8T2V4N6P0A"
CONNECTION_ID = "01JD3Y8B2CZX9KQW8T2V4N6P0B"
PROJECT_ID = "01JD3Y9D3EZX9KQW8T2V4N6P0C"
TEMPLATE_ID = "01JD3YA5F6ZX9KQW8T2V4N6P0D"
ENVIRONMENT_ID = "01JD3Y9D3E5TQ0M3H7RS8XA1BG"
CREDENTIAL_ID = "01JD3Y8B2C8F3XK5D1VJ7Q4M6N"
VERSION_ID = "01JD3YB7G8ZX9KQW8T2V4N6P0F"
ORGANISATION_ID = "01JD3Y000000000000000000RG"
USER_ID = "01JD3YC9H9ZX9KQW8T2V4N6P0G"
CHANNEL_ID = "01JD3YEFKBZX9KQW8T2V4N6P0J"
API_KEY_ID = "01JD3YGHNDZX9KQW8T2V4N6P0M"
NOTIFICATION_ID = "01JD3YFGMCZX9KQW8T2V4N6P0K"
ACTIVATION_ID = "01JD3YDBJAZX9KQW8T2V4N6P0H"
SESSION_ID = "01JD3YHSPEZX9KQW8T2V4N6P0M"
SCHEDULER_ID = "01JD3Y9D3E8KX2M5R7T9V1W3YZ"
STORE_VERSION = "0000000000000193a5f7"
TIME = "2026-11-21T10:00:00Z"

Example = dict[str, Any]

API_KEY: Example = {"type": "api-key", "apiKey": {"id": "key", "name": "X-API-Key", "in": "header"}}
SYSTEM_CREATE: Example = {
    "name": "Shop",
    "domain": "shop.example",
    "templateBaseUrl": "https://api.shop.example/v1",
    "authSchemeConfigs": [API_KEY],
}
SYSTEM: Example = {"id": SYSTEM_ID, **SYSTEM_CREATE}
NEW_CONNECTION: Example = {
    "name": "Shop of the EU",
    "credentials": [
        {
            "id": "key",
            "authSchemeConfig": API_KEY,
            "credential": {"type": "string", "data": {"string": {"value": "s3cr3t"}}},
        }
    ],
}
CONNECTION_CREATE: Example = {"connectionTemplateId": TEMPLATE_ID, "connection": NEW_CONNECTION}
CONNECTION: Example = {
    "id": CONNECTION_ID,
    "name": "Shop of the EU",
    "credentials": [
        {
            "id": CREDENTIAL_ID,
            "authSchemeConfig": API_KEY,
            "authSchemeConfigId": "key",
            "credential": {
                "id": CREDENTIAL_ID,
                "organisationId": ORGANISATION_ID,
                "type": "string",
                "name": "",
                "errors": [],
            },
        }
    ],
    "variables": [],
    "createdAt": TIME,
    "updatedAt": TIME,
    "systemId": SYSTEM_ID,
    "connectionTemplateId": TEMPLATE_ID,
}
MAIN = """from tieline import Context, Integration

integration = Integration()


@integration.webhook("hello")
async def hello(ctx: Context) -> dict[str, str]:
    ctx.log.info("Somebody says hello")
    return {"hello": "world"}
"""
FILES: list[Example] = [{"filename": "main.py", "content": MAIN}]
FILES_BODY: Example = {"files": FILES, "labels": {"team": "ops"}}
ENVIRONMENT: Example = {
    "id": ENVIRONMENT_ID,
    "name": "production",
    "status": "running",
    "createdAt": TIME,
    "updatedAt": TIME,
    "publicUrl": "https://order-sync.example",
    "lastDeployedAt": TIME,
    "config": {
        "deploymentSpec": {"replicas": 2, "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
    },
    "deployedVersion": {"id": VERSION_ID, "name": "First"},
}
PROJECT_ITEM: Example = {
    "id": PROJECT_ID,
    "name": "Order sync",
    "createdAt": TIME,
    "updatedAt": TIME,
    "environments": [ENVIRONMENT],
}
SCHEMA: Example = {"type": "object", "properties": {"region": {"type": "string"}}}
PROJECT: Example = {
    **PROJECT_ITEM,
    "currentFiles": FILES_BODY,
    "settings": {"acceptCodeChangesAutomatically": False, "keepInputs": False},
    "dynamicVariablesSchema": SCHEMA,
}
VERSION: Example = {
    "id": VERSION_ID,
    "name": "First",
    "state": "ready",
    "createdAt": TIME,
    "labels": {"team": "ops"},
    "createdBy": "oidc:ann@acme.example",
}
VERSION_DIFF: Example = {
    "from": {"id": VERSION_ID, "name": "First"},
    "to": {"id": "01JD3YB9J9ZX9KQW8T2V4N6P0F", "name": "Second"},
    "files": [
        {
            "filename": "greeting.txt",
            "change": "changed",
            "binary": False,
            "truncated": False,
            "diff": "--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1 +1 @@\n-hello\n+good morning\n",
        }
    ],
    "labels": [{"key": "team", "before": "ops", "after": "shop"}],
}
VALIDATION: Example = {
    "project_id": PROJECT_ID,
    "environment": "production",
    "validation": {
        "success": False,
        "error": "main.py:3: Python cannot read this: invalid syntax",
        "output": "main.py:3: Python cannot read this: invalid syntax\n",
        "duration": 41,
        "timestamp": TIME,
    },
    "findings": [
        {
            "filename": "main.py",
            "line": 3,
            "severity": "error",
            "message": "Python cannot read this: invalid syntax",
        }
    ],
}
TEMPLATE_CREATE: Example = {"systemId": SYSTEM_ID, "name": "shop", "environmentId": ENVIRONMENT_ID}
TEMPLATE: Example = {
    "id": SYSTEM_ID,
    "name": "shop",
    "domain": "shop.example",
    "dynamic": False,
    "authSchemeConfigs": [API_KEY],
    "templateBaseUrl": "https://api.shop.example/v1",
    "connectionTemplateId": TEMPLATE_ID,
}

USER: Example = {
    "id": USER_ID,
    "externalId": "customer-17",
    "displayName": "Ann",
    "organisationId": ORGANISATION_ID,
    "createdAt": TIME,
    "updatedAt": TIME,
}
ACTIVATION_CREATE: Example = {
    "userId": "customer-17",
    "environmentId": ENVIRONMENT_ID,
    "connections": [{"connectionTemplateId": TEMPLATE_ID, "connection": NEW_CONNECTION}],
    "dynamicVariables": {"region": "eu"},
}
ACTIVATION: Example = {
    "id": ACTIVATION_ID,
    "user": USER,
    "environment": ENVIRONMENT,
    "connections": [CONNECTION],
    "dynamicVariables": {"region": "eu"},
}
LOGS: Example = {
    "logs": [
        {
            "timestamp": "2026-11-21T10:00:00.123Z",
            "severity": "INFO",
            "message": "Stored the order",
            "fields": {"executionId": "01JD3YEKHBZX9KQW8T2V4N6P0J", "order_id": "A-1001"},
        }
    ]
}
OAUTH2_INITIALISE: Example = {
    "credential": {"id": CREDENTIAL_ID, "organisationId": ORGANISATION_ID},
    "authorizeUrl": "https://shop.example/oauth/authorize",
    "clientId": "tieline",
    "scopes": ["orders.read"],
    "prompt": "consent",
    "additionalParams": "audience=shop",
}
OAUTH1_INITIALISE: Example = {
    "credential": {"id": CREDENTIAL_ID, "organisationId": ORGANISATION_ID},
    "authSchemeConfigId": "signed",
    "params": {"shop": "north"},
}
CONNECTOR_ID = "01JD3YFM7CZX9KQW8T2V4N6P0K"
CONNECTOR_VERSION_ID = "01JD3YFM7C5TQ0M3H7RS8XA1BK"
DEFINITION_ID = "3B7Q9XKD2M5TQ0M3H7RS8XA1BM"
ACTION_ID = "3B7Q9XKD2M8F3XK5D1VJ7Q4M6P"
TRIGGER_ID = "3B7Q9XKD2MZX9KQW8T2V4N6P0N"

IMPORT_METADATA: Example = {"format": "openapi", "version": "2026-11"}
CONNECTOR_VERSION: Example = {
    "id": CONNECTOR_VERSION_ID,
    "name": "2026-11",
    "description": "",
    "isLatest": True,
    "isDefault": True,
    "createdAt": TIME,
    "updatedAt": TIME,
    "publishedAt": TIME,
}
FOUND_OPERATION: Example = {
    "id": ACTION_ID,
    "name": "createOrder",
    "method": "POST",
    "path": "/orders",
    "summary": "Create an order",
    "connectorId": CONNECTOR_ID,
    "connectorName": "Shop",
    "versionId": CONNECTOR_VERSION_ID,
    "version": "2026-11",
}
CONNECTOR: Example = {
    "id": CONNECTOR_ID,
    "organisationId": ORGANISATION_ID,
    "name": "Shop",
    "public": False,
    "tags": {},
    "protocol": "http",
    "authSchemeConfigs": [
        {
            "id": "key",
            "description": "",
            "validationMessages": [],
            "schemeType": "api-key",
            "apiKey": {"name": "X-API-Key", "in": "header"},
        }
    ],
    "connectionVariables": [{"name": "region", "value": "eu"}],
    "connections": [],
    "versions": [CONNECTOR_VERSION],
    "createdAt": TIME,
    "updatedAt": TIME,
    "baseUrl": "https://{region}.shop.example/v1",
}
DEFINITION: Example = {
    "id": DEFINITION_ID,
    "name": "Order",
    "accept": ["application/json"],
    "description": "An order",
    "url": "#/components/schemas/Order",
    "referencedBy": [],
}
DEFINITION_WITH_SCHEMA: Example = {
    **DEFINITION,
    "schema": {"type": "object", "properties": {"id": {"type": "string"}}},
}
_BODY: Example = {"id": DEFINITION_ID, "definition": {"$ref": "#/components/schemas/Order"}}
ACTION: Example = {
    "id": ACTION_ID,
    "errors": [],
    "type": "http",
    "name": "getOrder",
    "summary": "One order",
    "description": "",
    "method": "GET",
    "path": "/orders/{id}",
    "parameters": [{"name": "id", "in": "path", "required": True, "type": "string", "completion": []}],
    "responses": [{"status": 200, "id": "3B7Q9XKD2M0000000000000000", "definitions": [_BODY]}],
}
TRIGGER: Example = {
    "id": TRIGGER_ID,
    "errors": [],
    "type": "http",
    "name": "newOrder_post",
    "summary": "",
    "description": "",
    "method": "POST",
    "parameters": [],
    "requestBody": {"required": True, "definitions": [_BODY]},
    "responses": [],
}
SYSTEM_FROM_VERSION: Example = {
    **SYSTEM,
    "messages": [
        {
            "text": "login: The connector's auth scheme cannot be used as it is: oauth2.tokenUrl is missing; "
            "add the whole scheme to the system under this id",
            "severity": "warning",
        }
    ],
}
IMPORT_RESULT: Example = {
    "connector": CONNECTOR,
    "definitions": [DEFINITION],
    "actions": [ACTION],
    "triggers": [TRIGGER],
    "messages": [{"text": "The description names no server: set the base URL yourself", "severity": "info"}],
}


WEBHOOK: Example = {"url": "https://hooks.acme.example/tieline"}
CHANNEL_CREATE: Example = {
    "name": "Operations",
    "type": "webhook",
    "config": {**WEBHOOK, "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="},
}
CHANNEL: Example = {
    "id": CHANNEL_ID,
    "name": "Operations",
    "type": "webhook",
    "config": WEBHOOK,
    "ready": True,
    "message": "",
    "createdAt": TIME,
    "updatedAt": TIME,
}
NOTIFICATION_CREATE: Example = {
    "name": "Production to operations",
    "channel_id": CHANNEL_ID,
    "environment_id": ENVIRONMENT_ID,
    "events": ["deploy_failed", "environment_error"],
}
NOTIFICATION: Example = {
    "id": NOTIFICATION_ID,
    **NOTIFICATION_CREATE,
    "project_id": PROJECT_ID,
    "failure_rate": {"percent": 20, "minimum_runs": 10},
    "incidents": [
        {
            "event": "deploy_failed",
            "message": "Version order-sync-2 could not be deployed (VersionRefused).",
            "since": TIME,
            "notified_at": TIME,
        }
    ],
    "ready": True,
    "message": "",
    "created_at": TIME,
    "updated_at": TIME,
}

SESSION: Example = {
    "id": SESSION_ID,
    "user": {"externalId": "customer-17", "displayName": ""},
    "environmentId": ENVIRONMENT_ID,
    "templates": [],
    "allowedOrigins": ["https://app.example"],
    "returnUrl": "https://app.example/settings",
    "createdBy": "tieline:api-key:01jd3y000000000000000000rg:app",
    "createdAt": TIME,
    "expiresAt": "2026-11-21T10:30:00Z",
}


def page(*items: Example) -> Example:
    """A page of a list."""
    return {"totalCount": len(items), "items": list(items)}


SCHEDULER: Example = {
    "id": SCHEDULER_ID,
    "name": "products",
    "schedule": "*/15 6-22 * * MON-FRI",
    "url": f"/api/v2/o/{ORGANISATION_ID}/environments/{ENVIRONMENT_ID}/schedulers/{SCHEDULER_ID}",
    "environment_id": ENVIRONMENT_ID,
    "timezone": "Europe/Berlin",
    "activations": "static",
    "paused": False,
    "nextRun": "2026-11-23T05:00:00Z",
    "lastRun": "2026-11-20T21:45:00Z",
    "lastRunId": "01JD5Q2RK0ZX9KQW8T2V4N6P0M",
    "lastRunStatus": "succeeded",
}
LATE_SCHEDULER: Example = {
    "id": SCHEDULER_ID,
    "name": "products",
    "projectId": PROJECT_ID,
    "projectName": "Order sync",
    "environmentId": ENVIRONMENT_ID,
    "environmentName": "production",
    "missed": TIME,
}

KEY_OF_CI: Example = {
    "id": API_KEY_ID,
    "user": "ci",
    "groups": [],
    "subject": f"tieline:api-key:{ORGANISATION_ID.lower()}:ci",
    "role": "editor",
    "secretName": "api-key-5f0c6e1f4b7a9d2c3e8f5f0c6e1f4b7a9d2c3e8f",
    "createdAt": TIME,
    "expiresAt": "2027-02-19T10:00:00Z",
}
BINDING: Example = {
    "id": "01JD3YHJPEZX9KQW8T2V4N6P0N",
    "name": "ops",
    "roleKind": "ClusterRole",
    "roleName": "tieline-editor",
    "role": "editor",
    "subjects": [{"kind": "Group", "name": "login:ops"}],
    "createdAt": TIME,
}
CHANGE: Example = {
    "type": "change",
    "kind": "Project",
    "id": PROJECT_ID,
    "name": "Order sync",
    "manager": "argocd-controller",
    "external": True,
    "fields": ["spec.environments[name=production].suspended"],
    "reason": "",
    "message": "",
    "warning": False,
    "at": TIME,
}

EXAMPLES: Mapping[type[BaseModel], Any] = {
    access.ApiKeyCreate: {"user": "ci", "expiresAt": "2027-02-19T10:00:00Z"},
    access.NewApiKey: {
        **KEY_OF_CI,
        "key": f"tlk_{ORGANISATION_ID.lower()}_9ZkJ0c1mQ2xY7bTn5vW3rLs8dHf6gAe4iKp-uOq_wEM",
    },
    access.ApiKeyPage: page(KEY_OF_CI),
    access.RoleBindingPage: page(BINDING),
    access.ChangeList: {"items": [CHANGE]},
    Empty: {},
    AuthSchemeConfig: API_KEY,
    systems.SystemCreate: SYSTEM_CREATE,
    systems.SystemUpdate: {"name": "Shop (EU)"},
    systems.System: SYSTEM,
    systems.SystemPage: page(SYSTEM),
    connections.ConnectionCreate: CONNECTION_CREATE,
    connections.ConnectionUpdate: {"name": "Shop of the US"},
    connections.LinkBody: {"connectionTemplateId": TEMPLATE_ID},
    connections.Connection: CONNECTION,
    connections.ConnectionPage: page(CONNECTION),
    projects.ProjectCreate: {"name": "Order sync"},
    projects.ProjectClone: {"name": "Order sync of the EU"},
    projects.ProjectUpdate: {"name": "Order sync", "settings": {"acceptCodeChangesAutomatically": True}},
    projects.Project: PROJECT,
    projects.ProjectList: {"projects": [PROJECT_ITEM]},
    projects.FilesBody: FILES_BODY,
    projects.CurrentFiles: FILES_BODY,
    projects.DeployBody: {**FILES_BODY, "versionName": "First"},
    projects.FilesPatch: {
        "files": [*FILES, {"filename": "old.py", "content": None}],
        "labels": {"team": "ops"},
    },
    projects.VersionPage: page(VERSION),
    projects.Version: VERSION,
    versions.VersionCreate: {"name": "First", "description": "Says hello", **FILES_BODY},
    versions.VersionDiff: VERSION_DIFF,
    versions.ValidateBody: FILES_BODY,
    versions.ValidationAnswer: VALIDATION,
    projects.VariablesSchema: SCHEMA,
    schedules.Scheduler: SCHEDULER,
    schedules.SchedulerList: [SCHEDULER],
    schedules.LateSchedulerList: {"items": [LATE_SCHEDULER], "totalCount": 1},
    schedules.RunNow: {"user": "ann"},
    schedules.SchedulerUpdate: {"paused": True},
    projects.SchemaPatch: {"op": "add", "path": "/properties/region", "value": {"type": "string"}},
    environments.EnvironmentCreate: {"name": "staging"},
    environments.EnvironmentClone: {
        "oldEnvName": "production",
        "newEnvName": "staging",
        "cloneSystems": True,
        "copyStaticUserVariables": True,
    },
    environments.EnvironmentConfigUpdate: {
        "deploymentSpec": {"replicas": 2, "resources": {"limits": {"memory": "512Mi"}}},
        "env": [
            {"name": "LOG_LEVEL", "value": "debug"},
            {"name": "SMTP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "smtp", "key": "password"}}},
        ],
    },
    environments.WebhookCall: {
        "urlPath": "/hello",
        "method": "POST",
        "headers": {"Content-Type": "application/json"},
        "query": {"language": "en"},
        "body": {"name": "Ann"},
    },
    environments.WebhookAnswer: {
        "status": 200,
        "headers": {"content-type": "application/json; charset=utf-8"},
        "body": '{"hello": "world"}',
    },
    runs.Backlog: {
        "items": [
            {
                "environmentId": ENVIRONMENT_ID,
                "task": "order.created",
                "key": "customer-17",
                "status": "dead",
                "count": 3,
                "oldest": "2026-11-21T10:00:00.000000Z",
            }
        ]
    },
    connections.ConnectionUses: {
        "templates": [
            {
                "connectionTemplateId": TEMPLATE_ID,
                "name": "shop",
                "projectId": PROJECT_ID,
                "projectName": "Order sync",
                "environmentId": ENVIRONMENT_ID,
                "environmentName": "production",
            }
        ],
        "templateCount": 1,
        "activations": [],
        "activationCount": 0,
    },
    connections.ConnectionTest: {"method": "GET", "path": "/me"},
    connections.ConnectionTestResult: {
        "ok": True,
        "status": 200,
        "message": "The system answered 200: it was reached, and did not refuse the credentials",
    },
    environments.EnvironmentSync: {"sourceEnvName": "staging", "targetEnvName": "production"},
    project_logs.LogPage: LOGS,
    templates.TemplateCreate: TEMPLATE_CREATE,
    templates.TemplateUpdate: {"name": "shop-eu"},
    templates.ConnectionTemplate: TEMPLATE,
    templates.TemplatePage: page(TEMPLATE),
    metrics_summary.MetricsSummary: {
        "deployedProjects": {"current": 12, "past": 11},
        "totalExecutions": {"current": 48211, "past": 45960},
        "totalErrors": {"current": 17, "past": 40},
        "series": [{"start": "2026-11-21T10:00:00.000000Z", "executions": 48211, "errors": 17}],
    },
    me.Me: {
        "id": "login:ann",
        "name": "Ann",
        "kind": "user",
        "groups": ["login:ops", "system:authenticated"],
        "organisations": [
            {"id": ORGANISATION_ID, "name": "acme", "namespace": "acme", "role": "editor"},
        ],
    },
    connect_sessions.ConnectSessionCreate: {
        "user": {"externalId": "customer-17", "displayName": "Ann"},
        "environmentId": ENVIRONMENT_ID,
        "allowedOrigins": ["https://app.example"],
        "returnUrl": "https://app.example/settings",
    },
    connect_sessions.NewConnectSession: {
        "id": SESSION_ID,
        "token": "tcs_01jd3y8b2c8f3xk5d1vj7q4m6n_oUOkkbGFpXBPbJvLlYCLNbIIV2uQxKYSbXw3YoDHzsU",
        "url": "https://tieline.example/connect/01JD3Y8B2C8F3XK5D1VJ7Q4M6N/e030943c94322df58078a142619f723caf9da3cc"
        "#tcs_01jd3y8b2c8f3xk5d1vj7q4m6n_oUOkkbGFpXBPbJvLlYCLNbIIV2uQxKYSbXw3YoDHzsU",
        "expiresAt": TIME,
    },
    connect_sessions.CurrentConnectSession: {
        "id": SESSION_ID,
        "organisationId": ORGANISATION_ID,
        "user": {"externalId": "customer-17", "displayName": "Ann"},
        "project": {"id": PROJECT_ID, "name": "Order sync"},
        "environment": {"id": ENVIRONMENT_ID, "name": "production"},
        "returnUrl": "https://app.example/settings",
        "allowedOrigins": ["https://app.example"],
        "expiresAt": "2026-11-21T10:30:00Z",
        "templates": [TEMPLATE],
        "systems": [{"id": SYSTEM_ID, "name": "Shop"}],
        "connections": [CONNECTION],
        "variablesSchema": SCHEMA,
    },
    connect_sessions.ConnectSession: SESSION,
    connect_sessions.ConnectSessionPage: page(SESSION),
    users.UserCreate: {"externalId": "customer-17", "displayName": "Ann"},
    users.EndUser: USER,
    users.UserPage: {"totalCount": 1, "users": [USER]},
    users.ActivationCreate: ACTIVATION_CREATE,
    users.Activation: ACTIVATION,
    users.ActivationList: [ACTIVATION],
    users.Variables: {"region": "eu"},
    users.VariableValue: {"value": "eu"},
    notifications.NotificationChannelCreate: CHANNEL_CREATE,
    notifications.NotificationChannel: CHANNEL,
    notifications.NotificationChannelPage: page(CHANNEL),
    notifications.NotificationCreate: NOTIFICATION_CREATE,
    notifications.Notification: NOTIFICATION,
    notifications.NotificationPage: page(NOTIFICATION),
    store.StoreWrite: {"value": '{"status": "open"}', "options": {"expireIn": 604_800_000}},
    store.StoreCommitted: {"committed": True, "versionstamp": STORE_VERSION},
    store.StoreValue: {"value": '{"status": "open"}', "versionstamp": STORE_VERSION, "createdAt": TIME},
    store.StoreDelete: {"options": {"cascade": True}},
    store.StoreList: {"selector": {"prefix": ["orders"]}, "options": {"limit": 50}},
    store.StorePage: {"data": [{"key": ["orders", "A-1001"]}], "pagination": {}},
    store.StoreCountRequest: {"selector": {"prefix": ["orders"]}},
    store.StoreCount: {"count": 1},
    authorisations.OAuth2Initialise: OAUTH2_INITIALISE,
    connectors.ImportMetadata: IMPORT_METADATA,
    connectors.ImportResult: IMPORT_RESULT,
    connectors.ConnectorPage: page(CONNECTOR),
    connectors.Connector: CONNECTOR,
    connectors.ConnectorVersionPage: page(CONNECTOR_VERSION),
    connectors.ConnectorVersion: CONNECTOR_VERSION,
    connectors.ActionPage: page(ACTION),
    connectors.FoundOperation: FOUND_OPERATION,
    connectors.FoundOperationPage: page(FOUND_OPERATION),
    connectors.TriggerPage: page(TRIGGER),
    connectors.DefinitionPage: page(DEFINITION),
    connectors.DefinitionWithSchema: DEFINITION_WITH_SCHEMA,
    authorisations.OAuth1Initialise: OAUTH1_INITIALISE,
    systems.SystemWithMessages: SYSTEM_FROM_VERSION,
}
