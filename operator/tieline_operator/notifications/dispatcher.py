"""Delivers messages in the background: with a bounded queue, time-outs, and backoff for each message.

What is to be delivered comes from the status of Notifications, so nothing of it must be kept here. A message is
delivered at least once: where this process dies after a delivery and before the status says so, the next leader
delivers it again, under the same id.
"""

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from cachetools import LRUCache
from prometheus_client import Counter
from pydantic import ValidationError

from tieline_common.backoff import exponential, jitter
from tieline_core.identity.names import CREDENTIAL_TYPE
from tieline_core.kubernetes import KubeError
from tieline_core.kubernetes.reading import Reader, find, secret_values
from tieline_core.kubernetes.resources import NOTIFICATION_CHANNELS, NOTIFICATIONS, SECRETS
from tieline_core.resources import NotificationChannel
from tieline_core.resources.notification_channels import DeliveryFailure, NotificationChannelSpec
from tieline_operator.apply.plan import Key
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.secret_facts import cached_facts
from tieline_operator.notifications.errors import DeliveryError, PartlyDeliveredError
from tieline_operator.queues.clock import Clock
from tieline_operator.queues.delaying_queue import DelayingQueue
from tieline_operator.reconcilers.notification.channels import channel_revision
from tieline_operator.reconcilers.notification.deliveries import ChannelHealth
from tieline_operator.reconcilers.notification.messages import Message

logger = logging.getLogger(__name__)

MAX_MESSAGES = 5000
MAX_OF_CHANNEL = 100
"""Beyond these a message is left to a later reconcile: a channel that fails leaves room for others."""
_MAX_CHANNELS = 4096
_AT_ONCE = 64
_PER_CHANNEL = 2
_FIRST_BACKOFF, _LONGEST_BACKOFF = 5.0, 600.0
_NOT_LEADING_SECONDS = 5.0
_GRACE_SECONDS = 10.0

Send = Callable[[NotificationChannelSpec, str | None, Message], Awaitable[None]]
"""Delivers a message with the value of the channel's Secret; raises DeliveryError."""


@dataclass
class _Pending:
    owner: Key
    message: Message
    failures: int = 0


@dataclass(frozen=True)
class _Known:
    revision: str
    health: ChannelHealth = field(default_factory=ChannelHealth)


