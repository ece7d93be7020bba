"""What the API answers while it may not read an organisation's Secrets."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.harness.session.waiting import until
from tests.unit.kubernetes.fake_api_server import FakeApiServer, refuse
from tieline_api.cluster import cluster_cache
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.errors import ApiError
from tieline_core.identity.ids import ORGANISATION_LABEL
from tieline_core.identity.names import API_KEY_TYPE
from tieline_core.kubernetes import informer
from tieline_core.kubernetes.resources import SECRETS

ACME = "01M80JXM4R3ZHNXPA4H0RGWEFA"


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeApiServer]:
    monkeypatch.setattr(informer, "_FIRST_BACKOFF", 0.005)
    monkeypatch.setattr(informer, "_LONGEST_BACKOFF", 0.01)
    monkeypatch.setattr(cluster_cache, "_NEW_SECONDS", 0.02)
    async with FakeApiServer.running(SECRETS) as running:
        yield running


async def test_calls_of_an_organisation_are_refused_until_its_secrets_are_read(server: FakeApiServer) -> None:
    server.put("key", type=API_KEY_TYPE)
    server.answers.extend(refuse(403, "Forbidden") for _ in range(200))
    async with server.client() as kube:
        cluster = ClusterCache(kube)
        cluster._synced = True
        cluster.namespaces._listed.set()
        cluster.secret_informers.start()
        labels = {ORGANISATION_LABEL: ACME}
        metadata = {"name": "acme", "uid": "acme", "resourceVersion": "1", "labels": labels}
        cluster.namespaces.observe({"metadata": {**metadata, "creationTimestamp": "2026-01-01T00:00:00Z"}})
        for ask in (cluster.readable_namespace_of, cluster.require_secrets):
            with pytest.raises(ApiError) as refused:
                ask(ACME)
            assert refused.value.status == 503
        with pytest.raises(ApiError, match="tieline-secrets"):
            await cluster.await_secrets("acme")

        server.answers.clear()
        await until(lambda: cluster.secret_informers.knows("acme"))
        await cluster.await_secrets("acme")
        assert cluster.readable_namespace_of(ACME) == "acme"
        assert cluster.api_keys.get("acme", "key")

        cluster.namespaces.forget({"metadata": metadata})
        await until(lambda: not cluster.secret_informers.follows("acme"))
        await cluster.secret_informers.stop()


async def test_a_namespace_that_is_being_deleted_delays_no_start(server: FakeApiServer) -> None:
    async with server.client() as kube:
        cluster = ClusterCache(kube)
        cluster.namespaces._listed.set()
        for name, more in (("acme", {}), ("going", {"deletionTimestamp": "2026-01-02T00:00:00Z"})):
            labels = {ORGANISATION_LABEL: ACME if name == "acme" else ACME[:-1] + "B"}
            metadata = {"name": name, "uid": name, "resourceVersion": "1", "labels": labels, **more}
            created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
            cluster.namespaces.observe({"metadata": {**metadata, **created}})
        await until(lambda: cluster.secret_informers.follows("acme"))
        assert not cluster.secret_informers.follows("going")
