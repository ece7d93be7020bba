"""Which Secrets an environment's configuration is made of, so that they can be read before it is."""

from collections.abc import Iterator

from tieline_api.cache.cluster_cache import ClusterCache
from tieline_api.store.credential_secrets import secret_references
from tieline_core.objects import ObjectView


def secrets_of_environment(
    world: ClusterCache, namespace: str, project: ObjectView, environment: str
) -> set[str]:
    """The names of the Secrets behind an environment's static connections."""
    templates = world.referring(
        world.templates, "environment", namespace, project["metadata"]["name"], environment
    )
    connections = (world.referred(world.connections, template, "connectionRef") for template in templates)
    return {name for one in connections if one for name in secrets_of_connection(world, one)}


def secrets_of_user(world: ClusterCache, namespace: str, external_id: str) -> set[str]:
    """The names of the Secrets behind all connections in a user's activations."""
    found: set[str] = set()
    for user in world.referring(world.users, "external", namespace, external_id)[:1]:
        for activation in world.referring(world.activations, "user", namespace, user["metadata"]["name"]):
            for item in activation["spec"].get("connections") or ():
                connection = world.connections.get(namespace, item["connectionRef"]["name"])
                found.update(secrets_of_connection(world, connection) if connection else ())
    return found


def secrets_of_connection(world: ClusterCache, connection: ObjectView) -> Iterator[str]:
    """The names of the Secrets that a connection, or its system, refers to."""
    yield from secret_references(connection)
    system = world.referred(world.systems, connection, "systemRef")
    if system is not None:
        yield from secret_references(system)
