"""Downloads artifacts of Flux's source-controller, and reads a project's files out of them.

What is in an artifact is checked by its digest, which the source's status names. It is still written by people: it may
be too large, or hold links.
"""

import asyncio
import hashlib
import io
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from typing import IO, Protocol, cast

import aiohttp

from tieline_core.project_files.config_maps import FilesMissing
from tieline_operator.sources.flux_sources import Artifact
from tieline_protocol.files import MAIN, MAX_FILE_BYTES, MAX_TOTAL_BYTES
from tieline_protocol.project_folders import code_folder, deployed, is_skipped

MAX_ARTIFACT_BYTES = 64 * 1024 * 1024
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
MAX_ENTRIES = 100_000
_ALGORITHMS = frozenset({"sha256", "sha384", "sha512"})
_MIB = 1024 * 1024
_SECONDS = 60.0
_CHUNK = 64 * 1024
_ATONCE = 2
"""Downloads at once: each holds its artifact in memory."""


class UnreadableArtifactError(Exception):
    """The artifact cannot be had now; the message says why. It is worth another try."""


class Downloader(Protocol):
    """Gets artifacts."""

    async def files(self, artifact: Artifact, path: str) -> dict[str, bytes]:
        """The files of the project in the folder ``path``. Raises UnreadableArtifactError and FilesMissing."""

    async def close(self) -> None:
        """Ends connections."""


class ArtifactDownloader:
    """Gets artifacts by HTTP."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._gate = asyncio.Semaphore(_ATONCE)

    async def files(self, artifact: Artifact, path: str) -> dict[str, bytes]:
        """The files of the project in the folder ``path``. Raises UnreadableArtifactError and FilesMissing."""
        async with self._gate:
            body = await self._download(artifact)
            return await asyncio.to_thread(files_in, body, path)

    async def close(self) -> None:
        """Ends connections."""
        if self._session is not None:
            await self._session.close()

    async def _download(self, artifact: Artifact) -> bytes:
        algorithm, _, wanted = artifact.digest.partition(":")
        if algorithm not in _ALGORITHMS:
            raise FilesMissing(
                f"The artifact's digest is made by \"{algorithm[:20]}\"; set source-controller's "
                "--artifact-digest-algo to sha256"
            )
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_SECONDS))
        body = bytearray()
        digest = hashlib.new(algorithm)
        try:
            async with self._session.get(artifact.url, allow_redirects=False) as answer:
                if answer.status != 200:
                    raise UnreadableArtifactError(
                        f"source-controller answers {answer.status} for the artifact"
                    )
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    body += chunk
                    digest.update(chunk)
                    if len(body) > MAX_ARTIFACT_BYTES:
                        raise FilesMissing(
                            f"The artifact has more than {MAX_ARTIFACT_BYTES // _MIB} MiB; leave out what is no code "
                            "by the source's spec.ignore"
                        )
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise UnreadableArtifactError(
                f"The artifact cannot be downloaded from source-controller ({type(error).__name__}); see that a "
                "NetworkPolicy lets the operator reach it"
            ) from error
        if digest.hexdigest() != wanted:
            raise UnreadableArtifactError(
                "What source-controller serves is not what the source's status says (another digest)"
            )
        return bytes(body)


def files_in(body: bytes, path: str) -> dict[str, bytes]:
    """A project's files in a tar.gz, by their path in the code's folder. Raises FilesMissing."""
    prefix = _prefix(path)
    try:
        found = dict(_members(body, prefix))
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise FilesMissing(f"The artifact is no tar.gz that can be read ({type(error).__name__})") from error
    if not found:
        where = f'the folder "{prefix.rstrip("/")}"' if prefix else "the root"
        raise FilesMissing(f"The artifact has no files in {where}; correct spec.source.sourceRef.path")
    code = code_folder(found)
    inside = {name.removeprefix(code): content for name, content in found.items() if name.startswith(code)}
    files: dict[str, bytes] = {}
    for name in deployed(inside):
        content = inside[name]
        if content is None:
            raise FilesMissing(f'"{code}{name}" is a link; put the file itself there')
        files[name] = content
    if MAIN not in files:
        raise FilesMissing(
            f'There is no {MAIN} in "{prefix or "/"}" of the artifact, nor in its integration/'
        )
    return files


def _prefix(path: str) -> str:
    normal = posixpath.normpath(path.strip("/") or ".")
    if normal.split("/")[0] == "..":
        raise FilesMissing("spec.source.sourceRef.path leads out of the artifact; name a folder in it")
    return "" if normal == "." else f"{normal}/"


def _members(body: bytes, prefix: str) -> Iterator[tuple[str, bytes | None]]:
    """Files below a folder with their contents; None for links."""
    kept = 0
    with tarfile.open(fileobj=cast(IO[bytes], _Bounded(body)), mode="r|") as archive:
        for count, member in enumerate(archive):
            if count >= MAX_ENTRIES:
                raise FilesMissing(f"The artifact has more than {MAX_ENTRIES:,} files and folders")
            name = posixpath.normpath(member.name).removeprefix("/")
            if member.isdir() or not name.startswith(prefix):
                continue
            name = name.removeprefix(prefix)
            if not member.isfile():
                yield name, None
                continue
            if is_skipped(name):
                continue
            # One byte too many is enough to be refused, with its name.
            content = archive.extractfile(member)
            read = content.read(MAX_FILE_BYTES + 1) if content else b""
            kept += len(read)
            if kept > 2 * MAX_TOTAL_BYTES:
                raise FilesMissing(
                    f"The folder has more than {MAX_TOTAL_BYTES // _MIB} MiB of files; "
                    "move files that are not code out of it"
                )
            yield name, read


class _Bounded(io.RawIOBase):
    """Decompresses up to a limit: a small archive may hold terabytes."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self._source = zlib.decompressobj(wbits=31)
        self._left = body
        self._total = 0

    def read(self, size: int = -1) -> bytes:
        data = self._source.decompress(self._left, max(size, 1))
        self._left = self._source.unconsumed_tail
        self._total += len(data)
        if self._total > MAX_UNPACKED_BYTES:
            raise FilesMissing(
                f"The artifact has more than {MAX_UNPACKED_BYTES // _MIB} MiB of files; leave out what is no code by "
                "the source's spec.ignore"
            )
        return data
