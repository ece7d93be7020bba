"""A project with a notification and a channel, an operator in memory, and a dispatcher whose messages are recorded."""

from __future__ import annotations

import asyncio
import base64
from datetime import timedelta
from typing import Any

from prometheus_client import CollectorRegistry

from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tests.unit.operator.queues.test_delaying_queue import HandClock
from tests.unit.operator.reconcile_loop import ReconcileLoop
from tieline_core.kubernetes import resources as r
from tieline_core.resources.notification_channels import NotificationChannelSpec
from tieline_operator.apply.plan import Key
from tieline_operator.metrics import Metrics
from tieline_operator.notifications.dispatcher import Dispatcher
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.reconcilers.notification.deliveries import (
    NO_APPROVALS,
    NO_ISSUES,
    NO_RUNS,
    NO_SCHEDULES,
    Approvals,
    Issues,
    Runs,
    Schedules,
)
from tieline_operator.reconcilers.notification.messages import Message

SECRET = "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0"


def signing_secret(value: str = SECRET, *, version: str = "1") -> dict[str, Any]:
    cached = o.secret("signing", "secret")
    cached["metadata"]["resourceVersion"] = version
    return {**cached, "data": {"secret": base64.b64encode(value.encode()).decode()}}


class NotifiedCluster:
    """``restart`` is another leader: it has nothing but what the cluster holds."""

    def __init__(
        self,
        *objects: dict[str, Any],
        runs: Runs = NO_RUNS,
        schedules: Schedules = NO_SCHEDULES,
        issues: Issues = NO_ISSUES,
        approvals: Approvals = NO_APPROVALS,
    ) -> None:
        there = {(one["kind"], one["metadata"]["name"]): one for one in (*standard(), *objects)}
        self.cluster = FakeCluster(*there.values())
        self.cluster.put(r.NAMESPACES, o.namespace())
        self.cluster.put(r.SECRETS, signing_secret())
        self.sent: list[Message] = []
        self.secrets: list[str | None] = []
        self.failing: DeliveryError | None = None
        self.leads = True
        self.metrics = Metrics()
        self._runs = runs
        self._schedules = schedules
        self._issues = issues
        self._approvals = approvals
        self.loop = ReconcileLoop(self.cluster)
        self.restart()

    def restart(self) -> None:
        now = self.loop.now
        self.clock = HandClock()
        self.enqueued: list[Key] = []
        self.dispatcher = Dispatcher(
            self.cluster,
            self.cluster,
            self._send,
            enqueue=self.enqueued.append,
            leads=lambda: self.leads,
            attempts=self.metrics.notifications,
            clock=self.clock,
            now=lambda: self.loop.now,
        )
        self.dispatcher.start()
        self.loop = ReconcileLoop(
            self.cluster,
            deliveries=self.dispatcher,
            runs=self._runs,
            schedules=self._schedules,
            issues=self._issues,
            approvals=self._approvals,
        )
        self.loop.now = now

    async def _send(self, spec: NotificationChannelSpec, secret: str | None, message: Message) -> None:
        self.secrets.append(secret)
        if self.failing:
            raise self.failing
        self.sent.append(message)

    async def settle(self, seconds: float = 0) -> None:
        """Time passes; reconciles and deliveries run until nothing more happens."""
        self.loop.now += timedelta(seconds=seconds)
        await self.clock.pass_by(seconds)
        for _ in range(4):
            await self.loop.until_quiet()
            await self.clock.pass_by(0)
            await asyncio.sleep(0)

    @property
    def told(self) -> list[str]:
        return [f"{one.event}.{one.phase}" for one in self.sent]

    def incidents(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.notification()["status"].get("incidents", [])
        return found

    def notification(self) -> Any:
        return self.cluster[r.NOTIFICATIONS].get(o.NAMESPACE, "tell-ops")

    def channel(self) -> Any:
        return self.cluster[r.NOTIFICATION_CHANNELS].get(o.NAMESPACE, "ops")

    def edit(self, resource: Any, name: str, **spec: Any) -> None:
        stored = self.cluster.edited(resource, name)
        stored["spec"].update(spec)
        stored["metadata"]["generation"] += 1

    def counted(self, outcome: str) -> float:
        registry: CollectorRegistry = self.metrics.registry
        labels = {"type": "webhook", "outcome": outcome}
        return registry.get_sample_value("tieline_operator_notifications_total", labels) or 0.0


def standard() -> list[dict[str, Any]]:
    return [o.project(), o.notification(), o.notification_channel()]
