"""Packages on a real nats-server: storing them, reading them, and what the operator deletes of them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from tests.harness.processes.nats_server import NatsServer
from tests.harness.session.waiting import until
from tests.unit.operator import objects as o
from tests.unit.operator.fake_cluster import FakeCluster
from tieline_api.engine import packages as storing
from tieline_api.engine.connection import Engine
from tieline_api.engine.packages import PackageKey, PackageStore
from tieline_api.errors import ApiError
from tieline_core.engine.package_streams import ensure_packages, packages_stream, stored_packages
from tieline_core.engine.state_reading import subjects_of
from tieline_core.engine.streams import StreamLimits
from tieline_core.kubernetes.resources import NAMESPACES, PROJECT_VERSIONS
from tieline_operator.engine.connection import account_client
from tieline_operator.engine.state_sweep import GRACE_SECONDS, StateSweep
from tieline_protocol.packages import CHUNK_BYTES, package_key

LIMITS = StreamLimits(packages_bytes=16 << 20)
LOCK, OTHER = "a" * 64, "b" * 64
REF = PackageKey(o.ORGANISATION, package_key(LOCK, architecture="amd64"))
ARCHIVE = os.urandom(3 * CHUNK_BYTES + 17)
DIGEST = hashlib.sha256(ARCHIVE).hexdigest()


@pytest.fixture
async def admin(engine: NatsServer) -> AsyncIterator[Client]:
    """A client with all rights, and an empty stream."""
    client = await engine.admin()
    await ensure_packages(client.jetstream(), o.ORGANISATION, LIMITS)
    await client.jetstream().purge_stream(packages_stream(o.ORGANISATION))
    yield client
    await client.close()


@pytest.fixture
async def store(engine: NatsServer, admin: Client) -> AsyncIterator[PackageStore]:
    """The API's."""
    connection = Engine((engine.url,), engine.credentials_file())
    await connection.start()
    await until(lambda: connection.connected)
    yield PackageStore(connection)
    await connection.stop()


async def pieces(content: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]
        await asyncio.sleep(0)


async def read(store: PackageStore, ref: PackageKey = REF) -> bytes:
    entry = await store.entry(ref)
    assert entry is not None
    return b"".join([part async for part in store.read(ref, entry)])


async def kept(admin: Client) -> list[str]:
    return await subjects_of(admin, packages_stream(o.ORGANISATION))


async def test_what_is_stored_is_read_as_it_was_and_the_operator_knows_it(
    store: PackageStore, admin: Client
) -> None:
    assert await store.entry(REF) is None
    entry = await store.store(REF, DIGEST, pieces(ARCHIVE))
    assert (entry.digest, entry.size, entry.parts) == (DIGEST, len(ARCHIVE), 4)
    assert await read(store) == ARCHIVE
    assert await stored_packages(admin, o.ORGANISATION) == {REF.key: entry}


async def test_an_archive_that_is_not_what_its_digest_says_leaves_nothing(
    store: PackageStore, admin: Client
) -> None:
    with pytest.raises(ApiError, match="digest"):
        await store.store(REF, "0" * 64, pieces(ARCHIVE))
    assert await kept(admin) == []


async def test_an_upload_that_breaks_off_leaves_nothing(store: PackageStore, admin: Client) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield ARCHIVE
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        await store.store(REF, DIGEST, broken())
    assert await kept(admin) == []


async def test_what_is_stored_is_not_replaced(store: PackageStore, admin: Client) -> None:
    first = await store.store(REF, DIGEST, pieces(ARCHIVE))
    evil = b"something else"
    assert await store.store(REF, hashlib.sha256(evil).hexdigest(), pieces(evil)) == first
    assert await read(store) == ARCHIVE


async def test_of_two_uploads_at_the_same_time_one_stays(store: PackageStore, admin: Client) -> None:
    other = ARCHIVE[::-1]
    entries = await asyncio.gather(
        store.store(REF, DIGEST, pieces(ARCHIVE)),
        store.store(REF, hashlib.sha256(other).hexdigest(), pieces(other)),
    )
    assert entries[0] == entries[1]
    assert hashlib.sha256(await read(store)).hexdigest() == entries[0].digest
    assert len(await kept(admin)) == entries[0].parts + 1


async def test_too_large_an_archive_is_refused(
    store: PackageStore, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "MAX_ARCHIVE_BYTES", 2 * CHUNK_BYTES)
    with pytest.raises(ApiError) as refused:
        await store.store(REF, DIGEST, pieces(ARCHIVE))
    assert refused.value.status == 413
    assert await kept(admin) == []


async def test_a_full_stream_says_whose_limit_it_is_and_keeps_what_there_is(
    store: PackageStore, admin: Client
) -> None:
    await store.store(REF, DIGEST, pieces(ARCHIVE))
    large = os.urandom(14 << 20)
    other = PackageKey(o.ORGANISATION, "c" * 64)
    with pytest.raises(ApiError, match="TIELINE_ENGINE_PACKAGES_BYTES"):
        await store.store(other, hashlib.sha256(large).hexdigest(), pieces(large))
    assert await read(store) == ARCHIVE
    assert len(await kept(admin)) == 5


async def test_an_organisation_without_a_stream_is_told_to_wait(store: PackageStore) -> None:
    ref = PackageKey(o.ORGANISATION[::-1], REF.key)
    assert await store.entry(ref) is None
    with pytest.raises(ApiError) as refused:
        await store.store(ref, DIGEST, pieces(ARCHIVE))
    assert refused.value.status == 503


async def test_packages_go_an_hour_after_the_last_version_that_needs_them(
    engine: NatsServer, store: PackageStore, admin: Client
) -> None:
    cluster = FakeCluster(version("one", LOCK), version("two", None))
    cluster.put(NAMESPACES, o.namespace())
    now = 0.0
    sweeping = StateSweep(
        cluster,
        signer=lambda: engine.trust.users,
        open_account=lambda signer: account_client([engine.url], signer),
        architecture="amd64",
        clock=lambda: now,
    )
    await store.store(REF, DIGEST, pieces(ARCHIVE))
    unneeded = PackageKey(o.ORGANISATION, package_key(OTHER, architecture="amd64"))
    await store.store(unneeded, DIGEST, pieces(ARCHIVE))
    lost = f"packages.{o.ORGANISATION}.{REF.key}.an-upload.0"
    await admin.jetstream().publish(lost, b"a part of an upload whose API died")
    await sweeping.sweep()
    now = GRACE_SECONDS - 1
    await sweeping.sweep()
    assert len(await kept(admin)) == 11
    now = GRACE_SECONDS
    await sweeping.sweep()
    assert await read(store) == ARCHIVE
    assert await store.entry(unneeded) is None
    assert len(await kept(admin)) == 5
    cluster.remove(PROJECT_VERSIONS, "one")
    await sweeping.sweep()
    now += GRACE_SECONDS
    await sweeping.sweep()
    assert await kept(admin) == []


def version(name: str, lock: str | None) -> dict[str, object]:
    status = {"packageLock": lock} if lock else {}
    return {**o.obj("ProjectVersion", name, spec={"projectRef": {"name": "order-sync"}}), "status": status}
