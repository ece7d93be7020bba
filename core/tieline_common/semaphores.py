"""Bounds on what is done at once for each of many owners."""

import asyncio
from weakref import WeakValueDictionary


class OwnSemaphores:
    """A semaphore for each owner, which lasts as long as somebody uses it."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._semaphores: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def of(self, owner: str) -> asyncio.Semaphore:
        """The semaphore of an owner, such as an organisation."""
        return self._semaphores.setdefault(owner, asyncio.Semaphore(self._at_once))
