"""When API keys were last used: an annotation of their Secrets, written at most once an hour for each key."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from cachetools import LRUCache

from tieline_api.cluster.field_managers import MANAGER
from tieline_common.backoff import jitter
from tieline_core.identity.ids import format_time, parse_time
from tieline_core.kubernetes import Kube, KubeError
from tieline_core.kubernetes.resources import SECRETS
from tieline_core.objects import ObjectView

logger = logging.getLogger(__name__)

USED = "tieline.dev/last-used-at"
"""The annotation of a key's Secret."""
_EXACT_TO = timedelta(hours=1)
_EVERY_SECONDS = 60.0
_MOST_KEYS = 10_000
_AT_ONCE = 50


class KeyUses:
    """Uses that this replica has seen, and those to write to Secrets."""

    def __init__(self, kube: Kube, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._kube = kube
        self._now = now
        self._seen: LRUCache[tuple[str, str, str], datetime] = LRUCache(_MOST_KEYS)
        self._due: dict[tuple[str, str, str], datetime] = {}

    def add(self, secret: ObjectView) -> None:
        """A key was used."""
        place, now = _place(secret), self._now()
        self._seen[place] = now
        known = _noted(secret)
        if (known is None or now - known >= _EXACT_TO) and len(self._due) < _MOST_KEYS:
            self._due[place] = now

    def last(self, secret: ObjectView) -> datetime | None:
        """When a key was last used, exact to an hour; None where that is not known."""
        found = [one for one in (self._seen.get(_place(secret)), _noted(secret)) if one is not None]
        return max(found, default=None)

    async def run_periodically(self) -> None:
        """Writes what is due about every minute, until cancelled. No failure ends the loop."""
        while True:
            await asyncio.sleep(jitter(_EVERY_SECONDS))
            try:
                await self.note()
            except Exception:
                logger.exception("Cannot write the last uses of API keys, trying again later")

    async def note(self) -> None:
        """Writes what is due. What cannot be written now is due again with the next use."""
        for place in list(self._due)[:_AT_ONCE]:
            moment = self._due.pop(place)
            namespace, name, uid = place
            patch = {"metadata": {"uid": uid, "annotations": {USED: format_time(moment)}}}
            try:
                await self._kube.patch(SECRETS, name, namespace, patch, field_manager=MANAGER)
            except KubeError as error:
                logger.debug("Cannot write the last use of an API key", extra={"reason": error.reason})


def _place(secret: ObjectView) -> tuple[str, str, str]:
    metadata = secret["metadata"]
    return metadata.get("namespace", ""), metadata["name"], metadata.get("uid", "")


def _noted(secret: ObjectView) -> datetime | None:
    try:
        return parse_time((secret["metadata"].get("annotations") or {}).get(USED, ""))
    except ValueError:
        return None
