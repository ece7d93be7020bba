"""Which activation a run for a user belongs to."""

from collections.abc import Mapping
from typing import Any

from tieline_api.cache.cluster_cache import ClusterCache


def activation_of_user(
    world: ClusterCache, namespace: str, project: str, environment: str, external_id: str
) -> Mapping[str, Any] | None:
    """The oldest activation of the user with this external id in an environment; None when there is none."""
    users = world.referring(world.users, "external", namespace, external_id)
    if not users:
        return None
    for activation in world.referring(world.activations, "user", namespace, users[0]["metadata"]["name"]):
        spec = activation["spec"]
        if spec["projectRef"]["name"] == project and spec["environment"] == environment:
            return activation
    return None
