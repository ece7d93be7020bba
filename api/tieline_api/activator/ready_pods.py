"""Where the ready pods of an environment are: asked of Kubernetes, once for all requests that wait for one."""

import asyncio
import random
import time
from collections.abc import Mapping
from typing import Any

from tieline_common.single_flight import SingleFlight
from tieline_core.identity.names import ENVIRONMENT_ID_LABEL, RUNS_CODE
from tieline_core.kubernetes import Kube, KubeError
from tieline_core.kubernetes.resources import PODS

_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 0.5
_ATONCE = 32
"""Environments that are asked for at the same time."""


class ReadyPods:
    """Finds them."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._asking: SingleFlight[tuple[str, str], list[str]] = SingleFlight()
        self._gate = asyncio.Semaphore(_ATONCE)

    async def one(self, namespace: str, environment: str, *, until: float) -> str | None:
        """The address of a ready pod of the environment with this id; None where there is none by then.

        ``until`` is a time of the monotonic clock.
        """
        pause = _FIRST_PAUSE
        while True:
            found = await self._asking.run(
                (namespace, environment), lambda: self._addresses(namespace, environment)
            )
            if found:
                return random.choice(found)  # noqa: S311  (spreads requests)
            left = until - time.monotonic()
            if left <= 0:
                return None
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _addresses(self, namespace: str, environment: str) -> list[str]:
        labels = {**RUNS_CODE, ENVIRONMENT_ID_LABEL: environment}
        selector = ",".join(f"{name}={value}" for name, value in labels.items())
        async with self._gate:
            try:
                pods = await self._kube.list(PODS, namespace, label_selector=selector)
            except KubeError:
                return []  # it is asked again
        return [address for pod in pods if (address := _address_if_ready(pod))]


def _address_if_ready(pod: Mapping[str, Any]) -> str | None:
    status = pod.get("status") or {}
    is_ready = any(
        one.get("type") == "Ready" and one.get("status") == "True" for one in status.get("conditions") or ()
    )
    if not is_ready or pod["metadata"].get("deletionTimestamp"):
        return None
    address: str | None = status.get("podIP")
    return address
