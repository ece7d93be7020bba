"""Multipart bodies with one JSON part and one file, counted while they arrive.

aiohttp's own limit does not hold for multipart bodies, and a body may have no end at all: every byte that
comes is counted, those between the parts too.
"""

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import orjson
from aiohttp import BodyPartReader, MultipartReader, web
from pydantic import BaseModel

from tieline_api import errors
from tieline_api.body_limits import MIB
from tieline_api.http.content_encoding import content_of
from tieline_api.http.request_body import ProgressTimeout, validate

UPLOAD_SECONDS = 120.0
_METADATA_BYTES = 64 * 1024
_AROUND_BYTES = 256 * 1024
_CHUNK_BYTES = 256 * 1024
_MAX_PARTS = 16
_METADATA, _FILE = "metadata", "file"
_FORM_DATA = "multipart/form-data"


class UploadMemory:
    """The memory that all uploads together may take while they arrive and wait for their turn.

    An owner (an organisation) may have half of it. The last part is for those that have little, so that two who
    send large files do not shut out everybody who sends a small one.
    """

    def __init__(self, total: int = 128 * MIB) -> None:
        self._left = total
        self._most = total // 2
        self._kept = total // 8
        self._little = total // 128
        self._used: Counter[str] = Counter()

    @asynccontextmanager
    async def file(self, owner: str) -> AsyncIterator["Upload"]:
        """A file in memory: it needs no place to write to, and no other process sees it."""
        file = os.fdopen(os.memfd_create("upload"), "w+b")
        upload = Upload(file, self, owner)
        try:
            yield upload
        finally:
            file.flush()
            self._left += upload.size
            self._used[owner] -= upload.size
            if not self._used[owner]:
                del self._used[owner]
            # To give back dozens of megabytes takes a while.
            await asyncio.to_thread(file.close)

    def take(self, owner: str, size: int) -> None:
        """Counts bytes of an owner; ApiError 429 when it has too many, or others leave no room."""
        used = self._used[owner] + size
        if used > self._most:
            raise errors.too_many_requests(
                "Your organisation's other uploads take all the memory that it may use: try again in a moment",
                retry_after=5,
            )
        if size > self._left - (self._kept if used > self._little else 0):
            raise errors.too_many_requests(
                "Other uploads take all the memory there is for them: try again in a moment", retry_after=5
            )
        self._used[owner] = used
        self._left -= size


class Upload:
    """A file of an owner in the room for uploads."""

    def __init__(self, file: BinaryIO, room: UploadMemory, owner: str) -> None:
        self.file = file
        self.size = 0
        self._room = room
        self._owner = owner

    def write(self, chunk: bytes) -> None:
        """Appends bytes; ApiError 429 when there is no room for them."""
        self._room.take(self._owner, len(chunk))
        self.size += len(chunk)
        self.file.write(chunk)


async def read_upload(
    request: web.Request,
    model: type[BaseModel],
    upload: Upload,
    *,
    limit: int,
    seconds: float = UPLOAD_SECONDS,
) -> tuple[BaseModel, list[str]]:
    """Writes the part ``file`` (at most ``limit`` bytes) into ``upload``; returns the part ``metadata``.

    Raises ApiError: 400, 408, 413, 415, 422, 429.
    """
    if request.content_type != _FORM_DATA:
        raise errors.ApiError(415, "unsupported_media_type", "The body must be multipart/form-data")
    too_large = errors.too_large("The file", limit=limit)
    if request.content_length is not None and request.content_length > limit + _AROUND_BYTES:
        raise too_large
    pace = ProgressTimeout(seconds)
    counted = _Counted(content_of(request), too_large=too_large, pace=pace)
    try:
        async with pace:
            raw = await _parts(request, counted, upload, limit=limit)
    except TimeoutError:
        raise errors.ApiError(
            408, "timeout", f"The body arrived too slowly, or not within {seconds:g} s"
        ) from None
    except (ValueError, AssertionError, web.RequestPayloadError):
        raise errors.malformed("The body is no multipart/form-data as its headers say") from None
    try:
        return validate(model, orjson.loads(raw))
    except orjson.JSONDecodeError as error:
        raise errors.malformed(f"The part metadata is no JSON: {error.msg}") from None


async def _parts(request: web.Request, counted: "_Counted", upload: Upload, *, limit: int) -> bytes:
    # As multipart/mixed: of form-data aiohttp reads a first part named _charset_ by itself, and fails at most of them.
    kind = request.headers.get("Content-Type", "").strip()
    headers = {"Content-Type": f"multipart/mixed{kind[len(_FORM_DATA) :]}"}
    reader = _Parts(headers, counted)  # type: ignore[arg-type]  # what it uses of a stream
    metadata: bytes | None = None
    found = False
    # What stands before the first part is read line by line, which is slow: little is allowed.
    counted.limit = _AROUND_BYTES
    for _ in range(_MAX_PARTS):
        part = await reader.next()
        if part is None:
            break
        counted.limit = limit + _AROUND_BYTES
        if not isinstance(part, BodyPartReader):
            raise errors.malformed("The body must not hold another multipart body")
        if part.name is None:
            raise errors.malformed(
                'A part has no name: its header must read Content-Disposition: form-data; name="…"'
            )
        if part.name == _METADATA and metadata is None:
            metadata = await _metadata(part)
        elif part.name == _FILE and not found:
            found = True
            await _copy(part, upload, limit=limit)
    else:
        raise errors.malformed(f"The body has more than {_MAX_PARTS} parts")
    missing = [name for name, there in ((_METADATA, metadata is not None), (_FILE, found)) if not there]
    if missing or metadata is None:
        raise errors.invalid(missing[0], f"is required: send a part of the name {missing[0]}")
    return metadata


async def _metadata(part: BodyPartReader) -> bytes:
    content = bytearray()
    while chunk := await part.read_chunk(_CHUNK_BYTES):
        content += chunk
        if len(content) > _METADATA_BYTES:
            raise errors.too_large("The part metadata", limit=_METADATA_BYTES)
    return bytes(content)


async def _copy(part: BodyPartReader, upload: Upload, *, limit: int) -> None:
    size = 0
    while chunk := await part.read_chunk(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            raise errors.too_large("The file", limit=limit)
        upload.write(chunk)
    upload.file.flush()


class _Part(BodyPartReader):
    """A part of form-data, in which a Content-Length says nothing (RFC 7578, section 4.8)."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "subtype": "form-data"})


class _Parts(MultipartReader):
    part_reader_cls = _Part


class _Counted:
    """A stream that stops with an error once more than ``limit`` bytes were read."""

    def __init__(self, stream: Any, *, too_large: errors.ApiError, pace: ProgressTimeout) -> None:
        self.limit = 0
        self._stream = stream
        self._too_large = too_large
        self._count = 0
        self._pace = pace

    async def read(self, size: int = -1) -> bytes:
        return self._counted(await self._stream.read(size))

    async def readline(self, **options: Any) -> bytes:
        return self._counted(await self._stream.readline(**options))

    def unread_data(self, data: bytes) -> None:
        self._count -= len(data)
        self._stream.unread_data(data)

    def at_eof(self) -> bool:
        return bool(self._stream.at_eof())

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _counted(self, data: bytes) -> bytes:
        self._count += len(data)
        self._pace.arrived(self._count)
        if self._count > self.limit:
            raise self._too_large
        return data
