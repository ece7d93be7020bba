"""Environments that may sleep, by the host of a request."""

from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlsplit

from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.cluster.indexes import environment_names
from tieline_api.conversion.projects import environment_item, environment_status
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.identity.names import workload_name
from tieline_core.resources.objects import ProjectObject
from tieline_core.resources.projects import merged_fields
from tieline_core.resources.scaling import Scaling


@dataclass(frozen=True)
class Target:
    """An environment that may sleep."""

    namespace: str
    project: str
    environment: str
    """Its name."""
    id: str
    idle_seconds: int
    """Without work it sleeps after so many seconds."""


def target_of(project: ProjectObject, environment: str) -> Target | None:
    """An environment of a project; None for one that never sleeps, or is not to run."""
    item = environment_item(project, environment)
    runtimes = ((one.get("runtime") or {}).get("scaling") or {} for one in (project["spec"], item))
    scaling = Scaling.model_validate(merged_fields(*runtimes))
    if not scaling.may_sleep or item.get("suspended"):
        return None
    return Target(
        namespace=project["metadata"]["namespace"],
        project=project["metadata"]["name"],
        environment=environment,
        id=environment_id(object_id(project), environment),
        idle_seconds=scaling.idle_seconds,
    )


def target_by_id(cluster: ClusterCache, namespace: str, identifier: str) -> Target | None:
    """The environment with this id, if it may sleep."""
    for project in cluster.referring(cluster.projects, "environment", namespace, identifier):
        for name in environment_names(project):
            if environment_id(object_id(project), name) == identifier:
                return target_of(project, name)
    return None


def target_by_host(cluster: ClusterCache, host: str) -> Target | None:
    """The environment that a request to this host is for: that of its public URL, or of its Service's name."""
    name = host.rpartition("@")[2].partition(":")[0].lower().rstrip(".")
    for project, environment in (*_by_public_url(cluster, name), *_by_service(cluster, name)):
        if target := target_of(project, environment):
            return target
    return None


def _by_public_url(cluster: ClusterCache, host: str) -> Iterator[tuple[ProjectObject, str]]:
    for project in cluster.projects.by_index("host", host):
        for name in environment_names(project):
            url = str(environment_status(project, name).get("publicUrl") or "")
            if urlsplit(url).hostname == host:
                yield project, name


def _by_service(cluster: ClusterCache, host: str) -> Iterator[tuple[ProjectObject, str]]:
    workload, _, rest = host.partition(".")
    namespace = rest.partition(".")[0]
    if not namespace:
        return
    for project in cluster.referring(cluster.projects, "workload", namespace, workload):
        for name in environment_names(project):
            if workload_name(project["metadata"]["name"], name) == workload:
                yield project, name
