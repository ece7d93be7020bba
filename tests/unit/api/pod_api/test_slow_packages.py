"""Pods and Jobs that are slow with packages, or gone, hold up no others."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tieline_api.engine.packages import PackageKey, PackageStore
from tieline_api.errors import ApiError
from tieline_api.pod_api.packages import paced, send_parts
from tieline_core.engine.package_streams import PackageEntry
from tieline_core.engine.stored_messages import StoredMessage

KEY = "a" * 64


class _Engine:
    async def first_at(self, stream: str, subject: str) -> StoredMessage:
        return StoredMessage(sequence=1, subject=subject, headers={}, data=stream.encode())


async def test_downloads_of_one_organisation_that_are_not_read_leave_room_for_another_one() -> None:
    store = PackageStore(_Engine())  # type: ignore[arg-type]
    entry = PackageEntry(digest=KEY, size=2, upload="u", parts=2)
    slow = [store.read(PackageKey("HOSTILE", KEY), entry) for _ in range(100)]
    begun = [asyncio.create_task(anext(one)) for one in slow]
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    async with asyncio.timeout(5):
        other = [part async for part in store.read(PackageKey("OTHER", KEY), entry)]
    assert other == [b"packages_OTHER"] * 2
    for task in begun:
        task.cancel()
    await asyncio.gather(*begun, return_exceptions=True)


async def test_a_pod_that_does_not_read_its_packages_is_left() -> None:
    ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def endless() -> AsyncGenerator[bytes, None]:
        try:
            while True:
                yield bytes(1 << 20)
        finally:
            ended.set_result(True)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await send_parts(request, response, endless(), seconds=0.2)
        return response

    app = web.Application()
    app.router.add_get("/", answer)
    async with TestServer(app) as server:
        reader, writer = await asyncio.open_connection(server.host, server.port, limit=1024)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        async with asyncio.timeout(20):
            assert await ended
            with suppress(ConnectionError):
                while await reader.read(1 << 16):
                    pass
            assert reader.at_eof() or reader.exception()
        writer.close()


async def test_an_upload_of_which_nothing_more_comes_is_ended() -> None:
    async def stuck() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    content = paced(stuck(), seconds=0.05)
    assert await anext(content) == b"first"
    with pytest.raises(ApiError) as told:
        await anext(content)
    assert told.value.status == 408
