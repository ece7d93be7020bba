"""Events on real pods, as the system that they lead to and those who watch them see it: nothing accepted is lost."""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from tests.harness.cluster.deployed_platform import (
    Platform,
    Rest,
    Tenant,
    administrator,
    external_system,
    http,
    project,
)
from tests.harness.cluster.evictions import serves
from tests.harness.cluster.kubectl import Kubectl, an_organisation
from tests.harness.cluster.metric_pages import metric_pages
from tests.harness.session.measurements import Measured
from tests.harness.session.waiting import eventually

pytestmark = pytest.mark.e2e

NAMESPACE = "tieline-system"
POD = "tieline-engine-0"

CODE = """
import asyncio

from tieline import Context, Event, Integration, Request, Retry

integration = Integration()


async def book(ctx, order):
    sent = {"version": "VERSION", **order}
    (await ctx.fetch("shop", "/orders", method="POST", json=sent)).raise_for_status()


@integration.webhook("orders", delivery="queued", retry=Retry(attempts=100, first=0.5, longest=2))
async def orders(ctx: Context, request: Request) -> None:
    await book(ctx, await request.json())


@integration.webhook("quote")
async def quote(ctx: Context, request: Request) -> dict:
    order = await request.json()
    ctx.background(note, ctx, order)
    return {"price": 10 * int(order["pieces"])}


async def note(ctx, order):
    await book(ctx, {"id": f"quote of {order['id']}"})


@integration.event("returned", retry=Retry(attempts=2, first=0.2))
async def returned(ctx: Context, event: Event) -> None:
    await book(ctx, {"id": event.payload["id"], "pieces": int(event.payload["pieces"])})


@integration.event("shipped")
async def shipped(ctx: Context, event: Event) -> None:
    await asyncio.sleep(0.2)
    await book(ctx, {"id": event.payload["id"]})
"""
SHOP = """
import json
import time
from aiohttp import web

orders, notifications = [], []
closed = False


async def take(request):
    if closed:
        return web.Response(status=503, text="Stocktaking until noon")
    orders.append({**await request.json(), "at": time.time()})
    return web.Response(status=204)


async def tell(_request):
    return web.json_response(orders)


async def take_notification(request):
    notifications.append([dict(request.headers), await request.text()])
    return web.Response(status=204)


async def tell_notifications(_request):
    return web.json_response(notifications)


async def change(request):
    global closed
    closed = (await request.json())["closed"]
    return web.Response(status=204)


app = web.Application()
app.router.add_post("/orders", take)
app.router.add_get("/", tell)
app.router.add_put("/", change)
app.router.add_post("/notifications", take_notification)
app.router.add_get("/notifications", tell_notifications)
web.run_app(app, port=8080, print=None)
"""
SIGNING_SECRET = f"whsec_{base64.b64encode(b'0123456789abcdef0123456789abcdef').decode()}"
SHOP_SAYS = {"status": 503, "body": "Stocktaking until noon", "system": "Shop"}


