"""What a pod's configuration is made of: the Secrets to read before, and the changes that pods log."""

from collections.abc import Iterable, Iterator

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.conversion.projects import environment_status
from tieline_api.credentials.credential_secrets import secret_references
from tieline_core.identity.ids import change_id
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import ConnectionObject, ProjectObject


def of_objects(objects: Iterable[tuple[Resource, ObjectView | None]]) -> dict[str, str]:
    """The changes by the objects' names, as ``connections/shop``; those that are not there are left out."""
    return {
        f"{resource.plural}/{obj['metadata']['name']}": change_id(obj)
        for resource, obj in objects
        if obj is not None
    }


def of_project(
    cluster: ClusterCache, project: ProjectObject, environment: str, version: str
) -> dict[str, str]:
    """The ``version`` that a pod says it runs, and the project's change where that one asks for this version.

    It is the generation that the operator has got to: before that nobody knows which version a newer one asks for.
    """
    name = project["metadata"]["name"]
    running = cluster.versions.get(project["metadata"]["namespace"], version)
    if running is None or running["spec"]["projectRef"]["name"] != name:
        return {}
    found = of_objects([(r.PROJECT_VERSIONS, running)])
    observed = (project.get("status") or {}).get("observedGeneration")
    if observed and environment_status(project, environment).get("desiredVersion") == version:
        found[f"{r.PROJECTS.plural}/{name}"] = change_id(project, observed)
    return found


def behind(
    cluster: ClusterCache, connections: Iterable[ConnectionObject]
) -> Iterator[tuple[Resource, ObjectView | None]]:
    """What connections are made of. Secrets of tokens are not among it: nobody changes them by hand."""
    for connection in connections:
        yield r.CONNECTIONS, connection
        yield r.SYSTEMS, cluster.referred(cluster.systems, connection, "systemRef")
        for name in sorted(secrets_of_connection(cluster, connection)):
            secret = cluster.secrets.get(connection["metadata"]["namespace"], name)
            yield r.SECRETS, secret if secret and secret.get("type") == CREDENTIAL_TYPE else None


def secrets_of_environment(
    cluster: ClusterCache, namespace: str, project: ProjectObject, environment: str
) -> set[str]:
    """The names of the Secrets behind an environment's static connections."""
    templates = cluster.referring(
        cluster.templates, "environment", namespace, project["metadata"]["name"], environment
    )
    connections = (cluster.referred(cluster.connections, template, "connectionRef") for template in templates)
    return {name for one in connections if one for name in secrets_of_connection(cluster, one)}


def secrets_of_user(cluster: ClusterCache, namespace: str, external_id: str) -> set[str]:
    """The names of the Secrets behind all connections in a user's activations."""
    found: set[str] = set()
    for user in cluster.referring(cluster.users, "external", namespace, external_id)[:1]:
        for activation in cluster.referring(cluster.activations, "user", namespace, user["metadata"]["name"]):
            for item in activation["spec"].get("connections") or ():
                connection = cluster.connections.get(namespace, item["connectionRef"]["name"])
                found.update(secrets_of_connection(cluster, connection) if connection else ())
    return found


def secrets_of_connection(cluster: ClusterCache, connection: ConnectionObject) -> Iterator[str]:
    """The names of the Secrets that a connection, or its system, refers to."""
    yield from secret_references(connection)
    system = cluster.referred(cluster.systems, connection, "systemRef")
    if system is not None:
        yield from secret_references(system)
