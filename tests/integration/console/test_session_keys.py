"""Replicas share the keys of sessions and what comes of a refresh, with the API's own rights."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.harness.cluster.kubectl import Kubectl
from tieline_api.console.refresh_notes import RefreshNotes
from tieline_api.console.sealing import UnsealError
from tieline_api.console.session_keys import KEYS_SECRET, SessionKeys
from tieline_core.kubernetes import Kube

pytestmark = pytest.mark.cluster


@pytest.fixture
async def kube(api_kubeconfig: Path) -> AsyncIterator[Kube]:
    made = await Kube.connect(kubeconfig=api_kubeconfig)
    yield made
    await made.close()


@pytest.fixture
def replica(kube: Kube, namespace: str) -> Callable[..., SessionKeys]:
    """Another replica; ``days`` is how far ahead its clock is."""

    def make(days: float = 0, **more: Any) -> SessionKeys:
        return SessionKeys(kube, namespace, now=lambda: datetime.now(UTC) + timedelta(days=days), **more)

    return make


async def test_replicas_that_start_together_have_one_key(replica: Callable[..., SessionKeys]) -> None:
    replicas = [replica() for _ in range(5)]
    sealed = await asyncio.gather(*(one.seal("session", b"mine") for one in replicas))
    for one in replicas:
        assert [await one.unseal("session", text) for text in sealed] == [b"mine"] * 5


async def test_a_new_key_ends_no_session_and_the_next_ends_the_oldest(
    replica: Callable[..., SessionKeys],
) -> None:
    ticks = [0.0]
    today = replica(clock=lambda: ticks[0])
    old = await today.seal("session", b"old")
    next_month = replica(days=31)
    new = await next_month.seal("session", b"new")
    assert await next_month.unseal("session", old) == b"old"
    ticks[0] += 6
    assert await today.unseal("session", new) == b"new", "read again at once, since the key is not known"
    later = replica(days=62)
    assert await later.unseal("session", new) == b"new"
    with pytest.raises(UnsealError):
        await later.unseal("session", old)


async def test_who_deletes_the_secret_ends_all_sessions(
    replica: Callable[..., SessionKeys], kubectl: Kubectl, namespace: str
) -> None:
    ticks = [0.0]
    keys = replica(clock=lambda: ticks[0])
    sealed = await keys.seal("session", b"mine")
    kubectl("delete", "secret", KEYS_SECRET, namespace=namespace)
    ticks[0] += 61
    with pytest.raises(UnsealError):
        await keys.unseal("session", sealed)


async def test_a_secret_that_somebody_has_spoilt_is_made_anew(
    replica: Callable[..., SessionKeys], kubectl: Kubectl, namespace: str
) -> None:
    kubectl("create", "secret", "generic", KEYS_SECRET, "--from-literal=current=short", namespace=namespace)
    keys = replica()
    assert await keys.unseal("session", await keys.seal("session", b"mine")) == b"mine"


async def test_one_of_many_refreshes_and_the_others_read_what_came_of_it(kube: Kube, namespace: str) -> None:
    replicas = [RefreshNotes(kube, namespace) for _ in range(5)]
    claims = await asyncio.gather(*(one.claim("a-refresh-token") for one in replicas))
    (note,) = [one for one in claims if one]
    waiting = [asyncio.create_task(one.result("a-refresh-token")) for one in replicas]
    await replicas[0].tell(note, "a-refresh-token", b"new tokens")
    assert await asyncio.gather(*waiting) == [b"new tokens"] * 5


async def test_a_note_shows_nothing_to_who_has_not_the_cookie_and_is_deleted_in_the_end(
    kube: Kube, kubectl: Kubectl, namespace: str
) -> None:
    notes = RefreshNotes(kube, namespace)
    note = await notes.claim("a-refresh-token")
    assert note is not None
    await notes.tell(note, "a-refresh-token", b"new tokens")
    shown = kubectl("get", "secrets", "-o", "yaml", namespace=namespace).stdout
    assert note["metadata"]["name"] in shown
    assert "a-refresh-token" not in shown
    assert await notes.sweep() == 0
    later = RefreshNotes(kube, namespace, now=lambda: datetime.now(UTC) + timedelta(minutes=6))
    assert await later.sweep() == 1
    assert await notes.result("a-refresh-token") is None


async def test_a_replica_that_dies_in_a_refresh_is_not_waited_for(kube: Kube, namespace: str) -> None:
    assert await RefreshNotes(kube, namespace).claim("a-refresh-token") is not None
    later = RefreshNotes(kube, namespace, now=lambda: datetime.now(UTC) + timedelta(seconds=31))
    assert await later.result("a-refresh-token") is None