@dataclass
class Shop:
    """The system that events lead to."""

    url: str

    def closed(self, closed: bool) -> None:
        assert http("PUT", self.url, body={"closed": closed}, timeout=10).status == 204

    def orders(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = http("GET", self.url, timeout=10).json
        return found

    def notified(self, kind: str) -> list[dict[str, Any]]:
        """The notifications of this type that it was sent, each with its id. Their signatures are right."""
        found = []
        for headers, body in http("GET", f"{self.url}/notifications", timeout=10).json:
            signed = {name.lower(): value for name, value in headers.items()}
            # The clock of the machine is that of the pods; a message may be minutes old when it is looked at.
            sent = datetime.fromtimestamp(int(signed["webhook-timestamp"]), UTC)
            signer = Webhook(SIGNING_SECRET)
            expected = signer.sign(msg_id=signed["webhook-id"], timestamp=sent, data=body)
            assert hmac.compare_digest(signed["webhook-signature"], expected), headers
            found.append({"id": signed["webhook-id"], **json.loads(body)})
        return [one for one in found if one["type"] == kind]

    def has(self, *ids: str) -> list[dict[str, Any]]:
        """The orders with these ids, once all are there."""

        def all_there() -> list[dict[str, Any]] | None:
            orders = [one for one in self.orders() if one["id"] in ids]
            return orders if {one["id"] for one in orders} == set(ids) else None

        return eventually(f"orders {', '.join(ids[:5])}", all_there, seen=self.orders)


@dataclass
class Orders:
    """The deployed project, its environment, and the ways to it."""

    kubectl: Kubectl
    tenant: Tenant
    rest: Rest
    shop: Shop
    url: str
    project: str
    environment: str
    accepted: list[str] = field(default_factory=list)

    def order(self, identifier: str) -> str:
        """Sends an order to the webhook; its run."""
        answer = http("POST", f"{self.url}/orders", body={"id": identifier}, timeout=10)
        assert answer.status == 202, answer
        run: str = answer.json["runId"]
        return run

    def publish(self, task: str, payload: Any, **options: Any) -> str:
        """Sends an event by REST; its run."""
        body = {"task": task, "payload": payload, **options}
        answer = self.rest("POST", f"/environments/{self.environment}/events", body)
        assert answer.status == 202, answer
        run: str = answer.json["runId"]
        return run

    def runs(self, **query: str) -> list[dict[str, Any]]:
        text = "&".join(f"{name}={value}" for name, value in {"first": "200", **query}.items())
        answer = self.rest("GET", f"/runs?{text}")
        assert answer.status == 200, answer
        found: list[dict[str, Any]] = answer.json["items"]
        return found

    def listed(self, run: str, status: str) -> dict[str, Any]:
        """The run, once the list with this status has it."""

        def there() -> dict[str, Any] | None:
            return next((one for one in self.runs(status=status) if one["id"] == run), None)

        return eventually(f"run {run} {status}", there, seen=lambda: self.detail(run))

    def detail(self, run: str) -> dict[str, Any]:
        answer = self.rest("GET", f"/projects/{self.project}/runs/{run}")
        assert answer.status == 200, answer
        found: dict[str, Any] = answer.json
        return found

    def act(self, run: str, action: str, body: Any = None) -> Any:
        """Replays or cancels a run."""
        answer = self.rest("POST", f"/projects/{self.project}/runs/{run}/{action}", body)
        assert answer.status == 202, answer
        return answer.json if answer.body else None


def _deploy(tenant: Tenant, version: str) -> None:
    tenant.apply(project(CODE.replace("VERSION", version), settings={"keepInputs": True}))


@pytest.fixture(scope="module")
def orders(platform: Platform, runtime_image: str) -> Iterator[Orders]:
    """One deployment for all tests of the module."""
    kubectl = platform.kubectl
    with an_organisation(kubectl) as organisation:
        tenant = Tenant(kubectl=kubectl, namespace=organisation.namespace)
        tenant.apply(*_shop(tenant, runtime_image))
        _deploy(tenant, "one")
        tenant.apply(*_notification(tenant))
        rest = administrator(platform, organisation)
        environment = tenant.until("orders", "running", within=240)
        address = tenant.get("service", "shop")["spec"]["clusterIP"]
        shop = Shop(f"http://{address}")
        eventually("the shop", lambda: shop.orders() == [])
        identifier = rest("GET", "/projects").json["projects"][0]["id"]
        eventually("a queue", lambda: environment["id"] in _streams(kubectl))
        yield Orders(kubectl, tenant, rest, shop, environment["publicUrl"], identifier, environment["id"])


def _streams(kubectl: Kubectl) -> str:
    """What the engine says of its streams. Those of an environment come a moment after it runs."""
    # The port listens on the pod's loopback address alone.
    url = "http://127.0.0.1:8222/jsz?streams=true&consumers=true"
    return kubectl("exec", POD, "--", "wget", "-q", "-T", "5", "-O", "-", url, namespace=NAMESPACE).stdout


def _shop(tenant: Tenant, image: str) -> list[dict[str, Any]]:
    url = f"http://shop.{tenant.namespace}.svc"
    system = {"name": "Shop", "domain": "shop", "templateBaseUrl": url}
    template = {
        "name": "shop",
        "projectRef": {"name": "orders"},
        "environment": "production",
        "systemRef": {"name": "shop"},
        "connectionRef": {"name": "shop"},
    }
    connection = {"name": "Shop", "systemRef": {"name": "shop"}}
    return [
        *external_system("shop", image=image, program=SHOP),
        {"kind": "System", "metadata": {"name": "shop"}, "spec": system},
        {"kind": "Connection", "metadata": {"name": "shop"}, "spec": connection},
        {"kind": "ConnectionTemplate", "metadata": {"name": "shop"}, "spec": template},
    ]


def _notification(tenant: Tenant) -> list[dict[str, Any]]:
    """Tells the shop of runs that are dead."""
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "notified"},
        "type": "tieline.dev/credential",
        "stringData": {"secret": SIGNING_SECRET},
    }
    url = f"http://shop.{tenant.namespace}.svc/notifications"
    channel = {
        "name": "Shop", "type": "webhook", "webhook": {"url": url, "secretRef": {"name": "notified"}},
    }  # fmt: skip
    notification = {
        "name": "Dead runs",
        "projectRef": {"name": "orders"},
        "environment": "production",
        "channelRef": {"name": "shop"},
        "events": ["run_dead"],
    }
    return [
        secret,
        {"kind": "NotificationChannel", "metadata": {"name": "shop"}, "spec": channel},
        {"kind": "Notification", "metadata": {"name": "dead-runs"}, "spec": notification},
    ]


