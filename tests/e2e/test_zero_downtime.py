"""A deploy, a rollback and a pod's eviction while callers never rest: not one request is lost."""

from __future__ import annotations

import time

import pytest

from tests.harness.clients.constant_load import ConstantLoad, code_for_load
from tests.harness.cluster.deployed_platform import Tenant, project
from tests.harness.cluster.evictions import evict, serves
from tests.harness.session.measurements import Measured
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e


def _serving_pods(tenant: Tenant) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in tenant.pods("orders") if serves(pod))


def _evict_one(tenant: Tenant, *, replicas: int) -> None:
    """Returns once the pod is gone, and as many as before serve."""
    evicted = _serving_pods(tenant)[0]
    assert evict(tenant.kubectl, tenant.namespace, evicted)

    def replaced() -> bool:
        serving = _serving_pods(tenant)
        left = [pod["metadata"]["name"] for pod in tenant.pods("orders")]
        return len(serving) == replicas and evicted not in left

    eventually("the evicted pod replaced", replaced)


def _until_only(tenant: Tenant, pods: int) -> None:
    """The old version's pods have ended too."""
    eventually("the old pods ended", lambda: len(tenant.pods("orders")) == pods)


def test_no_request_is_lost_by_a_deploy_a_rollback_or_an_eviction(tenant: Tenant, measured: Measured) -> None:
    tenant.apply(project(code_for_load("one")))
    first = tenant.until("orders", "running")
    with ConstantLoad(first["publicUrl"]) as load:
        told: list[str] = []

        def done(what: str) -> None:
            told.append(f"{what}: {load.total} answered, {len(load.lost)} lost")

        # One pod alone: the next one is ready before it stops taking requests.
        tenant.apply(project(code_for_load("two")))
        eventually("version two answers", lambda: load.answered["two"])
        _until_only(tenant, 1)
        done("deploy, one replica")
        environments = [{"name": "production", "version": first["version"]}]
        before = load.answered["one"]
        tenant.apply(project(code_for_load("two"), environments=environments))
        eventually("version one answers again", lambda: load.answered["one"] > before)
        _until_only(tenant, 1)
        done("rollback, one replica")
        _evict_one(tenant, replicas=1)
        done("eviction, one replica")

        tenant.apply(project(code_for_load("two"), environments=environments, runtime={"replicas": 2}))
        eventually("two replicas", lambda: len(_serving_pods(tenant)) == 2)
        _evict_one(tenant, replicas=2)
        done("scaling out and an eviction, two replicas")
        time.sleep(1)  # callers with a kept connection have had time to come back by it
    measured("\n".join(told))
    assert not load.lost, (len(load.lost), load.lost[:20], told)
    assert load.total > 2000, told
    assert load.answered["slow one"] > 10
