"""Requests that senders repeat, noticed by the id that their signature vouches for."""

import asyncio
import logging

from tieline.configuration.snapshot import Activation
from tieline.context import activation_key
from tieline.errors import reason
from tieline.events.delivery_memory import delivery_key
from tieline.events.publisher import Publisher
from tieline.events.queue import EventsUnavailableError
from tieline.integration import Webhook
from tieline.server.webhook_signatures import Sender

logger = logging.getLogger("tieline.run")

_MEMORY_SECONDS = 1.0
"""How long a direct webhook waits to hear whether its request is a repeated one."""


class RepeatedRequests:
    """Remembers the ids of requests for as long as their senders repeat them."""

    def __init__(self, publisher: Publisher) -> None:
        self._deliveries = publisher.deliveries

    async def knows(self, key: str) -> bool:
        """Whether a request of a direct webhook is a repeated one, as far as that can be known now."""
        try:
            async with asyncio.timeout(_MEMORY_SECONDS):
                return await self._deliveries.knows(key)
        except (EventsUnavailableError, TimeoutError) as error:
            logger.warning("Whether a request is a repeated one is not known: %s", reason(error))
            return False

    async def remember(self, key: str, sender: Sender) -> None:
        """Remembers a request, as far as that can be done now."""
        try:
            async with asyncio.timeout(_MEMORY_SECONDS):
                await self._deliveries.remember(key, sender.remember_seconds)
        except (EventsUnavailableError, TimeoutError) as error:
            logger.warning("A repetition of this request may not be noticed: %s", reason(error))


def request_key(webhook: Webhook, activation: Activation, sender: Sender) -> str | None:
    """By what a repeated request is noticed; None where its sender says nothing that would tell."""
    if sender.delivery_id is None:
        return None
    return delivery_key(webhook.name, activation_key(activation) or None, sender.delivery_id)
