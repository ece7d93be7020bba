"""Telling those who wait that something in a namespace has changed."""

import asyncio
from contextlib import suppress

from tieline_core.kubernetes import Change


class ChangeNotifier:
    """Wakes the waiters of a namespace; nothing is kept for namespaces that nobody waits in."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = {}

    def tell(self, change: Change) -> None:
        """A cache saw a change."""
        metadata = change.object["metadata"]
        for event in self._waiting.get(metadata.get("namespace", ""), ()):
            event.set()

    def notify_all(self) -> None:
        """Wakes everybody, because the process ends."""
        for events in self._waiting.values():
            for event in events:
                event.set()

    async def wait(self, namespace: str, seconds: float) -> None:
        """Returns after the next change in ``namespace``, or after ``seconds``."""
        event = asyncio.Event()
        waiting = self._waiting.setdefault(namespace, set())
        waiting.add(event)
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await event.wait()
        finally:
            waiting.discard(event)
            if not waiting and self._waiting.get(namespace) is waiting:
                del self._waiting[namespace]
