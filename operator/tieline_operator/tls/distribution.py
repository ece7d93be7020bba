"""Gives each organisation the authorities that its pods trust."""

import logging
from collections.abc import Callable, Sequence

from tieline_core.identity.organisations import labelled_id
from tieline_core.kubernetes import Change
from tieline_core.kubernetes import resources as r
from tieline_core.tls import AUTHORITIES_CONFIG_MAP
from tieline_operator.apply.applier import Writer
from tieline_operator.apply.plan import MANAGER
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.queues.workqueue import WorkQueue
from tieline_operator.tls.objects import authorities_config_map

logger = logging.getLogger(__name__)

_WORKERS = 4


class Distribution:
    """Keeps a ConfigMap in the namespace of each organisation, while this replica leads."""

    def __init__(
        self,
        listers: Listers,
        writer: Writer,
        trusted: Callable[[], str],
        *,
        namespaces: Sequence[str] = (),
    ) -> None:
        """``namespaces`` are those that are served: none means all. ``trusted`` gives PEM, "" while it is not known."""
        self._listers = listers
        self._writer = writer
        self._trusted = trusted
        self._served = frozenset(namespaces)
        self._written: dict[str, str] = {}
        """The version of each ConfigMap as it was written."""
        self.queue: WorkQueue[str] = WorkQueue(self._write, workers=_WORKERS)

    def all_changed(self) -> None:
        """Other authorities are trusted."""
        for namespace in self._listers[r.NAMESPACES].list():
            self.queue.add(namespace["metadata"]["name"])

    def namespace_changed(self, change: Change) -> None:
        """A namespace may have become an organisation."""
        if change.new is None:
            self._written.pop(change.object["metadata"]["name"], None)
        elif change.old is None or labelled_id(change.old) != labelled_id(change.new):
            self.queue.add(change.new["metadata"]["name"])

    def config_map_changed(self, change: Change) -> None:
        """Somebody may have changed the ConfigMap."""
        metadata = change.object["metadata"]
        if metadata["name"] != AUTHORITIES_CONFIG_MAP:
            return
        if change.new is None or self._written.get(metadata["namespace"]) != metadata["resourceVersion"]:
            self.queue.add_debounced(metadata["namespace"])

    async def _write(self, name: str) -> None:
        namespace, trusted = self._listers[r.NAMESPACES].get(None, name), self._trusted()
        if namespace is None or labelled_id(namespace) is None or not trusted:
            return
        if self._served and name not in self._served:
            return
        desired = authorities_config_map(name, trusted)
        try:
            applied = await self._writer.apply(r.CONFIG_MAPS, desired, field_manager=MANAGER, force=True)
        except Exception as error:
            logger.warning(
                "The authorities cannot be written, trying again: %s",
                str(error) or type(error).__name__,
                extra={"namespace": name},
            )
            raise
        self._written[name] = applied.object["metadata"]["resourceVersion"]