def test_an_order_waits_until_the_shop_is_back_and_is_then_booked_by_the_version_of_that_time(
    orders: Orders, measured: Measured
) -> None:
    orders.shop.closed(True)
    run = orders.order("waits")
    waiting = orders.listed(run, "waiting")
    assert waiting["error"]["upstream"] == SHOP_SAYS
    assert waiting["nextAttemptAt"] > waiting["startedAt"]

    first = orders.tenant.environment("orders")["version"]
    _deploy(orders.tenant, "two")

    def deployed() -> bool:
        found, pods = orders.tenant.environment("orders"), orders.tenant.pods("orders")
        return found.get("version") not in (None, first) and len(pods) == 1 and all(map(serves, pods))

    eventually("version two alone", deployed)
    assert orders.detail(run)["status"] in ("waiting", "running")
    orders.shop.closed(False)
    (booked,) = orders.shop.has("waits")
    assert booked["version"] == "two"
    succeeded = orders.listed(run, "succeeded")
    assert "error" not in succeeded
    history = orders.detail(run)["attemptHistory"]
    assert len({one["version"]["name"] for one in history}) == 2
    assert [one["error"]["upstream"] for one in history[:-1]] == [SHOP_SAYS] * (len(history) - 1)
    measured(f"{len(history)} attempts of a run over a deploy")


