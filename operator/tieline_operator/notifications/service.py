"""Wires the delivery of notifications."""

import asyncio
from collections.abc import Callable

import aiohttp

from tieline_core.kubernetes import Kube
from tieline_core.resources.notification_channels import NotificationChannelSpec
from tieline_operator.apply.plan import Key
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.metrics import Metrics
from tieline_operator.notifications import slack, smtp, webhook
from tieline_operator.notifications.dispatcher import Dispatcher
from tieline_operator.notifications.errors import DeliveryError
from tieline_operator.notifications.reports import ApprovalReports, IssueReports
from tieline_operator.notifications.run_counts import RunHistoryCounts
from tieline_operator.notifications.schedule_records import ScheduleRecords
from tieline_operator.reconcilers.notification.messages import Message
from tieline_protocol.egress import Egress


class NotificationService:
    """Delivers notifications as long as this replica leads. Reconciles never wait for it."""

    def __init__(
        self,
        kube: Kube,
        cache: ClusterCache,
        metrics: Metrics,
        egress: Egress,
        *,
        enqueue: Callable[[Key], None],
        leads: Callable[[], bool],
        counts: RunHistoryCounts,
        schedules: ScheduleRecords,
        issues: IssueReports,
        approvals: ApprovalReports,
    ) -> None:
        """What is polled (``counts``, ``schedules``, ``issues``, ``approvals``) is kept while this replica leads."""
        self._polled = (counts, schedules, issues, approvals)
        metrics.watch_stream_readers(
            {
                "runs": lambda: counts.stalled,
                "schedules": lambda: schedules.stalled,
                "issues": lambda: issues.stalled,
                "approvals": lambda: approvals.stalled,
            }
        )
        self._polling: list[asyncio.Task[None]] = []
        self._egress = egress
        self._session: aiohttp.ClientSession | None = None
        self.dispatcher = Dispatcher(
            cache, kube, self._send, enqueue=enqueue, leads=leads, attempts=metrics.notifications
        )
        metrics.watch_notifications(lambda: len(self.dispatcher))

    def start(self) -> None:
        """Starts to deliver."""
        self._session = aiohttp.ClientSession(
            connector=self._egress.connector(),
            cookie_jar=aiohttp.DummyCookieJar(),
            # Nobody reads the answers' bodies.
            auto_decompress=False,
        )
        self.dispatcher.start()
        self._polling = [
            asyncio.create_task(one.run(), name=f"poll {type(one).__name__}") for one in self._polled
        ]

    async def stop(self) -> None:
        """Ends the deliveries, and closes the connections."""
        for polling in self._polling:
            polling.cancel()
        await asyncio.gather(*self._polling, return_exceptions=True)
        await self.dispatcher.stop()
        if self._session:
            await self._session.close()

    async def _send(self, spec: NotificationChannelSpec, secret: str | None, message: Message) -> None:
        if spec.email is not None:
            await smtp.send(self._egress, spec.email, secret, message)
        elif self._session is None or secret is None:
            raise DeliveryError("NotStarted", "The delivery has not started yet; it is tried again")
        elif spec.webhook is not None:
            await webhook.send(self._session, spec.webhook, secret, message)
        else:
            await slack.send(self._session, secret, message)
