"""Documents where there is no event engine: keys of a ConfigMap, each changed by compare-and-swap.

A ConfigMap belongs to (and goes with) what its documents are about: the ServiceAccount of an environment, or a
user's Activation. The API keeps no copy: each reading asks Kubernetes, so that replicas never disagree.
"""

import asyncio
import re
import secrets
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from tieline_api import errors
from tieline_api.store.documents import (
    Document,
    DocumentKey,
    DocumentScope,
    changed,
    check_size,
    json_text,
)
from tieline_api.store.field_managers import MANAGER
from tieline_common.backoff import jitter
from tieline_core.identity.ids import format_time
from tieline_core.identity.names import STATE_LABEL
from tieline_core.identity.owner_references import controller_of, is_owned
from tieline_core.kubernetes import AlreadyExists, Conflict, Kube, NotFound
from tieline_core.kubernetes.reading import find
from tieline_core.kubernetes.resources import CONFIG_MAPS, PROJECTS
from tieline_core.objects import ObjectView

_TRIES = 8
_PAUSE = 0.03
_LOCKS = 64
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


class ConfigMapDocuments:
    """See Documents. Keys are what Kubernetes allows, and nothing expires."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        # Those of one replica take turns at a ConfigMap, and so rarely have to look at it again.
        self._locks = [asyncio.Lock() for _ in range(_LOCKS)]

    async def get(self, ref: DocumentKey) -> Document | None:
        """See Documents."""
        return _document(await self._config_map(ref), ref.key)

    async def keys(self, scope: DocumentScope) -> list[str]:
        """See Documents."""
        data = (await self._config_map(scope) or {}).get("data") or {}
        return sorted(key for key in data if parsed(data, key))

    async def put(
        self, ref: DocumentKey, value: Any, *, anyway: bool, expected: str | None, expires: int | None = None
    ) -> str:
        """See Documents."""
        if expires is not None:
            raise errors.invalid("expires", "needs the event engine, which is not configured: leave it out")
        if not _KEY.fullmatch(ref.key):
            raise errors.invalid(
                "key",
                "must be 1 to 100 letters, digits, '-', '_' or '.', not starting with a mark, as long as no event "
                "engine is configured",
            )
        check_size(ref, json_text(value))
        version = secrets.token_hex(8)
        text = orjson.dumps(
            {"version": version, "at": format_time(datetime.now(UTC)), "value": value}
        ).decode()
        await self._change(ref, text, anyway=anyway, expected=expected)
        return version

    async def delete(self, ref: DocumentKey, *, anyway: bool, expected: str | None) -> None:
        """See Documents."""
        await self._change(ref, None, anyway=anyway, expected=expected)

    async def _change(
        self, ref: DocumentKey, text: str | None, *, anyway: bool, expected: str | None
    ) -> None:
        """Other documents of the ConfigMap may change at the same time: then it is looked at again."""
        async with self._locks[hash((ref.namespace, ref.name)) % _LOCKS]:
            for number in range(1, _TRIES + 1):
                there = await self._config_map(ref)
                document = _document(there, ref.key)
                if not anyway and expected != (document.version if document else None):
                    raise changed()
                if text is None and document is None:
                    return
                try:
                    await self._write(ref, there, text)
                except (AlreadyExists, Conflict, NotFound):
                    await asyncio.sleep(jitter(_PAUSE * number, 0.0, 1.0))
                    continue
                return
        raise errors.unavailable("Too many change this at once: try again in a moment")

    async def _write(self, ref: DocumentKey, there: ObjectView | None, text: str | None) -> None:
        if there is None:
            if text is not None:
                await self._kube.create(CONFIG_MAPS, _config_map(ref, text), field_manager=MANAGER)
            return
        changed: dict[str, str | None] = {ref.key: text}
        if text is not None:
            changed |= dict.fromkeys(_forgotten(ref, there, text))
        metadata: dict[str, Any] = {"resourceVersion": there["metadata"]["resourceVersion"]}
        if not is_owned(there, ref.owner["uid"]):
            # After a restore the Project holds it, until the environment's new ServiceAccount does.
            metadata["ownerReferences"] = [dict(ref.owner)]
        patch = {"metadata": metadata, "data": changed}
        await self._kube.patch(CONFIG_MAPS, ref.name, ref.namespace, patch, field_manager=MANAGER)

    async def _config_map(self, ref: DocumentScope) -> ObjectView | None:
        found = await find(self._kube, CONFIG_MAPS, ref.name, ref.namespace)
        if found is None:
            return None
        controller = controller_of(found)
        restored = controller is None or controller.get("kind") == PROJECTS.kind
        if not has_state(found) or not restored:
            raise errors.conflict(f"A ConfigMap {ref.name} that is not Tieline's is in the way: rename it")
        return found


def has_state(config_map: ObjectView) -> bool:
    """Whether a ConfigMap is one in which this module keeps documents."""
    return STATE_LABEL in (config_map["metadata"].get("labels") or {})


def _config_map(ref: DocumentKey, text: str) -> dict[str, Any]:
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": ref.name,
            "namespace": ref.namespace,
            "labels": {STATE_LABEL: "true"},
            "ownerReferences": [dict(ref.owner)],
        },
        "data": {ref.key: text},
    }


def _document(config_map: ObjectView | None, key: str) -> Document | None:
    found = parsed((config_map or {}).get("data") or {}, key)
    if not found:
        return None
    return Document(text=orjson.dumps(found.get("value")), version=str(found.get("version")))


def parsed(data: Mapping[str, str], key: str) -> dict[str, Any]:
    """A key's document; empty for what is none."""
    try:
        found = orjson.loads(data.get(key, ""))
    except orjson.JSONDecodeError:
        return {}
    return found if isinstance(found, dict) else {}


def _forgotten(ref: DocumentKey, there: ObjectView, text: str) -> list[str]:
    """The keys that make room for ``text``; ApiError 422 when there is none."""
    bounds = ref.bounds
    data = {key: value for key, value in (there.get("data") or {}).items() if key != ref.key}
    oldest_first = sorted(data, key=lambda key: str(parsed(data, key).get("at")))
    forgotten: list[str] = []
    while (
        len(data) + 1 > bounds.keys
        or sum(len(value.encode()) for value in data.values()) + len(text.encode()) > bounds.total_bytes
    ):
        if not bounds.forgets or not oldest_first:
            raise errors.invalid(
                "value",
                f"there is no room for it: at most {bounds.keys} values and {bounds.total_bytes:,} bytes in all are "
                "kept; delete some first",
            )
        forgotten.append(oldest_first.pop(0))
        del data[forgotten[-1]]
    return forgotten
