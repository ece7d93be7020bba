"""Records in a ConfigMap which namespace is which organisation: who had an id first keeps it."""

import logging
import time
from collections.abc import Callable, Sequence

from tieline_core.identity.organisations import Records, labelled_id
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_operator.apply.applier import WriteObserver, Writer
from tieline_operator.apply.plan import MANAGER
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.cache.indexers import PRIMARY_RESOURCES
from tieline_operator.cache.organisations import MOST_RECORDS, records_in, updated_records
from tieline_operator.queues.workqueue import WorkQueue

logger = logging.getLogger(__name__)

RESERVED_SECONDS = 4200.0
"""How long the id of a namespace that is gone stays reserved: until its streams are deleted after an hour (see
``StreamCollector``), and ten minutes more. So a namespace that gets the id next gets no runs and no state with it."""
_AGAIN_SECONDS = 60.0


class OrganisationRecorder:
    """Keeps the records while this replica leads."""

    def __init__(
        self,
        listers: Listers,
        writer: Writer,
        observer: WriteObserver,
        home: str,
        *,
        namespaces: Sequence[str] = (),
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """``home`` is the release's own namespace; ``namespaces`` are those that are served: none means all."""
        self._listers = listers
        self._writer = writer
        self._observer = observer
        self._home = home
        self._served = frozenset(namespaces)
        self._now = now
        self._gone: dict[str, float] = {}
        """When a namespace with a record was first seen to be gone."""
        self._known: Records = {}
        """The records as this replica left them: they are written again if the ConfigMap is deleted."""
        self.queue: WorkQueue[str] = WorkQueue(self._record, workers=1)

    def changed(self, _change: Change) -> None:
        """A namespace or the records have changed."""
        self.queue.add(self._home)

    async def _record(self, _home: str) -> float | None:
        """Writes the records if they differ. Seconds until the next look, where no event says when."""
        namespaces = [
            one
            for one in self._listers[r.NAMESPACES].list()
            if not self._served or one["metadata"]["name"] in self._served
        ]
        carried = {one["metadata"]["name"]: labelled_id(one) for one in namespaces}
        before = records_in(self._listers)
        known = before or self._known
        now = self._now()
        self._gone = {name: self._gone.get(name, now) for name in set(known.values()) - carried.keys()}
        records = updated_records(
            known,
            namespaces,
            in_use=self._in_use,
            released={name for name, since in self._gone.items() if now - since >= RESERVED_SECONDS},
        )
        if records != before:
            await self._write(records)
        self._known = records
        follows = all(carried.get(name) == identifier for identifier, name in records.items())
        return None if follows else _AGAIN_SECONDS

    def _in_use(self, namespace: str) -> bool:
        return any(self._listers[resource].list(namespace) for resource in PRIMARY_RESOURCES)

    async def _write(self, records: Records) -> None:
        metadata = {"name": r.ORGANISATION_RECORDS.object_name, "namespace": self._home}
        for known in self._listers[r.ORGANISATION_RECORDS].list():
            # What another leader has written since is read first.
            metadata["resourceVersion"] = known["metadata"]["resourceVersion"]
        config_map = {
            "apiVersion": r.ORGANISATION_RECORDS.api_version,
            "kind": r.ORGANISATION_RECORDS.kind,
            "metadata": metadata,
            "data": dict(records),
        }
        try:
            applied = await self._writer.apply(
                r.ORGANISATION_RECORDS, config_map, field_manager=MANAGER, force=True
            )
        except Exception as error:
            logger.warning(
                "The records of organisations cannot be written, trying again: %s",
                str(error) or type(error).__name__,
            )
            raise
        self._observer.observe(r.ORGANISATION_RECORDS, applied.object)
        if len(records) >= MOST_RECORDS:
            logger.warning("No more than %d organisations are recorded", MOST_RECORDS)