def test_a_dead_letter_is_told_by_the_project_and_succeeds_when_it_is_replayed_with_a_mended_payload(
    orders: Orders,
) -> None:
    run = orders.publish("returned", {"id": "mended", "pieces": "a few"})
    dead = orders.listed(run, "dead")
    assert dead["attempt"] == dead["attempts"] == 2
    assert dead["error"]["type"] == "ValueError"
    assert "a few" in dead["error"]["message"]

    def told() -> bool:
        _scrape(orders.kubectl)
        return orders.tenant.environment("orders").get("deadLetters") == 1

    eventually("a dead letter in the status", told, seen=lambda: orders.tenant.environment("orders"))
    (message,) = eventually(
        "a notification of it",
        lambda: orders.shop.notified("run_dead.started"),
        seen=lambda: orders.tenant.get("notifications.tieline.dev,notificationchannels.tieline.dev"),
    )
    assert message["data"]["environment"] == {"id": orders.environment, "name": "production"}
    assert message["data"]["project"]["id"] == orders.project
    assert "a few" not in str(message), "what the event held is not told"
    listed = http("GET", orders.rest.url + message["data"]["path"], headers=orders.rest.authorised)
    assert [one["id"] for one in listed.json["items"]] == [run], "the message leads to the run"
    replayed = orders.act(run, "replay", {"payload": {"id": "mended", "pieces": 3}})
    assert replayed["replayOf"] == run
    orders.listed(replayed["id"], "succeeded")
    (booked,) = orders.shop.has("mended")
    assert booked["pieces"] == 3


def _scrape(kubectl: Kubectl) -> None:
    """What Prometheus does: the operator surveys the engine when it is asked for metrics."""
    metric_pages(kubectl, "tieline-operator")


def test_a_cancelled_order_is_not_booked_when_the_shop_is_back(orders: Orders) -> None:
    orders.shop.closed(True)
    run, other = orders.order("cancelled"), orders.order("kept")
    orders.listed(run, "waiting")
    orders.act(run, "cancel")
    assert orders.listed(run, "cancelled")["error"]["upstream"] == SHOP_SAYS
    orders.shop.closed(False)
    orders.shop.has("kept")
    orders.listed(other, "succeeded")
    time.sleep(3)  # longer than it would have waited for its next attempt
    assert "cancelled" not in {one["id"] for one in orders.shop.orders()}
    assert orders.detail(run)["status"] == "cancelled"


def test_events_by_rest_run_in_order_for_their_key_and_a_delayed_one_not_before_its_time(
    orders: Orders,
) -> None:
    began = time.time()
    delayed = orders.publish("shipped", {"id": "later"}, key="ann", delay=4)
    assert orders.detail(delayed)["status"] == "waiting"
    ids = [f"ann-{number}" for number in range(6)]
    for identifier in ids:
        orders.publish("shipped", {"id": identifier}, key="ann")
    booked = orders.shop.has(*ids, "later")
    in_order = [one["id"] for one in sorted(booked, key=lambda one: one["at"])]
    assert in_order == [*ids, "later"]
    assert max(one["at"] for one in booked) >= began + 4
    orders.listed(delayed, "succeeded")


def test_a_direct_webhook_whose_input_is_kept_is_run_again_and_its_background_work_is_a_run(
    orders: Orders,
) -> None:
    given = {"id": "direct", "pieces": "some"}
    answer = http("POST", f"{orders.url}/quote", body=given)
    assert answer.status == 500
    run = answer.headers["X-Tieline-Execution-Id"]
    eventually("its input", lambda: orders.detail(run).get("input") == given)
    failed = orders.listed(run, "failed")
    assert (failed["kind"], failed["error"]["type"]) == ("webhook", "ValueError")
    mended = orders.act(run, "replay", {"payload": {"id": "direct", "pieces": 2}})["id"]
    traces = {failed["traceId"], orders.listed(mended, "succeeded")["traceId"]}

    def both() -> bool:
        found = orders.runs(kind="background", task="note", status="succeeded")
        return {one["traceId"] for one in found} == traces and len(found) == 2

    eventually("background work of both", both, seen=lambda: orders.runs(kind="background"))


