"""Carries documents from the ConfigMaps of earlier releases into the event engine, when they are first asked for.

A ConfigMap gets another label first, conditionally, so that replicas of the earlier release write there no more. Then
all its documents are stored in one batch, whose first message is a marker that there can be only once. At last the
ConfigMap is emptied. Whoever finds this half done goes on with it, and values that the engine has are left as they are.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

import orjson

from tieline_api import errors
from tieline_api.store.config_map_documents import has_state, parsed
from tieline_api.store.documents import DocumentScope
from tieline_api.store.engine_documents import VERSION, EngineDocuments
from tieline_api.store.field_managers import MANAGER
from tieline_common.backoff import jitter
from tieline_common.single_flight import SingleFlight
from tieline_core.identity.names import CARRIED_LABEL, STATE_LABEL
from tieline_core.kubernetes import Conflict, Kube, KubeError, NotFound
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONFIG_MAPS
from tieline_core.objects import Object
from tieline_protocol.event_streams import TTL

logger = logging.getLogger("tieline.state")

MOVING, DONE = "moving", "done"
_LOOK_SECONDS = 60.0
_TRIES = 8
_PAUSE = 0.03
_MARKER_SECONDS = 30 * 24 * 3600

Place = tuple[str, str]
"""Namespace and name of a ConfigMap."""


class CarryOver:
    """Knows which ConfigMaps are left, by a list once a minute, and carries them one by one."""

    def __init__(
        self, kube: Kube, documents: EngineDocuments, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._kube = kube
        self._documents = documents
        self._clock = clock
        self._left: set[Place] = set()
        self._looked_at: float | None = None
        self._looking: SingleFlight[None, None] = SingleFlight()
        self._carrying: SingleFlight[Place, None] = SingleFlight()

    async def need(self, scope: DocumentScope) -> None:
        """Returns once the engine has what a ConfigMap had. ApiError 503."""
        if self._looked_at is None or self._clock() - self._looked_at > _LOOK_SECONDS:
            await self._looking.run(None, self._look)
        place = (scope.namespace, scope.name)
        if place in self._left:
            await self._carrying.run(place, lambda: self._carry(scope))
            self._left.discard(place)

    async def _look(self) -> None:
        try:
            found = {
                (one["metadata"]["namespace"], one["metadata"]["name"])
                for selector in (STATE_LABEL, f"{CARRIED_LABEL}={MOVING}")
                for one in await self._listed(selector)
            }
        except KubeError as error:
            if self._looked_at is None:
                raise errors.unavailable(
                    "What earlier releases have stored cannot be read right now: try again in a moment"
                ) from error
            # What was left a minute ago is known; earlier releases add nothing once they are gone.
            logger.warning("ConfigMaps with state cannot be listed: %s", error)
        else:
            self._left = found
        self._looked_at = self._clock()

    async def _listed(self, selector: str) -> list[Object]:
        found, _ = await self._kube.list_with_version(
            CONFIG_MAPS, metadata_only=True, label_selector=selector
        )
        return found

    async def _carry(self, scope: DocumentScope) -> None:
        found = await self._fenced(scope)
        if found is None:
            return
        await self._copy(scope, found["metadata"]["uid"], found.get("data") or {})
        emptied = {"metadata": {"labels": {CARRIED_LABEL: DONE}}, "data": None}
        with suppress(NotFound):
            await self._kube.patch(CONFIG_MAPS, scope.name, scope.namespace, emptied, field_manager=MANAGER)
        logger.info(
            "Carried what a ConfigMap held into the event engine",
            extra={"namespace": scope.namespace, "config_map": scope.name},
        )

    async def _fenced(self, scope: DocumentScope) -> Object | None:
        """The ConfigMap, where nobody of the earlier release writes any more; None where nothing is to be carried."""
        for number in range(1, _TRIES + 1):
            found = await find(self._kube, CONFIG_MAPS, scope.name, scope.namespace)
            if found is None or (found["metadata"].get("labels") or {}).get(CARRIED_LABEL) == MOVING:
                return found
            if not has_state(found):
                return None
            metadata = {
                "resourceVersion": found["metadata"]["resourceVersion"],
                "labels": {STATE_LABEL: None, CARRIED_LABEL: MOVING},
            }
            try:
                return await self._kube.patch(
                    CONFIG_MAPS, scope.name, scope.namespace, {"metadata": metadata}, field_manager=MANAGER
                )
            except (Conflict, NotFound):
                await asyncio.sleep(jitter(_PAUSE * number, 0.0, 1.0))
        raise errors.unavailable("Too many change this at once: try again in a moment")

    async def _copy(self, scope: DocumentScope, uid: str, data: Mapping[str, str]) -> None:
        place = scope.place
        marker = f"{place.prefix}.~carried-{uid}"
        for _ in range(_TRIES):
            there = set(await self._documents.subjects(place))
            if marker in there:
                return
            messages: list[tuple[str, bytes, dict[str, str]]] = [(marker, b"", {TTL: f"{_MARKER_SECONDS}s"})]
            for key in data:
                document = parsed(data, key)
                if document and (subject := place.subject(key)) not in there:
                    text = orjson.dumps(document.get("value"))
                    messages.append((subject, text, {VERSION: str(document.get("version"))}))
            if await self._documents.add_all(place, messages):
                return
        raise errors.unavailable("Too many change this at once: try again in a moment")
