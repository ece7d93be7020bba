"""How many clients each environment's account takes, by the pods that the environment has or is to have."""

from collections.abc import Collection

from tieline_core.engine.streams import connections_of
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, PROJECT_LABEL
from tieline_core.kubernetes.resources import DEPLOYMENTS, ENGINE_SECRETS, PODS, Resource
from tieline_operator.apply.plan import Object
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import joined
from tieline_operator.engine.desired_streams import StreamKey


class ConnectionBounds:
    """What accounts are to take, and what the servers were given.

    A server cuts off clients that are above a new bound. So pods that end count as long as they are there.
    """

    def __init__(self, listers: Listers) -> None:
        self._listers = listers
        self._reported: dict[StreamKey, int] = {}

    def of(self, key: StreamKey) -> int:
        """The most connections of an environment's account."""
        asked = [int(one.get("spec", {}).get("replicas", 1)) for one in self._children(key, DEPLOYMENTS)]
        return connections_of(max([*asked, len(self._children(key, PODS))]))

    def reported(self, key: StreamKey, connections: int) -> None:
        """The servers have this bound."""
        self._reported[key] = connections

    def is_reported(self, key: StreamKey) -> bool:
        """Whether the servers have the bound that is right now."""
        return self._reported.get(key) == self.of(key)

    def is_too_low(self, key: StreamKey) -> bool:
        """Whether pods that are to come may find no room."""
        return key in self._reported and self._reported[key] < self.of(key)

    def forget_all_but(self, present: Collection[StreamKey]) -> None:
        """Forgets environments that are gone."""
        self._reported = {key: reported for key, reported in self._reported.items() if key in present}

    def _children(self, key: StreamKey, resource: Resource) -> list[Object]:
        secret = self._listers[ENGINE_SECRETS].get(key.namespace, key.secret)
        labels = (secret or {}).get("metadata", {}).get("labels", {})
        environment, project = labels.get(ENVIRONMENT_ID_LABEL), labels.get(PROJECT_LABEL)
        if environment is None or project is None:
            return []
        return [
            one
            for one in self._listers[resource].by_index("project", joined(key.namespace, project))
            if one["metadata"].get("labels", {}).get(ENVIRONMENT_ID_LABEL) == environment
        ]
