"""The example that the demo shows: an order comes in by webhook, and the shop has it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.kubectl import ROOT, Kubectl
from tests.harness.world import Platform, World, eventually, http

pytestmark = pytest.mark.e2e

QUICKSTART = ROOT / "examples" / "quickstart"


@pytest.fixture
def quickstart(platform: Platform) -> Iterator[World]:
    kubectl: Kubectl = platform.kubectl
    kubectl("apply", "-k", str(QUICKSTART))
    yield World(kubectl=kubectl, namespace="acme")
    kubectl("delete", "-k", str(QUICKSTART), "--wait=true", timeout=180)


def test_an_order_that_arrives_by_webhook_is_in_the_shop(quickstart: World):
    environment = quickstart.until("order-sync", "running")
    order = storefront_order("A-1001")
    answer = http("POST", f"{environment['publicUrl']}/orders", body=order)
    assert answer.status < 300, answer
    assert answer.headers["X-Tieline-Execution-Id"]
    assert "A-1001" in shop_orders(quickstart)


def test_a_changed_secret_is_used_without_a_restart(quickstart: World):
    environment = quickstart.until("order-sync", "running")
    before = {pod["metadata"]["uid"] for pod in quickstart.pods("order-sync")}
    url = f"{environment['publicUrl']}/orders"
    order = storefront_order("A-1002")
    assert http("POST", url, body=order).status < 300
    patch = '{"stringData": {"value": "wrong-on-purpose"}}'
    quickstart.kubectl("patch", "secret", "shop-api-key", "-p", patch, namespace=quickstart.namespace)
    eventually(
        "the shop refusing the new key", lambda: http("POST", url, body=order).status >= 500, within=30
    )
    assert {pod["metadata"]["uid"] for pod in quickstart.pods("order-sync")} == before


def storefront_order(number: str) -> dict[str, Any]:
    """An order as the storefront sends it."""
    items = [{"product": "mug", "count": 2, "price": "9.90"}]
    return {"number": number, "buyer": {"email": "jo@example.org"}, "items": items}


def shop_orders(world: World) -> str:
    """The orders that the shop has."""
    address = world.get("service", "shop")["spec"]["clusterIP"]
    answer = http("GET", f"http://{address}/orders", headers={"X-API-Key": "demo-shop-key-not-a-secret"})
    assert answer.status == 200, answer
    return answer.body.decode()
