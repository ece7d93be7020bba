"""The example that the demo shows: an order comes in by webhook, and the shop has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.deployed_platform import Answer, Platform, Tenant, administrator, http
from tests.harness.cluster.kubectl import ROOT, Organisation
from tests.harness.session.waiting import eventually
from tieline_cluster.deployment.platform import with_images

pytestmark = pytest.mark.e2e

QUICKSTART = ROOT / "examples" / "quickstart"


@pytest.fixture
def quickstart(platform: Platform, tmp_path: Path) -> Iterator[Tenant]:
    images = {"runtime": platform.images["runtime"]}
    manifests = str(with_images(QUICKSTART, images=images, work=tmp_path))
    platform.kubectl("apply", "-k", manifests)
    platform.kubectl("rollout", "status", "deployment/shop", "--timeout=120s", namespace="acme")
    yield Tenant(kubectl=platform.kubectl, namespace="acme")
    platform.kubectl("delete", "-k", manifests, "--wait=true", timeout=180)


def test_an_order_that_arrives_by_webhook_is_in_the_shop(quickstart: Tenant):
    environment = quickstart.until("order-sync", "running")
    order = storefront_order("A-1001")
    url = f"{environment['publicUrl']}/orders"
    answer = eventually("an order that is taken", lambda: accepted(http("POST", url, body=order)))
    assert answer.headers["X-Tieline-Execution-Id"]
    assert "A-1001" in shop_orders(quickstart)


def test_a_run_is_a_trace_with_its_outbound_request_and_no_secret(
    quickstart: Tenant, platform: Platform
) -> None:
    environment = quickstart.until("order-sync", "running")
    url = f"{environment['publicUrl']}/orders"
    order = storefront_order("A-1003")
    answer = eventually("an order that is taken", lambda: accepted(http("POST", url, body=order)))
    execution = answer.headers["X-Tieline-Execution-Id"]
    rest = administrator(platform, Organisation(id=organisation_of(quickstart), namespace="acme"))
    project = eventually("the project listed", lambda: rest("GET", "/projects").json["projects"][0]["id"])
    path = f"/projects/{project}/traces"

    def listed() -> dict[str, Any]:
        found = rest("GET", f"{path}?filter=executionId:{execution}").json["items"]
        return dict(found[0])

    run = eventually("the run's trace", listed)
    assert (run["name"], run["executionId"]) == ("orders", execution)

    def whole() -> dict[str, Any]:
        """The trace once all of it is there: its trigger, and the request that the shop answered."""
        trace = rest("GET", f"{path}/{run['traceId']}")
        assert trace.status == 200, trace
        begun = [span["spanId"] for span in trace.json["spans"]]
        assert run["spanId"] in begun, trace.json
        assert told(requests(trace.json)[-1]).get("http.response.status_code") == "201", trace.json
        return dict(trace.json)

    def requests(trace: dict[str, Any]) -> list[dict[str, Any]]:
        """One and, where nodes have only just learned of the shop, refused connections before it."""
        return [span for span in trace["spans"] if span["spanId"] != run["spanId"]]

    trace = eventually("the trigger and the request that was answered", whole)
    for span in requests(trace):
        assert span["parentSpanId"] == run["spanId"]
        assert told(span)["connection.template"] == "shop"
        assert told(span)["url.full"] == "http://shop.acme.svc/orders"
    assert "demo-shop-key" not in str(trace)


def test_a_changed_secret_is_used_without_a_restart(quickstart: Tenant):
    environment = quickstart.until("order-sync", "running")
    before = {pod["metadata"]["uid"] for pod in quickstart.pods("order-sync")}
    url = f"{environment['publicUrl']}/orders"
    order = storefront_order("A-1002")
    eventually("an order that is taken", lambda: http("POST", url, body=order).status < 300)
    patch = '{"stringData": {"value": "wrong-on-purpose"}}'
    quickstart.kubectl("patch", "secret", "shop-api-key", "-p", patch, namespace=quickstart.namespace)
    eventually("the shop refusing the new key", lambda: http("POST", url, body=order).status >= 500)
    assert {pod["metadata"]["uid"] for pod in quickstart.pods("order-sync")} == before


def told(span: dict[str, Any]) -> dict[str, str]:
    """What a span says by name."""
    return {pair["key"]: pair["value"] for pair in span["attributes"]}


def organisation_of(tenant: Tenant) -> str:
    """The id of the quickstart's organisation."""
    namespace = tenant.get("namespace", tenant.namespace)
    return str(namespace["metadata"]["labels"]["tieline.dev/organisation"])


def accepted(answer: Answer) -> Answer | None:
    """The answer, unless the integration could not reach the shop yet."""
    return answer if answer.status < 300 else None


def storefront_order(number: str) -> dict[str, Any]:
    """An order as the storefront sends it."""
    items = [{"product": "mug", "count": 2, "price": "9.90"}]
    return {"number": number, "buyer": {"email": "jo@example.org"}, "items": items}


def shop_orders(tenant: Tenant) -> str:
    """The orders that the shop has."""
    address = tenant.get("service", "shop")["spec"]["clusterIP"]
    answer = http("GET", f"http://{address}/orders", headers={"X-API-Key": "demo-shop-key-not-a-secret"})
    assert answer.status == 200, answer
    return answer.body.decode()