class Dispatcher:
    """The ``Deliveries`` of the leader."""

    def __init__(
        self,
        listers: Listers,
        kube: Reader,
        send: Send,
        *,
        enqueue: Callable[[Key], None],
        leads: Callable[[], bool],
        attempts: Counter,
        clock: Clock | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``enqueue`` reconciles a Notification or a channel again. ``leads``: whether this replica leads for sure."""
        self._listers = listers
        self._kube = kube
        self._send = send
        self._enqueue = enqueue
        self._leads = leads
        self._attempts = attempts
        self._now = now
        self._pending: dict[str, _Pending] = {}
        self._delivered: dict[Key, dict[str, datetime]] = {}
        self._channels: LRUCache[Key, _Known] = LRUCache(_MAX_CHANNELS)
        self._queue: DelayingQueue[str] = DelayingQueue(
            self._attempt, group=self._group, at_once=_AT_ONCE, per_group=_PER_CHANNEL, clock=clock
        )

    def __len__(self) -> int:
        """Messages that are not delivered yet."""
        return len(self._pending)

    def start(self) -> None:
        """Starts to deliver."""
        self._queue.start()

    async def stop(self) -> None:
        """Waits for deliveries under way, and begins none."""
        await self._queue.stop(_GRACE_SECONDS)

    def deliver(self, owner: Key, messages: Sequence[Message], *, known: Collection[str]) -> None:
        """See ``Deliveries``."""
        kept = {one: at for one, at in self._delivered.pop(owner, {}).items() if one in known}
        if kept:
            self._delivered[owner] = kept
        wanted = {message.id: message for message in messages}
        for identifier in [
            name for name, one in self._pending.items() if one.owner == owner and name not in wanted
        ]:
            self._drop(identifier)
        for identifier, message in wanted.items():
            pending = self._pending.get(identifier)
            if identifier in kept:
                continue
            if pending is not None and pending.message.channel == message.channel:
                pending.message = message
                continue
            if pending is None and not self._has_room(message.channel):
                logger.warning(
                    "Too many notifications wait; the rest waits for the next reconcile",
                    extra={"object": f"{message.channel.namespace}/{message.channel.name}"},
                )
                break
            self._pending[identifier] = _Pending(owner, message)
            self._queue.add_after(identifier, 0)

    def delivered(self, owner: Key) -> Mapping[str, datetime]:
        """See ``Deliveries``."""
        return self._delivered.get(owner, {})

    def health(self, channel: Key, revision: str) -> ChannelHealth | None:
        """See ``Deliveries``."""
        known = self._channels.get(channel)
        if known is None or known.revision == revision:
            return known.health if known else None
        self._channels[channel] = _Known(revision, replace(known.health, failure=None))
        for identifier, pending in self._pending.items():
            if pending.message.channel == channel:
                pending.failures = 0
                self._queue.add_after(identifier, 0)
        return self._channels[channel].health

    def _has_room(self, channel: Key) -> bool:
        of_channel = sum(one.message.channel == channel for one in self._pending.values())
        return len(self._pending) < MAX_MESSAGES and of_channel < MAX_OF_CHANNEL

    def _group(self, identifier: str) -> str:
        pending = self._pending.get(identifier)
        return str(pending.message.channel) if pending else ""

    def _drop(self, identifier: str) -> None:
        self._pending.pop(identifier, None)
        self._queue.forget(identifier)

    async def _attempt(self, identifier: str) -> float | None:
        pending = self._pending.get(identifier)
        if pending is None:
            return None
        if not self._leads():
            return _NOT_LEADING_SECONDS
        owner, message = pending.owner, pending.message
        # A test message is sent for its channel, every other one for a Notification.
        kind = NOTIFICATION_CHANNELS if owner == message.channel else NOTIFICATIONS
        sent_for = self._listers[kind].get(owner.namespace, owner.name)
        if sent_for is None or sent_for["metadata"]["uid"] != message.uid:
            self._drop(identifier)
            return None
        channel = self._channel(message.channel)
        if channel is None:
            return self._backoff(pending)  # the Notification's Ready says so
        revision = self._revision(channel)
        try:
            await self._deliver(channel, message)
        except PartlyDeliveredError as error:
            self._attempts.labels(str(channel.spec.type), "delivered").inc()
            self._record_success(channel, pending, revision)
            self._record_failure(channel, message, revision, error, again=False)
            return None
        except DeliveryError as error:
            self._attempts.labels(str(channel.spec.type), "failed").inc()
            self._record_failure(channel, message, revision, error)
            return max(error.retry_after or 0.0, self._backoff(pending))
        self._attempts.labels(str(channel.spec.type), "delivered").inc()
        self._record_success(channel, pending, revision)
        return None

    async def _deliver(self, channel: NotificationChannel, message: Message) -> None:
        try:
            await self._send(channel.spec, await self._secret(channel), message)
        except DeliveryError:
            raise
        except KubeError as error:
            raise DeliveryError(
                "KubernetesUnavailable", f"The Secret cannot be read: {error.reason}"
            ) from None
        except Exception as error:
            # Its text and its frames may hold a URL or a secret.
            kind = type(error).__name__
            logger.error("Delivering a notification failed unexpectedly", extra={"error": kind})
            raise DeliveryError("DeliveryFailed", f"The delivery failed unexpectedly: {kind}") from None

    async def _secret(self, channel: NotificationChannel) -> str | None:
        needed = channel.spec.secret_key
        if needed is None:
            return None
        name, key = needed
        found = await find(self._kube, SECRETS, name, channel.namespace)
        value = secret_values(found).get(key) if found and found.get("type") == CREDENTIAL_TYPE else None
        if not value:
            raise DeliveryError(
                "SecretNotFound",
                f'There is no Secret "{name}" of type {CREDENTIAL_TYPE} with the key {key}; create it',
            )
        with suppress(UnicodeDecodeError):
            return value.decode()
        raise DeliveryError("ValueNotText", f'The key {key} of Secret "{name}" is no text; correct it')

    def _channel(self, key: Key) -> NotificationChannel | None:
        found = self._listers[NOTIFICATION_CHANNELS].get(key.namespace, key.name)
        with suppress(ValidationError):
            return NotificationChannel.read(found) if found else None
        return None

    def _revision(self, channel: NotificationChannel) -> str:
        needed = channel.spec.secret_key
        facts = cached_facts(self._listers[SECRETS], channel.namespace, needed[0]) if needed else None
        return channel_revision(channel, facts)

    def _record_success(self, channel: NotificationChannel, pending: _Pending, revision: str) -> None:
        message, now = pending.message, self._now()
        self._delivered.setdefault(pending.owner, {})[message.id] = now
        self._drop(message.id)
        self._channels[message.channel] = _Known(revision, ChannelHealth(last_delivered_at=now))
        logger.info(
            "Delivered a notification",
            extra={
                "event": str(message.event),
                "phase": str(message.phase),
                "object": f"{pending.owner.namespace}/{pending.owner.name}",
                "channel": channel.name,
                "message_id": message.id,
            },
        )
        self._enqueue(pending.owner)
        self._enqueue(message.channel)

    def _record_failure(
        self,
        channel: NotificationChannel,
        message: Message,
        revision: str,
        error: DeliveryError,
        *,
        again: bool = True,
    ) -> None:
        known = self._channels.get(message.channel, _Known(revision))
        before = known.health.failure or (
            channel.status.delivery_failure if message.channel not in self._channels else None
        )
        failure = DeliveryFailure(
            reason=error.reason, message=error.message, since=before.since if before else self._now()
        )
        self._channels[message.channel] = _Known(revision, replace(known.health, failure=failure))
        changed = before is None or (before.reason, before.message) != (failure.reason, failure.message)
        logger.log(
            logging.WARNING if changed else logging.DEBUG,
            "A notification cannot be delivered%s: %s",
            ", trying again" if again else " to all",
            error.message,
            extra={"object": f"{channel.namespace}/{channel.name}", "reason": error.reason},
        )
        self._enqueue(message.channel)

    def _backoff(self, pending: _Pending) -> float:
        pending.failures += 1
        return jitter(exponential(pending.failures, first=_FIRST_BACKOFF, cap=_LONGEST_BACKOFF))
