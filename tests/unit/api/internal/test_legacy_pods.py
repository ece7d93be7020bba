"""Whom the public port still answers: pods that an earlier release has started, and nobody else."""

from __future__ import annotations

from typing import Any

import pytest

from tieline_api.auth.authentication import Caller
from tieline_api.internal.legacy_pods import LegacyPods

EARLIER = "http://tieline-api.tieline-system.svc"
INTERNAL = "http://tieline-api-internal.tieline-system.svc"


class Pods:
    """Kubernetes with one pod."""

    def __init__(self, *env: dict[str, Any]) -> None:
        containers = [{"name": "sidecar"}, {"name": "runtime", "env": list(env)}]
        self.pod = {"metadata": {"name": "pod", "uid": "1"}, "spec": {"containers": containers}}
        self.asked: list[tuple[str | None, str | None]] = []

    async def list(
        self, resource: Any, namespace: str | None = None, *, field_selector: str | None = None
    ) -> list[dict[str, Any]]:
        self.asked.append((namespace, field_selector))
        return [self.pod] if field_selector == "metadata.name=pod" else []


def caller(**claims: str) -> Caller:
    names = {"name": "authentication.kubernetes.io/pod-name", "uid": "authentication.kubernetes.io/pod-uid"}
    return Caller(username="x", extra={names[key]: (value,) for key, value in claims.items()})


@pytest.mark.parametrize(
    ("env", "answered"),
    [
        ([{"name": "TIELINE_API_URL", "value": EARLIER}], True),
        ([{"name": "TIELINE_API_URL", "value": INTERNAL}], False),
        ([{"name": "TIELINE_API_URL", "value": f"{INTERNAL}.cluster.local:8081"}], False),
        ([{"name": "TIELINE_API_URL", "valueFrom": {}}], False),
        ([], False),
    ],
)
async def test_the_pods_specification_decides(env: list[dict[str, Any]], answered: bool) -> None:
    assert await LegacyPods(Pods(*env)).include(caller(name="pod", uid="1"), "acme") is answered


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({}, id="a token of no pod"),
        pytest.param({"name": "pod", "uid": "2"}, id="a pod that had the name before"),
        pytest.param({"name": "gone", "uid": "1"}, id="a pod that is gone"),
        pytest.param({"name": "pod"}, id="a token without the uid"),
    ],
)
async def test_a_token_of_another_pod_or_of_none_is_not_answered(claims: dict[str, str]) -> None:
    there = LegacyPods(Pods({"name": "TIELINE_API_URL", "value": EARLIER}))
    assert not await there.include(caller(**claims), "acme")


async def test_a_pod_is_looked_up_once_in_its_own_namespace() -> None:
    pods = Pods({"name": "TIELINE_API_URL", "value": EARLIER})
    there = LegacyPods(pods)
    for _ in range(3):
        assert await there.include(caller(name="pod", uid="1"), "acme")
    assert pods.asked == [("acme", "metadata.name=pod")]
