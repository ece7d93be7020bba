"""NotificationChannel: can it be used, and do deliveries succeed?"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from yarl import URL

from tieline_core.credentials.linker import Problem
from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.credentials.validation.secret_keys import secret_problem
from tieline_core.identity.ids import format_time
from tieline_core.kubernetes.resources import NOTIFICATION_CHANNELS, SECRETS
from tieline_core.resources import NotificationChannel
from tieline_core.resources.notification_channels import TEST_LASTS, DeliveryFailure
from tieline_operator.apply.plan import Object, Outcome, Plan, failed, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import key_of
from tieline_operator.cache.organisations import organisation
from tieline_operator.cache.secret_facts import secret_facts
from tieline_operator.reconcilers.notification.channel_tests import ChannelTestMessage, due_test
from tieline_operator.reconcilers.notification.deliveries import NO_DELIVERIES, ChannelHealth, Deliveries
from tieline_operator.reconcilers.uniqueness import id_conflict
from tieline_protocol.egress import ALLOWED, PUBLIC_ONLY, Egress


@dataclass(frozen=True, kw_only=True)
class ObservedChannel:
    """A NotificationChannel with what it refers to."""

    channel: NotificationChannel
    egress: Egress = PUBLIC_ONLY
    id_conflict: Outcome | None = None
    secret: SecretFacts | None = None
    health: ChannelHealth | None = None
    """None while this replica has delivered nothing to it."""
    test: ChannelTestMessage | None = None
    """A test message that is being delivered."""
    now: datetime


@dataclass(eq=False)
class ChannelReconciler:
    """Reconciles channels."""

    egress: Egress = PUBLIC_ONLY
    deliveries: Deliveries = NO_DELIVERIES

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the NotificationChannel and plans."""
        channel = NotificationChannel.read(obj)
        needed = channel.spec.secret_key
        names = {needed[0]} if needed else set[str]()
        secrets = await secret_facts(cache, cache[SECRETS], channel.namespace, names)
        secret = secrets.get(needed[0]) if needed else None
        revision = channel_revision(channel, secret)
        key = key_of(NOTIFICATION_CHANNELS, obj)
        claim = organisation(cache, channel.namespace)
        test = due_test(channel, key, organisation_id=claim.id if claim else "", now=now)
        self.deliveries.deliver(key, [test] if test else [], known={test.id} if test else ())
        return plan(
            ObservedChannel(
                channel=channel,
                egress=self.egress,
                id_conflict=id_conflict(obj, cache[NOTIFICATION_CHANNELS]),
                secret=secret,
                health=self.deliveries.health(key, revision),
                test=test,
                now=now,
            )
        )


def channel_revision(channel: NotificationChannel, secret: SecretFacts | None) -> str:
    """Differs once the channel or its Secret was changed."""
    return f"{channel.metadata.uid}/{channel.metadata.generation}/{secret.version if secret else ''}"


def plan(observed: ObservedChannel) -> Plan:
    """Ready unless it cannot be used, or its last delivery failed."""
    status = observed.channel.status
    known = observed.health
    unchanged = status.observed_generation == observed.channel.metadata.generation
    failure = known.failure if known else status.delivery_failure if unchanged else None
    delivered_at = (known.last_delivered_at if known else None) or status.last_delivered_at
    return Plan(
        outcome=observed.id_conflict or problem_of(observed) or _outcome(failure),
        status=_status(delivered_at, failure),
        requeue_after=_rest_of(observed),
    )


def _rest_of(observed: ObservedChannel) -> float | None:
    """Seconds until the test message is given up."""
    if observed.test is None:
        return None
    return max(0.0, (observed.test.since + TEST_LASTS - observed.now).total_seconds())


def problem_of(observed: ObservedChannel) -> Outcome | None:
    """Why nothing can be delivered, whatever the other side answers."""
    spec = observed.channel.spec
    needed = spec.secret_key
    if needed and observed.secret:
        problem: Problem | None = secret_problem(observed.secret, ((needed[1],),), observed.channel.namespace)
        if problem:
            return failed(problem.reason, problem.message)
        if needed[1] in observed.secret.values.broken:
            return failed(
                "ValueBroken",
                f'The key {needed[1]} of Secret "{needed[0]}" has a line break (often the last character of a file); '
                "take it out",
            )
    host = spec.email.host if spec.email else _host(spec.webhook.url) if spec.webhook else None
    if host and observed.egress.refuses(host):
        return failed(
            "AddressRefused",
            f"{host} is not public, so the platform does not connect to it; correct the channel, "
            f"or ask the platform's administrator to open it in {ALLOWED}",
        )
    return None


def _outcome(failure: DeliveryFailure | None) -> Outcome:
    if failure is not None:
        return failed(failure.reason, failure.message)
    return ready("Valid", "Notifications can be sent")


def _status(delivered_at: datetime | None, failure: DeliveryFailure | None) -> dict[str, Any]:
    status: dict[str, Any] = {}
    if delivered_at:
        status["lastDeliveredAt"] = format_time(delivered_at)
    if failure:
        status["deliveryFailure"] = {**failure.to_dict(), "since": format_time(failure.since)}
    return status


def _host(url: str) -> str | None:
    """The host of a URL. Nothing else of it is shown: it may hold credentials."""
    try:
        return URL(url).host
    except ValueError:
        return None
