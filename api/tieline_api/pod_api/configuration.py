"""What a pod receives about its environment: the internal endpoint's body, as a pure function of the caches."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from tieline_api.activator.targets import target_of
from tieline_api.activator.wakes import report_seconds
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.indexes import environment_names
from tieline_api.cluster.organisations import Organisation
from tieline_api.conversion.projects import environment_item, environment_status
from tieline_api.conversion.schedules import schedule_controls
from tieline_api.credentials.tokens_in_use import ConnectionTokens
from tieline_api.pod_api import configuration_sources
from tieline_api.pod_api.pod_credentials import credential
from tieline_core.credentials.refusals import fingerprint, refusals_of
from tieline_core.identity.claims import name_claim
from tieline_core.identity.ids import environment_id, object_id, static_activation_id
from tieline_core.identity.names import workload_name
from tieline_core.kubernetes import resources as r
from tieline_core.objects import Json, ObjectView
from tieline_core.resources.activations import in_effect
from tieline_core.resources.limits import limits_in_effect
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    ConnectionTemplateObject,
    EndUserObject,
    ProjectObject,
)
from tieline_core.systems import connection_base_url

Fits = Callable[[Mapping[str, Any] | None, Mapping[str, Any]], bool]
"""Whether variables are known to follow a schema."""


def environment_of_workload(
    cluster: ClusterCache, namespace: str, workload: str
) -> tuple[ProjectObject, str] | None:
    """The project and the environment that a workload (and its ServiceAccount) belongs to."""
    for project in cluster.referring(cluster.projects, "workload", namespace, workload):
        for name in environment_names(project):
            if workload_name(project["metadata"]["name"], name) == workload:
                return project, name
    return None


def configuration(
    cluster: ClusterCache,
    organisation: Organisation,
    project: ProjectObject,
    environment: str,
    *,
    fits: Fits,
    version: str = "",
) -> Json:
    """Everything that code in this environment may know, and of which changes it is made.

    Where the activation's variables are not known to fit (``fits``), these are the last valid ones.
    ``version`` is the version that the pod runs: where it is the wanted one, it is a part of the project's change.
    """
    namespace, project_name = organisation.namespace, project["metadata"]["name"]
    project_id, schema = object_id(project), project["spec"].get("dynamicVariablesSchema")
    activation = cluster.static_activation(namespace, project_name, environment)
    templates = cluster.referring(cluster.templates, "environment", namespace, project_name, environment)
    # Where two templates claim one name, the first claim has it.
    named = {
        template["spec"]["name"]: template for template in sorted(templates, key=name_claim, reverse=True)
    }
    static = {
        name: (template, connection)
        for name, template in named.items()
        if not template["spec"].get("dynamic")
        and (connection := cluster.referred(cluster.connections, template, "connectionRef")) is not None
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
        "variables": _variables(project, activation, fits) if activation is not None else {},
        "variablesSchema": schema or {},
        "settings": {"keepInputs": keeps_inputs(project), **_activity(project, environment)},
        "schedules": schedule_controls(project, environment),
        "connections": {
            name: connection_body(cluster, connection, template)
            for name, (template, connection) in sorted(static.items())
        },
        "changes": {
            **configuration_sources.of_project(cluster, project, environment, version),
            **configuration_sources.of_objects(
                [
                    (r.ACTIVATIONS, activation),
                    *((r.CONNECTION_TEMPLATES, template) for template in named.values()),
                    *configuration_sources.behind(cluster, (connection for _, connection in static.values())),
                ]
            ),
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


def _activity(project: ProjectObject, environment: str) -> Json:
    """How often pods report whether they work, where the environment may sleep."""
    target = target_of(project, environment)
    return {"activitySeconds": report_seconds(target.idle_seconds)} if target else {}


def keeps_inputs(project: ProjectObject) -> bool:
    """Whether the run history keeps the inputs of the project's direct runs."""
    return bool((project["spec"].get("settings") or {}).get("keepInputs"))


def user_activation(
    cluster: ClusterCache,
    organisation: Organisation,
    project: ProjectObject,
    environment: str,
    external_id: str,
    *,
    fits: Fits,
) -> Json | None:
    """What code in this environment may know when it runs for a user: the oldest activation of that user."""
    namespace, project_name = organisation.namespace, project["metadata"]["name"]
    activation = cluster.user_activation(namespace, project_name, environment, external_id)
    user = cluster.referred(cluster.users, activation, "endUserRef") if activation else None
    if activation is None or user is None:
        return None
    links = list(_links(cluster, activation, user))
    objects = [
        (r.ACTIVATIONS, activation),
        (r.END_USERS, user),
        *((r.CONNECTION_TEMPLATES, template) for template, _ in links),
        *configuration_sources.behind(cluster, (connection for _, connection in links)),
    ]
    return {
        "id": object_id(activation),
        "user": {
            "id": object_id(user),
            "externalId": user["spec"]["externalId"],
            "displayName": user["spec"].get("displayName") or "",
        },
        "variables": _variables(project, activation, fits),
        "connections": {
            template["spec"]["name"]: connection_body(cluster, connection, template)
            for template, connection in links
        },
        "changes": configuration_sources.of_objects(objects),
    }


