"""A connection whose base URL leads to a private address says so, and shows nothing of the URL but its host."""

from __future__ import annotations

import pytest

from tests.unit.operator.objects import connection, secret, system
from tests.unit.operator.project_fixtures import reconciling
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.kubernetes import resources as r
from tieline_operator.config import Config
from tieline_protocol.egress import Egress


def _with(base_url: str = "", *, config: Config = CONFIG, **system_spec: str) -> ReconcileLoop:
    there = reconciling(config=config)
    there.world.put(r.SYSTEMS, system(**system_spec))
    there.world.put(r.SECRETS, secret())
    there.world.put(r.CONNECTIONS, connection(**({"baseUrl": base_url} if base_url else {})))
    return there


@pytest.mark.parametrize(
    ("base_url", "host"),
    [
        ("http://169.254.169.254/latest", "169.254.169.254"),
        ("https://tieline-api.tieline-system.svc:8080", "tieline-api.tieline-system.svc"),
        ("http://localhost:9200/", "localhost"),
        ("http://[::1]:80/", "::1"),
    ],
)
async def test_a_private_host_is_refused(base_url: str, host: str) -> None:
    there = _with(base_url)
    await there.until_quiet()
    status, reason, message = there.ready(r.CONNECTIONS, "login")
    assert (status, reason) == ("False", "BaseUrlRefused")
    assert f"leads to {host}," in message
    assert "TIELINE_EGRESS_ALLOWED" in message


async def test_the_message_has_nothing_of_the_url_but_the_host() -> None:
    there = _with("https://10.0.0.1/hook?token=abc-secret")
    await there.until_quiet()
    _, reason, message = there.ready(r.CONNECTIONS, "login")
    assert reason == "BaseUrlRefused"
    assert "abc-secret" not in message
    assert "/hook" not in message


async def test_a_private_host_of_the_system_is_refused() -> None:
    there = _with(templateBaseUrl="http://billing.internal.svc")
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[:2] == ("False", "BaseUrlRefused")


@pytest.mark.parametrize("base_url", ["https://api.shop.example", "https://1.1.1.1/"])
async def test_a_public_host_is_used(base_url: str) -> None:
    there = _with(base_url)
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"


async def test_what_the_administrator_has_opened_is_used() -> None:
    opened = CONFIG.model_copy(update={"egress": Egress.parse(allowed=["billing.acme.svc"])})
    there = _with("http://billing.acme.svc", config=opened)
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"
