"""One refresh of a session's tokens, however many requests at however many replicas want it.

A refresh token may be good once only. Who needs new tokens first makes a Secret that is named after the old refresh
token's hash; of many only one can. All others wait for what it writes there. That is sealed with a key that follows
from the old refresh token: only who has the session's cookie can read it.
"""

import asyncio
import base64
import hashlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tieline_api.console.sealing import Key, KeyRing, UnsealError
from tieline_api.console.session_keys import LABELS
from tieline_core.identity.ids import parse_time
from tieline_core.kubernetes import Kube
from tieline_core.kubernetes.errors import AlreadyExists, Conflict, NotFound
from tieline_core.kubernetes.periodic_gc import run_periodically
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import Object

logger = logging.getLogger(__name__)

PREFIX = "tieline-console-refresh-"
SWEEP_SECONDS = 300.0
_KEEP = timedelta(minutes=5)
"""Longer than any request with the old cookie is on its way."""
_CLAIM = timedelta(seconds=30)
"""Longer than a request for tokens may take: after it, who has the claim is gone."""
_POLL = 0.1
_CONTENT = "content"
_PURPOSE = "refreshed"
_COMPONENT = {"app.kubernetes.io/component": "console-refresh"}


class RefreshNotes:
    """The notes in the release's namespace."""

    def __init__(
        self, kube: Kube, namespace: str, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self._kube = kube
        self._namespace = namespace
        self._now = now

    async def claim(self, refresh_token: str) -> Object | None:
        """The note, where this caller is the one that refreshes; None where another has begun to. Raises KubeError."""
        note: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": _name(refresh_token),
                "namespace": self._namespace,
                "labels": {**LABELS, **_COMPONENT},
            },
            "type": "Opaque",
        }
        try:
            return await self._kube.create(SECRETS, note)
        except AlreadyExists:
            return None

    async def tell(self, note: Object, refresh_token: str, content: bytes) -> None:
        """Writes what came of the refresh. Raises KubeError."""
        sealed = _ring(refresh_token).seal(_PURPOSE, content)
        try:
            await self._kube.replace(
                SECRETS, {**note, "data": {_CONTENT: base64.b64encode(sealed.encode()).decode()}}
            )
        except (Conflict, NotFound):
            logger.warning("A note of a refresh was taken away before its result was written")

    async def drop(self, note: Object) -> None:
        """Takes a claim back: nothing came of it, and the refresh token is as good as before. Raises KubeError."""
        try:
            metadata = note["metadata"]
            await self._kube.delete(SECRETS, metadata["name"], metadata["namespace"], uid=metadata["uid"])
        except (Conflict, NotFound):
            return

    async def result(self, refresh_token: str) -> bytes | None:
        """What came of the refresh that another has begun; None where nothing came of it. Raises KubeError."""
        while True:
            note = await find(self._kube, SECRETS, _name(refresh_token), self._namespace)
            if note is None:
                return None
            sealed = (note.get("data") or {}).get(_CONTENT)
            if sealed:
                try:
                    return _ring(refresh_token).unseal(_PURPOSE, base64.b64decode(sealed).decode("ascii"))
                except (UnsealError, ValueError):
                    return None
            if self._age(note) >= _CLAIM:
                return None
            await asyncio.sleep(_POLL)

    async def sweep(self) -> int:
        """Deletes notes that nobody needs any more; returns how many."""
        selector = ",".join(f"{name}={value}" for name, value in _COMPONENT.items())
        found = await self._kube.list(SECRETS, self._namespace, label_selector=selector)
        old = [note for note in found if self._age(note) >= _KEEP]
        for note in old:
            await self.drop(note)
        return len(old)

    async def run_periodically(self) -> None:
        """Deletes old notes now and then, for ever."""
        await run_periodically(self.sweep, seconds=SWEEP_SECONDS, what="notes of refreshes")

    def _age(self, note: Object) -> timedelta:
        return self._now() - parse_time(note["metadata"]["creationTimestamp"])


def _name(refresh_token: str) -> str:
    digest = hashlib.sha256(b"name of a refresh" + refresh_token.encode()).hexdigest()
    return f"{PREFIX}{digest[:40]}"


def _ring(refresh_token: str) -> KeyRing:
    return KeyRing((Key(hashlib.sha256(b"key of a refresh" + refresh_token.encode()).digest()),))