def test_no_accepted_order_is_lost_when_the_engine_s_pod_is_deleted_while_they_come(
    orders: Orders, measured: Measured
) -> None:
    before = orders.kubectl("get", "pod", POD, "-o", "jsonpath={.metadata.uid}", namespace=NAMESPACE).stdout

    def replaced() -> bool:
        pod = json.loads(orders.kubectl("get", "pod", POD, "-o", "json", namespace=NAMESPACE).stdout)
        return pod["metadata"]["uid"] != before and serves(pod)

    # What is accepted stays with the engine until the shop is back.
    orders.shop.closed(True)
    load = Sender(orders.url)
    with ThreadPoolExecutor(1) as sending:
        sent: Future[None] = sending.submit(load.send)
        try:
            eventually("orders before it", lambda: len(load.accepted) >= 20)
            orders.kubectl("delete", "pod", POD, "--wait=false", namespace=NAMESPACE)
            eventually("another engine", replaced)
            again = len(load.accepted)
            eventually("orders after it", lambda: len(load.accepted) >= again + 20)
        finally:
            load.stopped = True
        sent.result(60)
    measured(
        f"{len(load.accepted)} orders accepted and {load.refused} refused while the engine's pod was replaced"
    )
    orders.shop.closed(False)
    orders.shop.has(*load.accepted)
    eventually(
        "all runs succeeded",
        lambda: set(load.runs) <= {one["id"] for one in orders.runs(task="orders", status="succeeded")},
    )


@dataclass
class Sender:
    """Sends orders one after the other. As webhooks' senders do, it repeats those that are refused."""

    url: str
    accepted: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    refused: int = 0
    stopped: bool = False

    def send(self) -> None:
        number = 0
        while not self.stopped:
            identifier = f"load-{number}"
            if self._accepted(identifier):
                self.accepted.append(identifier)
                number += 1
                time.sleep(0.05)
            else:
                self.refused += 1
                time.sleep(0.5)

    def _accepted(self, identifier: str) -> bool:
        try:
            answer = http(
                "POST",
                f"{self.url}/orders",
                body={"id": identifier},
                headers={"Webhook-Id": identifier},
                timeout=30,
            )
        except OSError:
            return False
        if answer.status == 202 and "runId" in answer.json:
            self.runs.append(answer.json["runId"])
        return answer.status == 202


def test_the_death_of_a_run_is_told_once_and_so_is_its_end(orders: Orders) -> None:
    """It began, and was mended, in the test of the dead letter: the end is told half a minute later."""

    def over() -> list[dict[str, Any]]:
        _scrape(orders.kubectl)
        return orders.shop.notified("run_dead.resolved")

    (resolved,) = eventually(
        "the end told", over, seen=lambda: orders.tenant.get("notifications.tieline.dev")
    )
    (started,) = orders.shop.notified("run_dead.started")
    assert started["id"] != resolved["id"]
    assert resolved["data"]["since"] == started["data"]["since"] <= resolved["data"]["until"]
    notification = orders.tenant.get("notification.tieline.dev", "dead-runs")
    assert not notification["status"].get("incidents")


def test_both_replicas_of_the_api_answer_the_same_runs(orders: Orders) -> None:
    orders.kubectl("scale", "deployment", "tieline-api", "--replicas=2", namespace=NAMESPACE)
    try:
        label = "app.kubernetes.io/name=tieline-api"

        def two() -> list[str] | None:
            text = orders.kubectl("get", "pods", "-l", label, "-o", "json", namespace=NAMESPACE).stdout
            found = [pod["status"]["podIP"] for pod in json.loads(text)["items"] if serves(pod)]
            return found if len(found) == 2 else None

        addresses = eventually("two replicas", two)
        old, new = (
            Rest(f"http://{one}:8080", orders.rest.token, orders.rest.organisation) for one in addresses
        )

        def same() -> bool:
            answers = [one("GET", "/runs?first=200") for one in (old, new)]
            assert [one.status for one in answers] == [200, 200], answers
            assert answers[0].json["totalCount"] > 20
            return bool(answers[0].json == answers[1].json)

        eventually("the same runs", same)
    finally:
        orders.kubectl("scale", "deployment", "tieline-api", "--replicas=1", namespace=NAMESPACE)
