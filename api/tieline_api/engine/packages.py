"""Installed packages in the event engine: an archive in parts, and an entry once all of it is there.

Archives are named by the digest that whoever stored them computed; both ends compute it again.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from nats.js import JetStreamContext
from nats.js.errors import APIError

from tieline_api import errors
from tieline_api.engine.errors import EngineFullError, EngineUnavailableError, NoStreamError
from tieline_api.engine.requests import EngineRequests
from tieline_common.semaphores import OwnSemaphores
from tieline_core.engine.package_streams import (
    PackageEntry,
    entry_subject,
    packages_stream,
    part_subject,
)
from tieline_core.engine.publisher import is_full
from tieline_core.identity.ids import new_id
from tieline_engine.refusals import WRONG_SEQUENCE
from tieline_protocol.event_streams import EXPECTED_SEQUENCE
from tieline_protocol.packages import CHUNK_BYTES, MAX_ARCHIVE_BYTES

_PART_SECONDS = 20.0
_IN_FLIGHT = 4
_UPLOADS = 4
_DOWNLOADS = 16
"""At the same time, in a replica; each takes up to eight parts of memory."""
_DOWNLOADS_OF_ONE = 8
"""Of one organisation: those that are read slowly hold up no other one."""


class NoPackagesStreamError(EngineUnavailableError):
    """503: the organisation's stream is not there."""

    def __init__(self) -> None:
        super().__init__(
            "The event engine has no place for this organisation's packages yet: try again in a moment"
        )


class PackagesFullError(errors.ApiError):
    """503: an organisation's packages, or all that the engine has, take as much as they may."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "engine_full",
            "There is no room for the packages: those of the organisation's projects take as much as they may. Delete "
            "versions that need others, or ask your administrator for more (TIELINE_ENGINE_PACKAGES_BYTES)",
            headers={"Retry-After": "60"},
        )


@dataclass(frozen=True)
class PackageKey:
    """What packages are stored under."""

    organisation: str
    key: str

    @property
    def stream(self) -> str:
        """The organisation's stream."""
        return packages_stream(self.organisation)

    @property
    def entry(self) -> str:
        """The subject of the entry."""
        return entry_subject(self.organisation, self.key)


class PackageStore:
    """Stores archives and reads them."""

    def __init__(self, engine: EngineRequests) -> None:
        self._engine = engine
        self._uploads = asyncio.Semaphore(_UPLOADS)
        self._downloads = asyncio.Semaphore(_DOWNLOADS)
        self._own_downloads = OwnSemaphores(_DOWNLOADS_OF_ONE)

    async def entry(self, ref: PackageKey) -> PackageEntry | None:
        """The entry of a key; None where there are no packages of it. ApiError 503."""
        found = await self._engine.first_at(ref.stream, ref.entry)
        return PackageEntry.decoded(found.data) if found else None

    async def store(self, ref: PackageKey, digest: str, content: AsyncIterator[bytes]) -> PackageEntry:
        """Stores an archive, unless the key has one: the first one stays. Returns what is there now.

        ApiError 413 for an archive that is too large, 422 for one with another digest, and 503.
        """
        if existing := await self.entry(ref):
            return existing
        upload = new_id()
        stored = False
        async with self._uploads:
            try:
                entry = await self._upload(ref, upload, digest, content)
                stored = await self._complete(ref, entry)
            finally:
                if not stored:
                    await self._engine.purge(ref.stream, part_subject(ref.organisation, ref.key, upload, "*"))
        if stored:
            return entry
        existing = await self.entry(ref)
        if existing is None:
            raise EngineUnavailableError
        return existing

    async def read(self, ref: PackageKey, entry: PackageEntry) -> AsyncGenerator[bytes, None]:
        """The parts of an archive in order. ApiError 503."""
        async with self._own_downloads.of(ref.organisation), self._downloads:
            first = range(min(_IN_FLIGHT, entry.parts))
            ahead = [asyncio.create_task(self._part(ref, entry, number)) for number in first]
            try:
                for number in range(entry.parts):
                    data = await ahead.pop(0)
                    if number + _IN_FLIGHT < entry.parts:
                        ahead.append(asyncio.create_task(self._part(ref, entry, number + _IN_FLIGHT)))
                    yield data
            finally:
                for task in ahead:
                    task.cancel()
                await asyncio.gather(*ahead, return_exceptions=True)

    async def _part(self, ref: PackageKey, entry: PackageEntry, number: int) -> bytes:
        subject = part_subject(ref.organisation, ref.key, entry.upload, number)
        found = await self._engine.first_at(ref.stream, subject)
        if found is None:
            raise EngineUnavailableError("A part of the packages is missing: they are installed again")
        return found.data

    async def _upload(
        self, ref: PackageKey, upload: str, digest: str, content: AsyncIterator[bytes]
    ) -> PackageEntry:
        found, size, number = hashlib.sha256(), 0, 0
        pending: set[asyncio.Task[int]] = set()
        try:
            async for part in _parts(content):
                size += len(part)
                if size > MAX_ARCHIVE_BYTES:
                    raise too_large()
                found.update(part)
                subject = part_subject(ref.organisation, ref.key, upload, number)
                pending.add(asyncio.create_task(self._publish(ref, subject, part)))
                number += 1
                if len(pending) >= _IN_FLIGHT:
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        task.result()
            await asyncio.gather(*pending)
        finally:
            # One that was sent is stored, also after a purge that overtakes it: wait until it is there.
            await asyncio.gather(*pending, return_exceptions=True)
        if found.hexdigest() != digest:
            raise errors.invalid("digest", "is not that of the archive that came")
        return PackageEntry(digest=digest, size=size, upload=upload, parts=number)

    async def _complete(self, ref: PackageKey, entry: PackageEntry) -> bool:
        """Stores the entry where there is none; whether it did."""
        return await self._publish(ref, ref.entry, entry.encoded(), only_first=True) > 0

    async def _publish(self, ref: PackageKey, subject: str, data: bytes, *, only_first: bool = False) -> int:
        """The message's number; 0 where ``only_first`` and there is one."""

        async def work(jetstream: JetStreamContext) -> int:
            try:
                stored = await jetstream.publish(
                    subject,
                    data,
                    timeout=_PART_SECONDS,
                    stream=ref.stream,
                    headers={EXPECTED_SEQUENCE: "0"} if only_first else None,
                )
            except APIError as error:
                if error.err_code in WRONG_SEQUENCE:
                    return 0
                if is_full(error):
                    raise PackagesFullError from None
                raise
            return stored.seq

        try:
            return await self._engine.ask(work, seconds=_PART_SECONDS)
        except NoStreamError:
            raise NoPackagesStreamError from None
        except EngineFullError:
            raise PackagesFullError from None


async def _parts(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The content in parts of one size, the last one smaller."""
    buffer = bytearray()
    async for chunk in content:
        buffer += chunk
        while len(buffer) >= CHUNK_BYTES:
            yield bytes(buffer[:CHUNK_BYTES])
            del buffer[:CHUNK_BYTES]
    if buffer:
        yield bytes(buffer)


def too_large() -> errors.ApiError:
    """413: an archive is larger than any may be."""
    return errors.ApiError(
        413,
        "too_large",
        f"The packages take more than {MAX_ARCHIVE_BYTES >> 20} MiB: use fewer or smaller ones, or your own image",
    )
