"""Uploads share a bounded memory."""

import pytest

from tieline_api.engine.uploads import Room
from tieline_api.errors import ApiError


async def test_uploads_beyond_the_room_are_told_to_come_again_and_room_comes_back() -> None:
    room = Room(10)
    async with room.file() as first:
        room.write(first, b"12345678")
        async with room.file() as second:
            room.write(second, b"12")
            with pytest.raises(ApiError) as refused:
                room.write(second, b"3")
        assert (refused.value.status, refused.value.code) == (429, "too_many_requests")
        first.flush()
        first.seek(0)
        assert first.read() == b"12345678"
    async with room.file() as third:
        room.write(third, b"1234567890")
