"""A result in the cluster: a ConnectorVersion, and immutable ConfigMaps that it owns.

Names follow from the connector and the version's name, so one version name can be taken only once, however
many import it at the same moment.
"""

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tieline_core.connectors.packing import Map, head_of
from tieline_core.connectors.version_order import next_moment
from tieline_core.identity.ids import ID_LABEL, child_id, object_id, object_name
from tieline_core.identity.owner_references import owner_reference
from tieline_core.objects import Json

CONNECTOR_LABEL = "tieline.dev/connector-version"
RESERVED = frozenset({"latest", "default"})


def version_id(connector_id: str, name: str) -> str:
    """The id of a connector's version: the same for the same connector and version name."""
    return child_id(connector_id, f"version/{name}")


def _names(version: str, maps: Sequence[Map]) -> list[str]:
    """The ConfigMaps' names: that of the version, position, and a hash of the content."""
    names = []
    for number, content in enumerate(maps):
        digest = hashlib.sha256()
        for key in sorted(content):
            digest.update(f"{key}:{len(content[key])}:".encode() + content[key])
        names.append(f"{version}-{number:03d}-{digest.hexdigest()[:12]}")
    return names


def is_of(version: Mapping[str, Any], maps: Sequence[Map]) -> bool:
    """Whether a ConnectorVersion is of the result that is laid out in ``maps``."""
    return list(version["spec"]["configMaps"]) == _names(version["metadata"]["name"], maps)


def version_manifest(
    connector: Mapping[str, Any],
    *,
    name: str,
    digest: str,
    description: str = "",
    maps: Sequence[Map],
    siblings: Iterable[Mapping[str, Any]],
    now: datetime | None = None,
) -> Json:
    """The ConnectorVersion for a result that is laid out in ``maps``, newer than its ``siblings``."""
    identifier = version_id(object_id(connector), name)
    metadata = connector["metadata"]
    return {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "ConnectorVersion",
        "metadata": {
            "name": object_name(identifier),
            "namespace": metadata["namespace"],
            "labels": {ID_LABEL: identifier},
            "ownerReferences": [owner_reference(connector)],
        },
        "spec": {
            "connectorRef": {"name": metadata["name"]},
            "name": name,
            "description": description,
            "format": head_of(maps[0]).get("format", "openapi"),
            "digest": digest,
            "publishedAt": next_moment(siblings, now or datetime.now(UTC)),
            "configMaps": _names(object_name(identifier), maps),
        },
    }


def config_maps(version: Mapping[str, Any], maps: Sequence[Map]) -> list[Json]:
    """The ConfigMaps of a ConnectorVersion that was just created (its uid makes them its own)."""
    names = version["spec"]["configMaps"]
    return [config_map(version, name, content) for name, content in zip(names, maps, strict=True)]


def config_map(version: Mapping[str, Any], name: str, content: Map) -> Json:
    """One of them: up to 1.2 MiB of base64, which takes a moment."""
    metadata = version["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "labels": {CONNECTOR_LABEL: metadata["name"], "app.kubernetes.io/managed-by": "tieline"},
            "ownerReferences": [owner_reference(version)],
        },
        "immutable": True,
        "binaryData": {key: base64.b64encode(part).decode() for key, part in content.items()},
    }


def content_of(obj: Mapping[str, Any]) -> Map:
    """What a ConfigMap of a ConnectorVersion holds."""
    return {key: base64.b64decode(text) for key, text in (obj.get("binaryData") or {}).items()}
