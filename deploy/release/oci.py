"""OCI image layouts: folders of blobs by digest, and the archives that tools for registries read."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from deploy.release.archives import tar_of_folder
from deploy.release.errors import ReleaseError

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
_LAYOUT_FILE, _INDEX_FILE = "oci-layout", "index.json"
_BLOBS = "blobs/sha256/"
_MOST_JSON = 4 << 20
_CHUNK = 1 << 20

Json = dict[str, Any]


class Layout:
    """A layout in a folder, which is being made or read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, content: bytes, media_type: str, **more: Any) -> Json:
        """Store a blob; its descriptor."""
        digest = hashlib.sha256(content).hexdigest()
        path = self.folder / _BLOBS / digest
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content), **more}

    def read(self, descriptor: Json) -> Json:
        """A blob that is JSON."""
        content: Json = json.loads((self.folder / _blob(descriptor)).read_bytes())
        return content

    def only_manifest(self) -> Json:
        """The manifest of a layout with one image."""
        (descriptor,) = json.loads((self.folder / _INDEX_FILE).read_bytes())["manifests"]
        return self.read(descriptor)

    def archive(self, target: Path, manifest: Json, *, tag: str, epoch: int, **descriptor: Any) -> str:
        """Write a layout with this manifest under a tag into an archive; the digest of the manifest.

        Blobs that nothing names any more are left out.
        """
        named = self.add(canonical(manifest), manifest.get("mediaType", MANIFEST), **descriptor)
        named["annotations"] = {"org.opencontainers.image.ref.name": tag}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named]}
        (self.folder / _INDEX_FILE).write_bytes(canonical(index))
        (self.folder / _LAYOUT_FILE).write_bytes(canonical({"imageLayoutVersion": "1.0.0"}))
        kept = {_blob(one) for one in (named, *_parts(manifest))}
        for path in (self.folder / _BLOBS).iterdir():
            if f"{_BLOBS}{path.name}" not in kept:
                path.unlink()
        tar_of_folder(self.folder, target, epoch)
        return str(named["digest"])


@dataclass(frozen=True)
class Archive:
    """An archive of a layout that has been checked."""

    path: Path
    digest: str
    manifest: Json

    def layers(self) -> Iterator[IO[bytes]]:
        """The content of each layer, lowest first; each is read before the next."""
        with tarfile.open(self.path) as archive:
            for layer in self.manifest["layers"]:
                file = archive.extractfile(_blob(layer))
                assert file is not None  # noqa: S101  (checked when it was opened)
                yield file


def checked(path: Path) -> Archive:
    """The archive of a layout with one manifest, all of whose parts are there and have their digests.

    Raises ReleaseError.
    """
    try:
        with tarfile.open(path) as archive:
            return _checked(path, archive)
    except (tarfile.TarError, OSError, ValueError, KeyError, TypeError) as error:
        raise ReleaseError(f"{path.name} is no OCI image layout: {error}") from None


def _checked(path: Path, archive: tarfile.TarFile) -> Archive:
    sizes = {}
    for member in archive:
        if not member.isfile():
            raise ReleaseError(f"{path.name} has {member.name}, which is no file")
        if member.name.startswith(_BLOBS):
            _require_digest(path, archive, member)
        sizes[member.name] = member.size
    (descriptor,) = _json(archive, _INDEX_FILE)["manifests"]
    manifest = _json(archive, _blob(descriptor))
    named = {_blob(one): one["size"] for one in (descriptor, *_parts(manifest))}
    expected = named | {name: sizes.get(name) for name in (_LAYOUT_FILE, _INDEX_FILE)}
    if sizes != expected:
        different = sorted(name for name in sizes.keys() | expected if sizes.get(name) != expected.get(name))
        raise ReleaseError(f"{path.name} lacks files, or has others than its index: {', '.join(different)}")
    return Archive(path, descriptor["digest"], manifest)


def _require_digest(path: Path, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
    found = hashlib.sha256()
    file = archive.extractfile(member)
    while file and (chunk := file.read(_CHUNK)):
        found.update(chunk)
    if found.hexdigest() != member.name.removeprefix(_BLOBS):
        raise ReleaseError(f"{path.name}: the content of {member.name} has another digest")


def _json(archive: tarfile.TarFile, name: str) -> Json:
    file = archive.extractfile(name)
    if file is None:
        raise KeyError(name)
    content: Json = json.loads(file.read(_MOST_JSON))
    return content


def _parts(manifest: Mapping[str, Any]) -> Iterator[Json]:
    yield manifest["config"]
    yield from manifest["layers"]


def _blob(descriptor: Mapping[str, Any]) -> str:
    algorithm, _, digest = str(descriptor["digest"]).partition(":")
    if algorithm != "sha256":
        raise ReleaseError(f"Only SHA-256 is known, not {descriptor['digest']}")
    return f"{_BLOBS}{digest}"


def canonical(content: Mapping[str, Any]) -> bytes:
    """JSON whose bytes follow from the content alone."""
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
