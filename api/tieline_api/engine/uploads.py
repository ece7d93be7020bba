"""Multipart bodies with one JSON part and one file, counted while they arrive.

aiohttp's own limit does not hold for multipart bodies, and a body may have no end at all: every byte that
comes is counted, those between the parts too.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, BinaryIO

import orjson
from aiohttp import BodyPartReader, MultipartReader, web
from pydantic import BaseModel

from tieline_api import errors
from tieline_api.engine.pace import Pace
from tieline_api.engine.reading import validate
from tieline_api.sizes import MIB

UPLOAD_SECONDS = 120.0
_METADATA_BYTES = 64 * 1024
_AROUND_BYTES = 256 * 1024
_CHUNK_BYTES = 256 * 1024
_MAX_PARTS = 16
_METADATA, _FILE = "metadata", "file"


class Room:
    """The memory that all uploads together may take while they arrive and wait for their turn."""

    def __init__(self, total: int = 128 * MIB) -> None:
        self._left = total

    @asynccontextmanager
    async def file(self) -> AsyncIterator[BinaryIO]:
        """A file in memory: it needs no place to write to, and no other process sees it."""
        file = os.fdopen(os.memfd_create("upload"), "w+b")
        try:
            yield file
        finally:
            file.flush()
            self._left += os.fstat(file.fileno()).st_size
            # To give back dozens of megabytes takes a while.
            await asyncio.to_thread(file.close)

    def write(self, file: BinaryIO, chunk: bytes) -> None:
        """Writes to one of these files; ApiError 429 when others leave no room."""
        if len(chunk) > self._left:
            raise errors.too_many_requests(
                "Other uploads take all the memory there is for them: try again in a moment", retry_after=5
            )
        self._left -= len(chunk)
        file.write(chunk)


async def read_upload(
    request: web.Request,
    model: type[BaseModel],
    file: BinaryIO,
    *,
    limit: int,
    room: Room,
    seconds: float = UPLOAD_SECONDS,
) -> tuple[BaseModel, list[str]]:
    """Writes the part ``file`` (at most ``limit`` bytes) into ``file``; returns the part ``metadata``.

    Raises ApiError: 400, 408, 413, 415, 422, 429.
    """
    if request.content_type != "multipart/form-data":
        raise errors.ApiError(415, "unsupported_media_type", "The body must be multipart/form-data")
    too_large = errors.too_large("The file", limit=limit)
    if request.content_length is not None and request.content_length > limit + _AROUND_BYTES:
        raise too_large
    pace = Pace(seconds)
    counted = _Counted(request.content, too_large=too_large, pace=pace)
    try:
        async with pace:
            raw = await _parts(request, counted, file, limit=limit, room=room)
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


async def _parts(
    request: web.Request, counted: "_Counted", file: BinaryIO, *, limit: int, room: Room
) -> bytes:
    reader = MultipartReader(request.headers, counted)  # type: ignore[arg-type]  # what it uses of a stream
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
        if part.name == _METADATA and metadata is None:
            metadata = await _metadata(part)
        elif part.name == _FILE and not found:
            found = True
            await _copy(part, file, limit=limit, room=room)
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


async def _copy(part: BodyPartReader, file: BinaryIO, *, limit: int, room: Room) -> None:
    size = 0
    while chunk := await part.read_chunk(_CHUNK_BYTES):
        size += len(chunk)
        if size > limit:
            raise errors.too_large("The file", limit=limit)
        room.write(file, chunk)
    file.flush()


class _Counted:
    """A stream that stops with an error once more than ``limit`` bytes were read."""

    def __init__(self, stream: Any, *, too_large: errors.ApiError, pace: Pace) -> None:
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