def _variables(project: ProjectObject, activation: ActivationObject, fits: Fits) -> Json:
    schema = project["spec"].get("dynamicVariablesSchema")
    return in_effect(activation, fit=fits(schema, activation["spec"].get("variables") or {}))


def connection_in_use(
    cluster: ClusterCache,
    organisation: Organisation,
    project: ProjectObject,
    environment: str,
    identifier: str,
) -> ConnectionObject | None:
    """The connection with this id, if code in this environment may use it: linked, or a user's."""
    namespace, project_name = organisation.namespace, project["metadata"]["name"]
    connection = cluster.find(cluster.connections, namespace, identifier)
    if connection is None:
        return None
    name = connection["metadata"]["name"]
    here = {"projectRef": {"name": project_name}, "environment": environment}
    for template in cluster.referring(cluster.templates, "connection", namespace, name):
        if not template["spec"].get("dynamic") and here.items() <= template["spec"].items():
            return connection
    for activation in cluster.referring(cluster.activations, "connection", namespace, name):
        user = cluster.referred(cluster.users, activation, "endUserRef")
        if user is None or not here.items() <= activation["spec"].items():
            continue
        if any(found["metadata"]["name"] == name for _, found in _links(cluster, activation, user)):
            return connection
    return None


def _links(
    cluster: ClusterCache, activation: ActivationObject, user: EndUserObject
) -> Iterator[tuple[ConnectionTemplateObject, ConnectionObject]]:
    """The activation's connections with their templates: dynamic ones of its own environment only.

    A connection that belongs to another user is left out, whatever the activation says.
    """
    namespace, spec = activation["metadata"]["namespace"], activation["spec"]
    for item in spec.get("connections") or ():
        template = cluster.templates.get(namespace, item["connectionTemplate"])
        connection = cluster.connections.get(namespace, item["connectionRef"]["name"])
        if template is None or connection is None or not template["spec"].get("dynamic"):
            continue
        if any(template["spec"][name] != spec[name] for name in ("projectRef", "environment")):
            continue
        owner = connection["spec"].get("endUserRef")
        if owner is None or owner["name"] == user["metadata"]["name"]:
            yield template, connection


def connection_body(
    cluster: ClusterCache, connection: ConnectionObject, template: ConnectionTemplateObject | None = None
) -> Json:
    """What a pod receives of a connection, with the values of its credentials."""
    spec, tokens = connection["spec"], ConnectionTokens(cluster, connection)
    system, system_spec = tokens.system, tokens.system_spec
    identifier = object_id(connection)
    now = datetime.now(UTC)
    wanted = bool(template and template["spec"].get("exposeToCode"))
    exposed = wanted and bool(spec.get("exposeToCode"))
    credentials = [
        credential(tokens, item, scheme=scheme, identifier=identifier, now=now, exposed=exposed)
        for item in spec.get("credentials") or ()
        if (scheme := tokens.of(item["id"]).scheme) is not None
    ]
    return {
        "id": identifier,
        "name": spec["name"],
        "baseUrl": connection_base_url(spec, system_spec, tokens.kept),
        "templateId": object_id(template) if template else "",
        "system": {
            "id": object_id(system) if system else "",
            "name": system_spec.get("name", ""),
            "domain": system_spec.get("domain", ""),
            "templateBaseUrl": system_spec.get("templateBaseUrl", ""),
        },
        "credentials": credentials,
        # Absent: the template does not ask for it. False: the connection is not open to code.
        **({"exposeToCode": exposed} if wanted else {}),
        # Reports name the credentials that they are about.
        "fingerprint": fingerprint(connection),
        # So that whoever is answered well next says so.
        **({"refused": True} if is_refused(connection) else {}),
        **_limits(cluster, connection, system_spec),
        **{name: system_spec[name] for name in ("lists", "graphqlPath") if system_spec.get(name)},
    }


def is_refused(connection: ConnectionObject) -> bool:
    """Whether the connection's system refuses its credentials, as far as pods have reported."""
    known = refusals_of(connection)
    return known is not None and known.accepted is None


def _limits(cluster: ClusterCache, connection: ConnectionObject, system_spec: ObjectView) -> Json:
    limits = limits_in_effect(connection["spec"], system_spec)
    return {"limits": {**limits, "pods": pods_of_connection(cluster, connection)}} if limits else {}


def pods_of_connection(cluster: ClusterCache, connection: ConnectionObject) -> int:
    """How many pods may use a connection: those of all environments that are linked to it, or whose users have it."""
    namespace, name = connection["metadata"]["namespace"], connection["metadata"]["name"]
    users = (
        *cluster.referring(cluster.templates, "connection", namespace, name),
        *cluster.referring(cluster.activations, "connection", namespace, name),
    )
    environments = {(user["spec"]["projectRef"]["name"], user["spec"]["environment"]) for user in users}
    pods = 0
    for project_name, environment in environments:
        project = cluster.projects.get(namespace, project_name)
        pods += _replicas(cluster, project, environment) if project else 0
    return max(pods, 1)


def _replicas(cluster: ClusterCache, project: ProjectObject, environment: str) -> int:
    spec = project["spec"]
    own = environment_item(project, environment)
    if own.get("suspended"):
        return 0
    for runtime in (own.get("runtime") or {}, spec.get("runtime") or {}):
        if runtime.get("replicas") is not None:
            return int(runtime["replicas"])
    return cluster.scale(project, environment)
