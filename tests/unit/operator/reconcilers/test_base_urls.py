"""A connection whose base URL leads to a private address says so, and shows nothing of the URL but its host."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.operator.objects import NOW, connection, secret, system
from tests.unit.operator.project_fixtures import reconciling
from tests.unit.operator.reconcile_loop import CONFIG, ReconcileLoop
from tieline_core.kubernetes import resources as r
from tieline_core.resources.connections import ConnectionSpec
from tieline_core.resources.fields import Shape
from tieline_core.resources.systems import SystemSpec
from tieline_operator.config import Config
from tieline_operator.reconcilers.connections import ConnectionReconciler
from tieline_protocol.egress import Egress


def _with(base_url: str = "", *, config: Config = CONFIG, **system_spec: Any) -> ReconcileLoop:
    there = reconciling(config=config)
    there.cluster.put(r.SYSTEMS, system(**system_spec))
    there.cluster.put(r.SECRETS, secret())
    there.cluster.put(r.CONNECTIONS, connection(**({"baseUrl": base_url} if base_url else {})))
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


@pytest.mark.parametrize("value", ["evil.com/", "a.b", "x@evil", "..", "shöp", "a" * 300, "%2e"])
async def test_a_wrong_value_by_kubectl_says_what_to_do(value: str) -> None:
    there = _with(
        templateBaseUrl="https://{shop}.shop.example", inputs=[{"name": "shop", "example": "my-shop"}]
    )
    there.cluster.edited(r.CONNECTIONS, "login")["spec"]["variables"] = {"shop": value}
    await there.until_quiet()
    status, reason, message = there.ready(r.CONNECTIONS, "login")
    assert (status, reason) == ("False", "VariableInvalid")
    assert "my-shop" in message
    assert value not in message
    there.cluster.edited(r.CONNECTIONS, "login")["spec"]["variables"] = {"shop": "mine"}
    await there.until_quiet()
    assert there.ready(r.CONNECTIONS, "login")[0] == "True"


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"templateBaseUrl": "https://{shop}", "inputs": [{"name": "shop"}]}, "hosts of its input"),
        ({"inputs": [{"name": "shop", "pattern": "^(?=a)$"}]}, "correct it"),
        ({"inputs": [{"name": "shop"}], "variables": {"shop": "a/b"}}, "default"),
    ],
)
async def test_a_system_says_what_is_wrong_with_its_inputs(spec: dict[str, Any], says: str) -> None:
    there = _with(**spec)
    await there.until_quiet()
    status, reason, message = there.ready(r.SYSTEMS, "shop")
    assert (status, reason) == ("False", "InputInvalid")
    assert says in message


async def test_specs_become_json_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be large, and each part of the plan asks for them."""
    there = _with(
        templateBaseUrl="https://{shop}.shop.example", variables={"shop": "a"}, inputs=[{"name": "shop"}]
    )
    await there.until_quiet()
    dumped: list[str] = []
    plain = Shape.to_dict

    def counted(spec: Shape) -> dict[str, Any]:
        dumped.append(type(spec).__name__)
        return plain(spec)

    for model in (SystemSpec, ConnectionSpec):
        monkeypatch.setattr(model, "to_dict", counted)
    cluster = there.cluster
    await ConnectionReconciler().reconcile(cluster, cluster[r.CONNECTIONS].list()[0], NOW)
    assert sorted(dumped) == ["ConnectionSpec", "SystemSpec"]
