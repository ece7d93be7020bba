"""Requests of queued webhooks: stored before they are answered."""

import json
import logging
import time
from collections.abc import Callable

from aiohttp import web

from tieline.configuration.snapshot import Activation
from tieline.errors import reason
from tieline.events.event import MAX_KEY, key_in
from tieline.events.publisher import Publisher
from tieline.events.queue import EventsUnavailableError
from tieline.integration import Webhook
from tieline.server.refused_error import RefusedError
from tieline.server.repeated_requests import RepeatedRequests, request_key
from tieline.server.responses import fixed_answer
from tieline.server.stored_request import DEDUPLICATION_HEADERS, kept_request
from tieline.server.webhook_signatures import Sender
from tieline.telemetry.redaction import Redactor
from tieline.telemetry.spans import Span
from tieline.telemetry.trace_context import traceparent
from tieline_protocol.event_streams import MAX_EVENT_BYTES, hashed
from tieline_protocol.events import EventMetadata

logger = logging.getLogger("tieline.run")

_MAX_EVENT_ID = 200


class QueuedRequests:
    """Stores requests as events."""

    def __init__(
        self, publisher: Publisher, repeated: RepeatedRequests, redactor: Callable[[], Redactor]
    ) -> None:
        """``redactor`` masks what is kept of a request."""
        self._publisher = publisher
        self._repeated = repeated
        self._redactor = redactor

    async def store(
        self,
        webhook: Webhook,
        request: web.Request,
        execution_id: str,
        activation: Activation,
        span: Span,
        sender: Sender,
    ) -> web.StreamResponse:
        """Store the request, and answer 202, or what its sender expects. Raises RefusedError."""
        body = await request.read()
        if len(body) > MAX_EVENT_BYTES:
            raise RefusedError(
                413, "too_large", f"The request's body may have at most {MAX_EVENT_BYTES} bytes"
            )
        redact = self._redactor()
        # What a signature vouches for comes first: a replay could have another one of the headers.
        identifiers = (
            sender.delivery_id,
            *(request.headers.get(name) for name in DEDUPLICATION_HEADERS),
        )
        key = request_key(webhook, activation, sender)
        metadata = EventMetadata(
            run=execution_id,
            kind="webhook",
            task=webhook.name,
            queued_at=time.time(),
            user=activation.user.external_id if activation.user else None,
            key=_key(webhook, body),
            event_id=next((_event_id(one) for one in identifiers if one), None),
            traceparent=traceparent(span.context),
            request=kept_request(request, redact),
        )
        try:
            if key is not None and await self._publisher.deliveries.knows(key):
                stored = False
            else:
                stored = await self._publisher.store(metadata, body, attempts=webhook.retry.attempts)
        except EventsUnavailableError as error:
            logger.error("A request to %s was not stored: %s", webhook.name, reason(error))
            raise RefusedError(
                503,
                "unavailable",
                "The request cannot be stored right now, and was not accepted; send it again in a moment",
                headers={"Retry-After": "5"},
            ) from None
        if key is not None and stored:
            # Only now: a request that was not stored has to be accepted when it is sent again.
            await self._repeated.remember(key, sender)
        accepted = webhook.answer or (sender.scheme.answer if sender.scheme else None)
        if accepted is not None:
            return fixed_answer(accepted)
        content = {"runId": execution_id} if stored else {"duplicate": True}
        return web.json_response(content, status=202)


def _key(webhook: Webhook, body: bytes) -> str | None:
    """The key that keeps a request in order; None where it has none."""
    if webhook.key is None:
        return None
    try:
        key = key_in(json.loads(body), webhook.key)
    except (ValueError, RecursionError):
        return None
    return key[:MAX_KEY] if key else None


def _event_id(text: str) -> str:
    """What a sender gave; of a longer text its hash, as another one may begin in the same way."""
    return text if len(text) <= _MAX_EVENT_ID and text.isprintable() else hashed(text)
