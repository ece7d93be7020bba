"""What a pod may publish in this second, by the quota of its organisation."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request

from tests.unit.api.pod_api.test_environment_of_workload import NAME, Projects, project
from tieline_api.dependencies import Dependencies
from tieline_api.errors import ApiError
from tieline_api.pod_api.event_rates import answer
from tieline_core.resources.quotas import OrganisationQuotas, Quotas
from tieline_protocol.event_rates import PATH, RateLease


class Cluster(Projects):
    def __init__(self, quotas: Quotas) -> None:
        super().__init__(project("orders"))
        self._quotas = OrganisationQuotas(quotas=quotas)

    def require_sync(self) -> None:
        """It is there."""

    async def await_secrets(self, _namespace: str) -> None:
        """They are there."""

    def organisation_of(self, namespace: str) -> Any:
        return SimpleNamespace(id="org", namespace=namespace)

    def quotas(self, _namespace: str, _defaults: Quotas) -> OrganisationQuotas:
        return self._quotas


async def asked(quotas: Quotas, *, user: str | None = f"system:serviceaccount:acme:{NAME}") -> RateLease:
    async def authenticate(_token: str | None) -> Any:
        return SimpleNamespace(username=user, uid="u") if user else None

    async def lease(organisation: str, quota: int) -> RateLease:
        assert organisation == "org"
        return RateLease(quota // 20, 0.5)

    platform = SimpleNamespace(
        cluster=Cluster(quotas),
        settings=SimpleNamespace(quotas=Quotas()),
        runtimes=SimpleNamespace(authenticate=authenticate),
        event_quotas=SimpleNamespace(lease=lease),
    )
    request = make_mocked_request("POST", PATH, headers={"Authorization": "Bearer token"})
    found = await answer(request, cast(Dependencies, platform))
    return RateLease.from_json(json.loads(cast(bytes, found.body)))


async def test_a_pod_gets_a_share_of_its_organisations_quota() -> None:
    assert await asked(Quotas(events_per_second=100)) == RateLease(5, 0.5)


async def test_a_pod_that_asks_without_a_quota_is_not_held_up() -> None:
    assert (await asked(Quotas())).count > 1000


@pytest.mark.parametrize("user", [None, "ann", "system:serviceaccount:acme:other"])
async def test_nobody_but_pods_of_environments_gets_a_share(user: str | None) -> None:
    with pytest.raises(ApiError):
        await asked(Quotas(events_per_second=100), user=user)
