"""What a write tells, and when another replica knows it."""

import asyncio
import time
from typing import Any

import pytest

from tieline_api.cluster import revisions
from tieline_api.errors import ApiError
from tieline_core.kubernetes.resources import SYSTEMS

ID = "01JD0000000000000000000001"


def shop(version: str = "12", *, name: str = "shop", **metadata: Any) -> dict[str, Any]:
    """An object as the API server answers with it."""
    known = {"name": name, "namespace": "acme", "uid": "a1", "labels": {"tieline.dev/id": ID}}
    return {"metadata": {**known, "resourceVersion": version, **metadata}}


SHOP = shop()


class Informer:
    """A cache that has seen everything up to a version."""

    resource = SYSTEMS

    def __init__(self, version: int) -> None:
        self.version = version
        self.objects: dict[str, Any] = {"shop": SHOP}

    async def reached(self, version: str, timeout: float) -> bool:  # noqa: ASYNC109
        until = time.monotonic() + timeout
        while self.version < int(version) and time.monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        return self.version >= int(version)

    def get(self, _namespace: str, name: str) -> Any:
        return self.objects.get(name)


async def _wait(header: str, cache: Informer, seconds: float = 0.05) -> int:
    try:
        await revisions.wait(header, [cache], namespace="acme", seconds=seconds)  # type: ignore[list-item]
    except ApiError as error:
        return error.status
    return 200


async def test_a_request_tells_the_newest_version_of_each_resource_and_what_it_deleted() -> None:
    writes = revisions.recording()

    async def write(version: str) -> None:
        revisions.wrote("systems", shop(version))

    await asyncio.gather(write("9"), write("10"))
    revisions.deleted("secrets", SHOP)
    assert writes.header() == "systems:10,secrets:-shop/a1"


async def test_requests_at_once_tell_their_own_writes_only() -> None:
    async def request(version: str) -> str | None:
        writes = revisions.recording()
        await asyncio.sleep(0)
        revisions.wrote("systems", shop(version))
        await asyncio.sleep(0)
        return writes.header()

    tasks = [asyncio.create_task(request(version)) for version in ("1", "2")]
    assert await asyncio.gather(*tasks) == ["systems:1", "systems:2"]
    assert revisions.recording().header() is None, "a request that wrote nothing tells nothing"


async def test_a_request_knows_what_it_wrote_for_its_log_line() -> None:
    writes = revisions.recording()
    assert writes.log_fields() == {}
    revisions.wrote("systems", shop("811", generation=2))
    revisions.wrote("systems", shop("812", generation=3))
    revisions.wrote("secrets", shop("813", name="login"))
    revisions.deleted("connections", shop(name="old"))
    assert writes.log_fields() == {
        "wrote": {"systems/acme/shop": 3},
        "changes": [f"{ID}.3", f"{ID}.813"],
        "deleted": {"connections/acme/old": ID},
    }, "a Secret has no generation"


async def test_the_line_of_a_request_that_writes_very_much_stays_short() -> None:
    writes = revisions.recording()
    for number in range(80):
        revisions.wrote("systems", shop(name=f"shop-{number}", generation=1))
        revisions.deleted("systems", shop(name=f"shop-{number}"))
    revisions.wrote("systems", shop(name="shop-0", generation=2))
    told = writes.log_fields()
    assert {len(told[key]) for key in ("wrote", "changes", "deleted")} == {50}
    assert told["wrote"]["systems/acme/shop-0"] == 2, "the last change of each"


async def test_a_replica_that_is_behind_waits_and_then_says_so() -> None:
    cache = Informer(version=10)
    assert await _wait("systems:10", cache) == 200
    assert await _wait("systems:11", cache) == 503
    asyncio.get_running_loop().call_later(0.03, setattr, cache, "version", 11)
    assert await _wait("systems:11", cache, seconds=2) == 200


async def test_a_deletion_is_known_when_the_object_is_gone_or_another() -> None:
    cache = Informer(version=10)
    assert await _wait("systems:-shop/a1", cache) == 503
    assert await _wait("systems:-shop/b2", cache) == 200
    assert await _wait("systems:-other/a1", cache) == 200
    asyncio.get_running_loop().call_later(0.03, cache.objects.clear)
    assert await _wait("systems:-shop/a1", cache, seconds=2) == 200


@pytest.mark.parametrize(
    "header", ["x", "systems:", "systems:-a", "pods:1", "systems:1;2", "x" * 9000, "systems:²"]
)
async def test_a_header_that_is_none_of_ours_is_400(header: str) -> None:
    assert await _wait(header, Informer(version=10)) == 400
