"""Posts Kubernetes Events about transitions of Ready. A failure to post one changes nothing else."""

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Protocol
from uuid import uuid4

from tieline_core.kubernetes import KubeError, Resource
from tieline_core.kubernetes.resources import EVENTS
from tieline_operator.apply.plan import Object

logger = logging.getLogger(__name__)

CONTROLLER = "tieline-operator"
_MAX_NOTE_BYTES = 1024
_MAX_REASON = 128
_MAX_NAME = 200
_QUEUE_LIMIT = 1000
_LAST_SECONDS = 2.0
_MAX_DELAY = 10.0
_POLL_SECONDS = 0.05


class EventSink(Protocol):
    """The Kubernetes call that posting needs."""

    async def create(self, resource: Resource, obj: Mapping[str, Any]) -> object: ...


class EventRecorder:
    """Posts Events."""

    def __init__(self, kube: EventSink) -> None:
        self._kube = kube
        self._instance = socket.gethostname()[:128]

    async def post(self, resource: Resource, obj: Object, condition: Mapping[str, Any]) -> None:
        """Posts the Event for a condition that has just changed."""
        await self._send(self._event(resource, obj, condition))

    def _event(self, resource: Resource, obj: Object, condition: Mapping[str, Any]) -> dict[str, Any]:
        return build(resource, obj, condition, instance=self._instance, now=datetime.now(UTC))

    async def _send(self, event: dict[str, Any]) -> None:
        try:
            await self._kube.create(EVENTS, event)
        except KubeError as error:
            logger.debug("Cannot post an event: %s", error, extra={"kind": event["regarding"]["kind"]})


class QueuedEventRecorder(EventRecorder):
    """Posts Events one after the other, in the background.

    As with client-go's recorder, work does not wait for Events, and Events beyond the queue's bound are dropped. For
    the API server an Event is a write like any other: while objects wait for a worker, Events wait too, for at most ten
    seconds, and only while half of the queue is free.
    """

    def __init__(self, kube: EventSink, busy: Callable[[], bool] = lambda: False) -> None:
        """``busy`` returns whether there is work that comes first."""
        super().__init__(kube)
        self._busy = busy
        self._waiting: asyncio.Queue[tuple[float, dict[str, Any]]] = asyncio.Queue(_QUEUE_LIMIT)
        self._posting: asyncio.Task[None] | None = None
        self._stopping = False

    def start(self) -> None:
        """Starts to post."""
        self._posting = asyncio.create_task(self._post_all(), name="events")

    async def stop(self) -> None:
        """Posts what still waits, for at most two seconds, and stops."""
        if self._posting is None:
            return
        self._stopping = True
        with suppress(TimeoutError):
            await asyncio.wait_for(self._waiting.join(), _LAST_SECONDS)
        self._posting.cancel()
        with suppress(asyncio.CancelledError):
            await self._posting

    def enqueue(self, resource: Resource, obj: Object, condition: Mapping[str, Any]) -> None:
        """As ``post``, for callbacks of caches."""
        self._add(self._event(resource, obj, condition))

    async def _send(self, event: dict[str, Any]) -> None:
        self._add(event)

    def _add(self, event: dict[str, Any]) -> None:
        try:
            self._waiting.put_nowait((time.monotonic() + _MAX_DELAY, event))
        except asyncio.QueueFull:
            logger.debug("Event queue full, dropping an event", extra={"kind": event["regarding"]["kind"]})

    async def _post_all(self) -> None:
        while True:
            latest, event = await self._waiting.get()
            try:
                while self._may_wait(latest):  # noqa: ASYNC110  (four conditions end it)
                    await asyncio.sleep(_POLL_SECONDS)
                await super()._send(event)
            finally:
                self._waiting.task_done()

    def _may_wait(self, latest: float) -> bool:
        room = self._waiting.qsize() < _QUEUE_LIMIT // 2
        return room and not self._stopping and self._busy() and time.monotonic() < latest


def build(
    resource: Resource, obj: Object, condition: Mapping[str, Any], *, instance: str, now: datetime
) -> dict[str, Any]:
    """The Event for a condition. An Event about a Namespace is in that namespace, where its users look."""
    metadata = obj["metadata"]
    namespace = metadata["namespace"] if resource.namespaced else metadata["name"]
    return {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "metadata": {
            "name": f"{metadata['name'][:_MAX_NAME]}.{uuid4().hex[:16]}",
            "namespace": namespace,
        },
        "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "reportingController": CONTROLLER,
        "reportingInstance": instance,
        "action": "Reconcile",
        "reason": condition["reason"][:_MAX_REASON],
        "type": "Warning" if condition["status"] == "False" else "Normal",
        "regarding": {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "namespace": namespace,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata["resourceVersion"],
        },
        "note": _cut(condition["message"]),
    }


def _cut(message: str) -> str:
    encoded = message.encode()
    if len(encoded) <= _MAX_NOTE_BYTES:
        return message
    return encoded[: _MAX_NOTE_BYTES - 3].decode(errors="ignore") + "…"
