"""What a pod is told about its environment: the internal endpoint's body, as a pure function of the caches."""

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from tieline_api.conversion import auth_schemes
from tieline_api.conversion.connections import scheme_item
from tieline_api.conversion.credential_values import from_secret
from tieline_api.conversion.projects import environment_status
from tieline_api.store.indexes import environment_names
from tieline_api.store.organisations import Organisation
from tieline_api.store.world import World
from tieline_core.ids import credential_id, environment_id, object_id, static_activation_id
from tieline_core.names import CREDENTIAL_TYPE, workload_name
from tieline_core.resources.auth_schemes import AuthSchemeType
from tieline_core.resources.connections import CredentialType
from tieline_core.systems import connection_base_url
from tieline_core.variables import in_effect

Obj = Mapping[str, Any]
Json = dict[str, Any]


def environment_of_workload(world: World, namespace: str, workload: str) -> tuple[Obj, str] | None:
    """The project and the environment that a workload (and its ServiceAccount) belongs to."""
    for project in world.referring(world.projects, "workload", namespace, workload):
        for name in environment_names(project):
            if workload_name(project["metadata"]["name"], name) == workload:
                return project, name
    return None


def configuration(world: World, organisation: Organisation, project: Obj, environment: str) -> Json:
    """Everything that code in this environment may know."""
    namespace, project_name = organisation.namespace, project["metadata"]["name"]
    project_id, schema = object_id(project), project["spec"].get("dynamicVariablesSchema")
    activation = world.static_activation(namespace, project_name, environment)
    templates = world.referring(world.templates, "environment", namespace, project_name, environment)
    # Where two templates have one name, the oldest has it.
    named = {template["spec"]["name"]: template for template in reversed(templates)}
    static = {
        name: (template, connection)
        for name, template in named.items()
        if not template["spec"].get("dynamic")
        and (connection := world.referred(world.connections, template, "connectionRef")) is not None
    }
    return {
        "organisationId": organisation.id,
        "projectId": project_id,
        "projectName": project["spec"]["name"],
        "environment": {"id": environment_id(project_id, environment), "name": environment},
        "activationId": object_id(activation)
        if activation is not None
        else static_activation_id(environment_id(project_id, environment)),
        "publicUrl": environment_status(project, environment).get("publicUrl") or "",
        "variables": in_effect(schema, activation) if activation is not None else {},
        "variablesSchema": schema or {},
        "connections": {
            name: _connection(world, connection, template)
            for name, (template, connection) in sorted(static.items())
        },
        "templates": {
            name: {
                "id": object_id(template),
                "dynamic": bool(template["spec"].get("dynamic")),
                "linked": name in static,
            }
            for name, template in sorted(named.items())
        },
    }


def user_activation(
    world: World, organisation: Organisation, project: Obj, environment: str, external_id: str
) -> Json | None:
    """What code in this environment may know when it runs for a user: the oldest activation of that user."""
    namespace, project_name = organisation.namespace, project["metadata"]["name"]
    users = world.referring(world.users, "external", namespace, external_id)
    if not users:
        return None
    user = users[0]
    for activation in world.referring(world.activations, "user", namespace, user["metadata"]["name"]):
        spec = activation["spec"]
        if spec["projectRef"]["name"] == project_name and spec["environment"] == environment:
            return {
                "id": object_id(activation),
                "user": {
                    "id": object_id(user),
                    "externalId": user["spec"]["externalId"],
                    "displayName": user["spec"].get("displayName") or "",
                },
                "variables": in_effect(project["spec"].get("dynamicVariablesSchema"), activation),
                "connections": dict(sorted(_connections_of(world, activation, user))),
            }
    return None


def _connections_of(world: World, activation: Obj, user: Obj) -> Iterator[tuple[str, Json]]:
    """The activation's connections by template name: dynamic templates of its own environment only.

    A connection that belongs to another user is left out, whatever the activation says.
    """
    namespace, spec = activation["metadata"]["namespace"], activation["spec"]
    for item in spec.get("connections") or ():
        template = world.templates.get(namespace, item["connectionTemplate"])
        connection = world.connections.get(namespace, item["connectionRef"]["name"])
        if template is None or connection is None or not template["spec"].get("dynamic"):
            continue
        if any(template["spec"][name] != spec[name] for name in ("projectRef", "environment")):
            continue
        owner = connection["spec"].get("endUserRef")
        if owner is None or owner["name"] == user["metadata"]["name"]:
            yield template["spec"]["name"], _connection(world, connection, template)


def _connection(world: World, connection: Obj, template: Obj) -> Json:
    spec = connection["spec"]
    system = world.referred(world.systems, connection, "systemRef")
    identifier = object_id(connection)
    credentials = [
        _credential(world, connection, item, scheme=scheme, identifier=identifier)
        for item in spec.get("credentials") or ()
        if (scheme := scheme_item(item, system)) is not None
    ]
    system_spec = system["spec"] if system else {}
    return {
        "id": identifier,
        "name": spec["name"],
        "baseUrl": connection_base_url(spec, system_spec),
        "templateId": object_id(template),
        "system": {
            "id": object_id(system) if system else "",
            "name": system_spec.get("name", ""),
            "domain": system_spec.get("domain", ""),
            "templateBaseUrl": system_spec.get("templateBaseUrl", ""),
        },
        "credentials": credentials,
    }


def _credential(world: World, connection: Obj, item: Obj, *, scheme: Obj, identifier: str) -> Json:
    namespace, kind = connection["metadata"]["namespace"], CredentialType(item["type"])
    stored = _stored(world, namespace, item.get("secretRef"))
    data = from_secret(kind, stored)
    if scheme["type"] == AuthSchemeType.OAUTH1:
        # Its signatures need the consumer's secret and the token's, which REST's credential does not have.
        consumer = _stored(world, namespace, (scheme.get("oauth1") or {}).get("secretRef"))
        data |= _texts({**consumer, **stored}, "consumerKey", "consumerSecret", "oauthTokenSecret")
    return {
        "id": credential_id(identifier, item),
        "type": kind.value,
        "authScheme": auth_schemes.without_references(scheme),
        "data": data,
    }


def _stored(world: World, namespace: str, reference: Obj | None) -> Mapping[str, str]:
    """The data of a Secret. Only those of our type: whoever may write Connections must not read any other."""
    secret = world.secrets.get(namespace, reference["name"]) if reference else None
    if secret is None or secret.get("type") != CREDENTIAL_TYPE:
        return {}
    return secret.get("data") or {}


def _texts(stored: Mapping[str, str], *keys: str) -> dict[str, str]:
    return {key: base64.b64decode(stored[key]).decode("utf-8", "replace") for key in keys if key in stored}
