"""Uploads share a bounded memory, and one organisation leaves some of it to others."""

import pytest

from tieline_api.errors import ApiError
from tieline_api.http.uploads import UploadMemory


async def test_uploads_beyond_the_room_are_told_to_come_again_and_room_comes_back() -> None:
    room = UploadMemory(1280)
    async with room.file("a") as first, room.file("b") as second:
        first.write(b"1" * 600)
        second.write(b"2" * 520)
        with pytest.raises(ApiError) as refused:
            second.write(b"3" * 30)
        assert (refused.value.status, refused.value.code) == (429, "too_many_requests")
        # The last eighth is for those who have little.
        async with room.file("c") as small:
            small.write(b"4" * 10)
            with pytest.raises(ApiError):
                small.write(b"4")
        first.file.flush()
        first.file.seek(0)
        assert first.file.read() == b"1" * 600
    async with room.file("a") as third:
        third.write(b"1" * 640)


async def test_one_organisation_has_half_of_the_room() -> None:
    room = UploadMemory(1280)
    async with room.file("a") as first, room.file("a") as second, room.file("b") as other:
        first.write(b"1" * 400)
        second.write(b"2" * 240)
        with pytest.raises(ApiError, match="Your organisation"):
            second.write(b"3")
        other.write(b"4" * 400)
