"""What an organisation uses of its quotas, and the deploy that REST refuses at once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tieline_api.engine.errors import EngineUnavailableError
from tieline_api.errors import ApiError
from tieline_api.handlers.environments import sync_environments
from tieline_api.http.operation import AnyCall
from tieline_api.schemas.environments import EnvironmentSync
from tieline_api.schemas.quotas import Quota
from tieline_api.views.quotas import require_place, usage
from tieline_core.resources.quotas import OrganisationQuotas, Quotas

ORGANISATION = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
MIB = 1 << 20


def project(**versions: str | None) -> dict[str, Any]:
    items = [
        {"name": name, **({"version": version} if version else {})} for name, version in versions.items()
    ]
    status = [{"name": name, "engineBytes": 64 * MIB} for name, version in versions.items() if version]
    return {
        "metadata": {"name": "orders", "namespace": "acme"},
        "spec": {"name": "Orders", "environments": items},
        "status": {"environments": status},
    }


class Engine:
    def __init__(self, *, away: bool = False) -> None:
        self._away = away

    async def stream_info(self, stream: str) -> Any:
        if self._away:
            raise EngineUnavailableError
        known = {f"state_{ORGANISATION}": (16 * MIB, 3 * MIB), f"history_{ORGANISATION}": (32 * MIB, 2 * MIB)}
        limit, stored = known.get(stream, (0, 0))
        return {"config": {"max_bytes": limit}, "state": {"bytes": stored}} if limit else None


def asked(*projects: dict[str, Any], problem: str = "", away: bool = False, **quotas: Any) -> AnyCall:
    found = OrganisationQuotas(quotas=Quotas(**quotas), problem=problem)

    async def used(_organisation: str) -> int:
        return 7

    cluster = SimpleNamespace(
        quotas=lambda _namespace, _defaults: found,
        projects=SimpleNamespace(list=lambda _namespace: projects),
        environments=SimpleNamespace(list=lambda _namespace: [{"status": {"replicas": 3}}, {}]),
    )
    platform = SimpleNamespace(
        cluster=cluster,
        settings=SimpleNamespace(quotas=Quotas()),
        engine=Engine(away=away),
        rate_quotas=SimpleNamespace(used=used),
        event_quotas=SimpleNamespace(used=used),
    )
    return cast(
        AnyCall,
        SimpleNamespace(platform=platform, organisation=SimpleNamespace(id=ORGANISATION), namespace="acme"),
    )


async def listed(call: AnyCall) -> dict[str, Quota]:
    return {one.name: one for one in (await usage(call)).items}


async def test_usage_says_what_is_left() -> None:
    call = asked(
        project(production="latest", staging=None), environments=3, replicas=2, state_storage=16 * MIB
    )
    found = await listed(call)
    assert (found["environments"].used, found["environments"].left) == (1, 2)
    assert (found["replicas"].used, found["replicas"].left) == (3, 0)
    assert (found["stateStorage"].used, found["stateStorage"].left) == (3 * MIB, 13 * MIB)
    assert (found["historyStorage"].used, found["historyStorage"].limit) == (2 * MIB, None)
    assert found["engineStorage"].used == (16 + 32 + 64) * MIB
    assert found["requestsPerSecond"].used == 7


async def test_usage_leaves_out_what_an_engine_that_is_away_would_say() -> None:
    found = await listed(asked(project(production="latest"), away=True, engine_storage=64 * MIB))
    assert (found["engineStorage"].used, found["engineStorage"].left) == (None, None)
    assert found["environments"].used == 1


def test_a_first_deploy_beyond_the_quota_is_refused() -> None:
    there = project(production="latest", staging=None)
    with pytest.raises(ApiError, match=r"1 environments of 1 \(quota environments\).*can raise it") as caught:
        require_place(asked(there, environments=1), there, "staging")
    assert (caught.value.status, caught.value.code) == (403, "quota_exceeded")
    require_place(asked(there, environments=1), there, "production")
    require_place(asked(there, environments=2), there, "staging")


def test_an_unreadable_annotation_refuses_first_deploys() -> None:
    there = project(production="latest", staging=None)
    with pytest.raises(ApiError, match="it is no YAML"):
        require_place(asked(there, problem="it is no YAML"), there, "staging")
    require_place(asked(there, problem="it is no YAML"), there, "production")


async def test_a_first_promotion_beyond_the_quota_is_refused() -> None:
    there = project(production="latest", staging=None)
    call = cast(Any, asked(there, environments=1))
    call.platform.cluster.require = lambda *_: there
    call.path = {"project_id": ORGANISATION}
    call.body = EnvironmentSync(source_env_name="production", target_env_name="staging")
    with pytest.raises(ApiError, match="quota environments"):
        await sync_environments(call)
