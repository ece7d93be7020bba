"""A project's files: their digest, and how they are kept in ConfigMaps.

A version's files sit in immutable ConfigMaps that are named after a hash of what they hold. So the same
files make the same objects, making them twice is harmless, and versions share what did not change.
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tieline_core.identity.names import PROJECT_LABEL, label_value
from tieline_core.identity.owner_references import owner_reference
from tieline_core.objects import ObjectView
from tieline_core.resources.projects import FilesConfigMap, KeyToPath, ProjectSource
from tieline_protocol.files import MAX_FILE_BYTES

Files = Mapping[str, bytes]
"""Contents by relative path."""

# Kubernetes refuses a ConfigMap with more than 1 MiB of values; the rest is room for a file of just that.
PACK_BYTES = 900 * 1024

_NAME_HASH = 12
_READABLE = 40
_PROJECT_HASH = 16
_MAX_KEY = 200
_NOT_IN_KEYS = re.compile(r"[^-._a-zA-Z0-9]")


class FilesMissing(Exception):  # noqa: N818  (says what is the case, not that something broke)
    """Files that an object refers to are not there; the message says which, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Pack:
    """The content of one ConfigMap."""

    name: str
    """The ConfigMap's name: project, and a hash of keys and contents."""
    data: Mapping[str, bytes]
    """Contents by key."""
    paths: Mapping[str, str]
    """The file's relative path by key."""

    def reference(self) -> FilesConfigMap:
        """How a ProjectVersion refers to this ConfigMap."""
        items = [KeyToPath(key=key, path=path) for key, path in self.paths.items()]
        return FilesConfigMap(name=self.name, items=items)


def files_digest(files: Files) -> str:
    """SHA-256 (hexadecimal) over names and contents; the order of ``files`` does not matter.

    >>> files_digest({"a": b"1", "b": b""}) == files_digest({"b": b"", "a": b"1"})
    True
    >>> files_digest({"a": b"bc"}) == files_digest({"ab": b"c"})
    False
    """
    result = hashlib.sha256()
    for path in sorted(files):
        _feed(result, path.encode(), files[path])
    return result.hexdigest()


def version_digest(digest: str, labels: Mapping[str, str]) -> str:
    """What tells versions of one project apart: the files' digest, and the labels where there are any."""
    if not labels:
        return digest
    result = hashlib.sha256(digest.encode())
    for key in sorted(labels):
        _feed(result, key.encode(), labels[key].encode())
    return result.hexdigest()


def version_name(project: str, digest: str, labels: Mapping[str, str]) -> str:
    """The name of the ProjectVersion that the operator makes of files and labels: the same for the same."""
    return f"{_short(project)}-{version_digest(digest, labels)[:_NAME_HASH]}"


def pack(project: str, files: Files) -> list[Pack]:
    """Distributes files over ConfigMaps, in the order of their paths.

    The ConfigMaps' names begin with the project's name, or with the beginning and a hash of a long one. A file
    larger than a pack gets a ConfigMap of its own; one larger than MAX_FILE_BYTES is a ValueError
    (``checks.check_files`` tells people before).
    """
    prefix = _short(project)
    packs: list[Pack] = []
    current: dict[str, bytes] = {}
    size = 0
    for path in sorted(files):
        content = files[path]
        if len(content) > MAX_FILE_BYTES:
            raise ValueError(f"{path} has {len(content)} bytes, a ConfigMap holds {MAX_FILE_BYTES}")
        if current and size + len(content) > PACK_BYTES:
            packs.append(_pack(prefix, current))
            current, size = {}, 0
        current[path] = content
        size += len(content)
    if current:
        packs.append(_pack(prefix, current))
    return packs


def config_map(content: Pack, project: ObjectView) -> dict[str, Any]:
    """The manifest of a pack's ConfigMap, which the Project owns.

    Operator and API apply it under one name whenever the files are the same, so all that it holds follows from the
    pack and the Project: a field that one of them wrote in another way would be a conflict for the other.
    """
    metadata = project["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": content.name,
            "namespace": metadata["namespace"],
            "labels": {
                PROJECT_LABEL: label_value(metadata["name"]),
                "app.kubernetes.io/managed-by": "tieline",
            },
            "ownerReferences": [owner_reference(project, controller=True)],
        },
        "immutable": True,
        "binaryData": {key: base64.b64encode(value).decode() for key, value in content.data.items()},
    }


def contents(obj: Mapping[str, Any]) -> dict[str, bytes]:
    """All values of a ConfigMap as bytes, by key."""
    result = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    for key, value in (obj.get("binaryData") or {}).items():
        try:
            result[key] = base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise FilesMissing(f'Key "{key}" of ConfigMap "{obj["metadata"]["name"]}" is broken') from error
    return result


def unpack(
    references: Iterable[FilesConfigMap], config_maps: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, bytes]]:
    """The files that ``references`` name, read from ConfigMaps by name.

    A list, because people may name one path twice (which ``check_files`` reports). Raises FilesMissing
    when a ConfigMap or a key is not there.
    """
    files: list[tuple[str, bytes]] = []
    for reference in references:
        obj = config_maps.get(reference.name)
        if obj is None:
            raise FilesMissing(
                f'ConfigMap "{reference.name}" does not exist; create it, or remove it from the source'
            )
        data = contents(obj)
        if reference.items is None:
            files += sorted(data.items())
            continue
        for item in reference.items:
            if item.key not in data:
                raise FilesMissing(
                    f'ConfigMap "{reference.name}" has no key "{item.key}"; '
                    "add it to the ConfigMap, or correct the items that name it"
                )
            files.append((item.path, data[item.key]))
    return files


def source_files(
    source: ProjectSource, config_maps: Mapping[str, Mapping[str, Any]]
) -> list[tuple[str, bytes]]:
    """A project's current files: those in the manifest and those in its ConfigMaps."""
    inline = [(file.filename, file.content.encode()) for file in source.files]
    return inline + unpack(source.config_maps, config_maps)


def _feed(digest: Any, name: bytes, content: bytes) -> None:
    digest.update(f"{len(name)}:{len(content)}:".encode())
    digest.update(name)
    digest.update(content)


def _pack(prefix: str, files: Files) -> Pack:
    data: dict[str, bytes] = {}
    paths: dict[str, str] = {}
    for path, content in files.items():
        key = _key(path, taken=data)
        data[key] = content
        paths[key] = path
    name = f"{prefix}-files-{files_digest(data)[:_NAME_HASH]}"
    return Pack(name=name, data=data, paths=paths)


def _key(path: str, *, taken: Mapping[str, bytes]) -> str:
    """A ConfigMap key that people recognise: ``shop/orders.py`` becomes ``shop__orders.py``."""
    key = _NOT_IN_KEYS.sub("_", path.replace("/", "__"))[-_MAX_KEY:]
    if key in taken or key in (".", "..") or key.startswith(".."):
        return f"{hashlib.sha256(path.encode()).hexdigest()[:_NAME_HASH]}-{key.lstrip('.')}"
    return key


def _short(project: str) -> str:
    """A beginning of names that no other project has: the project's name, or the beginning and a hash of a long one."""
    if len(project) <= _READABLE:
        return _cut(project)
    digest = hashlib.sha256(project.encode()).hexdigest()[:_PROJECT_HASH]
    return f"{project[: _READABLE - _PROJECT_HASH - 1].rstrip('-.')}-{digest}"


def _cut(project: str) -> str:
    return project[:_READABLE].rstrip("-.")
