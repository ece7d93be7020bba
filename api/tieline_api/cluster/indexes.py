"""Indexes of the caches: by id, and by what objects refer to. Keys begin with the namespace."""

import base64
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from tieline_core.credentials.linker import credential_ids, lent_certificates
from tieline_core.credentials.shared_accounts import account_in
from tieline_core.identity.ids import environment_id, object_id, static_activation_id
from tieline_core.identity.names import workload_name
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as kube
from tieline_core.oauth.token_secrets import holds_tokens
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    ConnectionTemplateObject,
    EndUserObject,
    ProjectObject,
    SystemObject,
)
from tieline_core.resources.projects import DEFAULT_ENVIRONMENT

Indexer = Callable[[ObjectView], Iterable[str]]


def key(namespace: str, *parts: str) -> str:
    """An index key; ``/`` appears in no name."""
    return "/".join((namespace, *parts))


def by_id(obj: ObjectView) -> Iterable[str]:
    """By the object's ULID."""
    return (key(obj["metadata"]["namespace"], object_id(obj)),)


def by_reference(field: str) -> Indexer:
    """By the name in ``spec.<field>.name``."""

    def index(obj: ObjectView) -> Iterable[str]:
        name = (obj["spec"].get(field) or {}).get("name")
        return (key(obj["metadata"]["namespace"], name),) if name else ()

    return index


def environment_names(project: ProjectObject) -> list[str]:
    """The names of a project's environments, with the default one for a project that names none."""
    return [item["name"] for item in project["spec"].get("environments") or ()] or [DEFAULT_ENVIRONMENT]


def by_environment_id(project: ProjectObject) -> Iterable[str]:
    """Projects by the ids of their environments."""
    identifier = object_id(project)
    namespace = project["metadata"]["namespace"]
    return [key(namespace, environment_id(identifier, name)) for name in environment_names(project)]


def by_static_activation(project: ProjectObject) -> Iterable[str]:
    """Projects by the ids of the activations of their environments themselves."""
    identifier = object_id(project)
    namespace = project["metadata"]["namespace"]
    return [
        key(namespace, static_activation_id(environment_id(identifier, name)))
        for name in environment_names(project)
    ]


def by_workload(project: ProjectObject) -> Iterable[str]:
    """Projects by the names of their environments' workloads (and so of their ServiceAccounts)."""
    namespace, project_name = project["metadata"]["namespace"], project["metadata"]["name"]
    return [key(namespace, workload_name(project_name, name)) for name in environment_names(project)]


def by_host(project: ProjectObject) -> Iterable[str]:
    """Projects by the hosts of their environments' public URLs, in lower case and without ports."""
    items = (project.get("status") or {}).get("environments") or ()
    return {host for item in items if (host := urlsplit(item.get("publicUrl") or "").hostname)}


def by_environment(obj: ConnectionTemplateObject | ActivationObject) -> Iterable[str]:
    """Templates and activations by project and environment."""
    spec = obj["spec"]
    return (key(obj["metadata"]["namespace"], spec["projectRef"]["name"], spec["environment"]),)


def by_credential_id(connection: ConnectionObject) -> Iterable[str]:
    """Connections by the ids of their credentials."""
    namespace = connection["metadata"]["namespace"]
    return [key(namespace, identifier) for identifier in credential_ids(connection)]


def by_environment_itself(activation: ActivationObject) -> Iterable[str]:
    """The static activations by project and environment."""
    return () if activation["spec"].get("endUserRef") else by_environment(activation)


def by_connections(activation: ActivationObject) -> Iterable[str]:
    """Activations by the connections that they have."""
    namespace = activation["metadata"]["namespace"]
    return [
        key(namespace, item["connectionRef"]["name"]) for item in activation["spec"].get("connections") or ()
    ]


def by_lent_certificate(connection: ConnectionObject) -> Iterable[str]:
    """Connections with certificates for others, by the system."""
    system = lent_certificates(connection)
    return (key(connection["metadata"]["namespace"], system),) if system else ()


def by_external_id(user: EndUserObject) -> Iterable[str]:
    """Users by the id that the customer's own application has for them."""
    return (key(user["metadata"]["namespace"], user["spec"]["externalId"]),)


def by_allowed_origin(session: ObjectView) -> Iterable[str]:
    """Secrets of connect sessions by the origins that browsers may send their tokens from."""
    origins = _session_content(session).get("origins")
    return [one for one in origins if isinstance(one, str)] if isinstance(origins, list) else ()


def by_session_user(session: ObjectView) -> Iterable[str]:
    """Secrets of connect sessions by their users' external ids."""
    external = _session_content(session).get("externalId")
    return (key(session["metadata"]["namespace"], external),) if isinstance(external, str) else ()


def _session_content(session: ObjectView) -> Mapping[str, Any]:
    """What the Secret of a connect session holds; nothing where it cannot be read."""
    try:
        content = orjson.loads(base64.b64decode(session["data"]["session"]))
    except (KeyError, TypeError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def by_uninstalling_client(system: SystemObject) -> Iterable[str]:
    """Systems by the clients of their auth schemes whose providers report uninstallations."""
    oauth2 = [item.get("oauth2", {}) for item in system["spec"].get("authSchemeConfigs") or ()]
    clients = [
        one.get("grant", {}).get("authorizationCode", {}).get("clientId")
        for one in oauth2
        if one.get("uninstall")
    ]
    return {client for client in clients if client}


def by_account(secret: ObjectView) -> Iterable[str]:
    """Secrets of tokens by the account that they are of."""
    account = account_in(secret) if holds_tokens(secret) else ""
    return (key(secret["metadata"]["namespace"], account),) if account else ()


OF: Mapping[Resource, Mapping[str, Callable[[Any], Iterable[str]]]] = {
    kube.SYSTEMS: {"uninstall": by_uninstalling_client},
    kube.CONNECTIONS: {
        "system": by_reference("systemRef"),
        "user": by_reference("endUserRef"),
        "credential": by_credential_id,
        "certificate": by_lent_certificate,
    },
    kube.CONNECTION_TEMPLATES: {
        "project": by_reference("projectRef"),
        "connection": by_reference("connectionRef"),
        "environment": by_environment,
    },
    kube.PROJECTS: {
        "environment": by_environment_id,
        "static": by_static_activation,
        "workload": by_workload,
        "host": by_host,
    },
    kube.PROJECT_VERSIONS: {"project": by_reference("projectRef")},
    kube.END_USERS: {"external": by_external_id},
    kube.ACTIVATIONS: {
        "environment": by_environment,
        "static": by_environment_itself,
        "user": by_reference("endUserRef"),
        "connection": by_connections,
    },
    kube.NOTIFICATIONS: {"project": by_reference("projectRef")},
    kube.CONNECTOR_VERSIONS: {"connector": by_reference("connectorRef")},
}
"""The indexes of each cache, beside that by id."""
