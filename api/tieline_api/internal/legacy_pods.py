"""Which pods may still ask for their configuration at the public port: those that were started with its URL.

Releases before the internal port gave project pods the URL of the public Service. An upgrade does not restart these
pods, so they go on asking there until they are replaced. A pod's specification never changes, so the answer is kept.
"""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from tieline_api.auth.authentication import Caller
from tieline_api.auth.ttl_cache import TtlCache
from tieline_core.identity.names import INTERNAL_API_SERVICE
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.resources import PODS

_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"
_URL_VARIABLE = "TIELINE_API_URL"
_SECONDS = 300.0
_KEPT = 10_000


class LegacyPods:
    """Tells pods of earlier releases from all others."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._cache: TtlCache[str, bool] = TtlCache(size=_KEPT, grace=_SECONDS)

    async def include(self, caller: Caller, namespace: str) -> bool:
        """Whether the caller's token belongs to a pod in ``namespace`` that was given the public URL.

        Raises KubeError when Kubernetes cannot be asked.
        """
        name, uid = _only(caller.extra, _POD_NAME), _only(caller.extra, _POD_UID)
        if not name or not uid:
            return False

        async def ask() -> tuple[bool, float]:
            found = await self._kube.list(PODS, namespace, field_selector=f"metadata.name={name}")
            return any(pod["metadata"]["uid"] == uid and _has_public_url(pod) for pod in found), _SECONDS

        return await self._cache.get(uid, ask)


def _has_public_url(pod: Mapping[str, Any]) -> bool:
    hosts = [urlsplit(url).hostname or "" for url in _urls(pod)]
    return bool(hosts) and not any(host.split(".")[0] == INTERNAL_API_SERVICE for host in hosts)


def _urls(pod: Mapping[str, Any]) -> Iterator[str]:
    for container in pod["spec"]["containers"]:
        for variable in container.get("env") or ():
            if variable["name"] == _URL_VARIABLE and "value" in variable:
                yield variable["value"]


def _only(extra: Mapping[str, tuple[str, ...]], key: str) -> str:
    values = extra.get(key, ())
    return values[0] if len(values) == 1 else ""
