"""Ids of Projects that were deleted lately: for an hour, their organisation alone gets them again.

A Project that is deleted and made again (``kubectl replace --force``, a sync that replaces) keeps its id and its
addresses, also where another organisation claims the same id.
"""

import time
from collections.abc import Callable

from cachetools import TTLCache

from tieline_core.identity.ids import object_id, parse_id
from tieline_core.kubernetes import Change
from tieline_operator.apply.conditions import ID_TAKEN
from tieline_operator.apply.plan import Object, Outcome, failed
from tieline_operator.cache.indexers import namespace_of

RESERVED_SECONDS = 3600.0
"""As long as the event engine keeps the streams of an environment that is gone."""
_MOST = 10_000


class ReleasedIds:
    """Remembers ids that were released, in this process: the newest 10,000."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._released: TTLCache[str, tuple[str, float]] = TTLCache(_MOST, RESERVED_SECONDS, timer=now)

    def changed(self, change: Change) -> None:
        """Remembers the id of a Project that was deleted."""
        if change.new is None and change.old is not None:
            identifier = parse_id((change.old.get("status") or {}).get("id") or "")
            if identifier:
                self._released[identifier] = namespace_of(change.old), self._now() + RESERVED_SECONDS

    def conflict(self, project: Object) -> tuple[Outcome, float] | None:
        """The outcome for a Project that claims an id of another organisation, and the seconds until it is free."""
        identifier = object_id(project)
        namespace, until = self._released.get(identifier, ("", 0.0))
        if not namespace or namespace == namespace_of(project) or (project.get("status") or {}).get("id"):
            return None
        message = (
            f"A Project of another organisation had the id {identifier} until it was deleted less than an hour ago; "
            "wait for the end of that hour, or remove the label tieline.dev/id here to get another"
        )
        return failed(ID_TAKEN, message), max(0.0, until - self._now())
