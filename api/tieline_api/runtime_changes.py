"""Which changes a pod's configuration is made of: pods log them, so that a change can be followed to its end."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tieline_api.conversion.projects import environment_status
from tieline_api.runtime_secrets import secrets_of_connection
from tieline_api.store.world import World
from tieline_core.ids import change_id
from tieline_core.kube import Resource
from tieline_core.kube import resources as r
from tieline_core.names import CREDENTIAL_TYPE

Obj = Mapping[str, Any]
Link = tuple[Obj, Obj]
"""A connection template, and the connection that stands for it."""


def of_objects(objects: Iterable[tuple[Resource, Obj | None]]) -> dict[str, str]:
    """The changes by the objects' names, as ``connections/shop``; those that are not there are left out."""
    return {
        f"{resource.plural}/{obj['metadata']['name']}": change_id(obj)
        for resource, obj in objects
        if obj is not None
    }


def of_project(project: Obj, environment: str, version: str) -> dict[str, str]:
    """The project's change, for a pod whose ``version`` is the one that it asks for.

    It is the generation that the operator has got to: before that nobody knows which version a newer one asks for.
    """
    observed = (project.get("status") or {}).get("observedGeneration")
    wanted = environment_status(project, environment).get("desiredVersion")
    if not observed or not version or version != wanted:
        return {}
    return {f"{r.PROJECTS.plural}/{project['metadata']['name']}": change_id(project, observed)}


def behind(world: World, links: Iterable[Link]) -> Iterator[tuple[Resource, Obj | None]]:
    """What linked connections are made of. Secrets of tokens are not among it: nobody changes them by hand."""
    for template, connection in links:
        yield r.CONNECTION_TEMPLATES, template
        yield r.CONNECTIONS, connection
        yield r.SYSTEMS, world.referred(world.systems, connection, "systemRef")
        for name in sorted(secrets_of_connection(world, connection)):
            secret = world.secrets.get(connection["metadata"]["namespace"], name)
            yield r.SECRETS, secret if secret and secret.get("type") == CREDENTIAL_TYPE else None
