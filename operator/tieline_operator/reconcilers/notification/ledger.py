"""The ledger of what a Notification has reported about connections and activations: an immutable ConfigMap of its own.

Its name has the hash of its contents. A change creates another one and deletes those before it; where a crash leaves
two, the newer one counts.
"""

import base64
import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from cachetools import LRUCache

from tieline_core.identity.names import REPORTED_LABEL
from tieline_core.identity.owner_references import owner_reference
from tieline_core.kubernetes.resources import CONFIG_MAPS, NOTIFICATIONS
from tieline_operator.apply.plan import Creation, Deletion, Object
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined
from tieline_operator.reconcilers.notification.lifecycle import Ledger, State, Subject, Tracked

_KEY = "reported"
_MOST_BYTES = 700_000
"""What a ledger may have, packed: base64 and the rest fit into what Kubernetes takes (1 MiB)."""
_READABLE = 200
_DIGITS = 16
_MEMORY = 256
_TEXTS = ("name", "user_id", "external_id", "system_id", "template_id")


class LedgerReader:
    """Reads ledgers; what is immutable is read once."""

    def __init__(self) -> None:
        self._read: LRUCache[str, Ledger] = LRUCache(_MEMORY)

    async def read(self, cache: ClusterCache, found: Sequence[Object]) -> Ledger | None:
        """What the newest of the ConfigMaps of a Notification has; None while that is not known."""
        newest = newest_first(found)
        if not newest:
            return {}
        metadata = newest[0]["metadata"]
        known = self._read.get(metadata["uid"])
        if known is not None:
            return known
        live = await cache.config_map(metadata["namespace"], metadata["name"])
        if live is None:
            return None  # the cache is behind: another one takes its place
        read = self._read[metadata["uid"]] = unpacked(live.get("binaryData") or {})
        return read


def ledgers_of(cache: ClusterCache, notification: Object) -> Sequence[Object]:
    """The ConfigMaps with what a Notification has reported, as the cache has them."""
    metadata = notification["metadata"]
    return cache[CONFIG_MAPS].by_index("reported-by", joined(metadata["namespace"], metadata["uid"]))


def newest_first(found: Sequence[Object]) -> list[Object]:
    """ConfigMaps in the order in which they were written."""
    return sorted(found, key=lambda one: int(one["metadata"]["resourceVersion"]), reverse=True)


def replacement(
    notification: Object, ledger: Ledger, found: Sequence[Object]
) -> tuple[tuple[Creation, ...], tuple[Deletion, ...]]:
    """What makes ``ledger`` the one that is stored, in the place of those ``found``."""
    manifest = _manifest(notification, ledger)
    name = manifest["metadata"]["name"]
    newest = newest_first(found)
    is_there = bool(newest) and newest[0]["metadata"]["name"] == name
    # One of this name that is not the newest was left by a crash: it goes first, and is made again.
    old = [one for one in newest if not (is_there and one is newest[0])]
    if not is_there and any(one["metadata"]["name"] == name for one in old):
        stale = [one for one in old if one["metadata"]["name"] == name]
        return (), tuple(Deletion.of(CONFIG_MAPS, one) for one in stale)
    creations = () if is_there else (Creation(resource=CONFIG_MAPS, desired=manifest),)
    return creations, tuple(Deletion.of(CONFIG_MAPS, one) for one in old)


def unpacked(data: Mapping[str, str]) -> Ledger:
    """The ledger in the contents of a ConfigMap; empty where it cannot be read."""
    try:
        rows = json.loads(zlib.decompress(base64.b64decode(data[_KEY])))
        found = [_tracked(row) for row in rows]
    except (KeyError, TypeError, ValueError, IndexError, zlib.error):
        return {}
    return {one.key: one for one in found}


def packed(ledger: Ledger) -> bytes:
    """The contents for a ledger. Of more than fits, the newest objects are left out."""
    rows = [_row(one) for one in sorted(ledger.values(), key=lambda one: (one.created, one.id))]
    while True:
        content = zlib.compress(json.dumps(rows, separators=(",", ":")).encode(), 9)
        if len(content) <= _MOST_BYTES:
            return content
        rows = rows[: len(rows) * 9 // 10]


def _manifest(notification: Object, ledger: Ledger) -> dict[str, Any]:
    metadata = notification["metadata"]
    content = packed(ledger)
    digest = hashlib.sha256(metadata["uid"].encode() + content).hexdigest()[:_DIGITS]
    owner = {**notification, "apiVersion": NOTIFICATIONS.api_version, "kind": NOTIFICATIONS.kind}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": f"{metadata['name'][:_READABLE].rstrip('-.')}-reported-{digest}",
            "namespace": metadata["namespace"],
            "labels": {REPORTED_LABEL: metadata["uid"], "app.kubernetes.io/managed-by": "tieline"},
            "ownerReferences": [owner_reference(owner)],
        },
        "immutable": True,
        "binaryData": {_KEY: base64.b64encode(content).decode()},
    }


def _row(one: Tracked) -> list[Any]:
    return [
        str(one.subject),
        one.id,
        int(one.created.timestamp()),
        str(one.state),
        *(getattr(one, name) for name in _TEXTS),
    ]


def _tracked(row: Sequence[Any]) -> Tracked:
    subject, identifier, created, state, *texts = row
    return Tracked(
        subject=Subject(subject),
        id=str(identifier),
        created=datetime.fromtimestamp(int(created), UTC),
        state=State(state),
        **{name: str(text) for name, text in zip(_TEXTS, texts, strict=True)},
    )
