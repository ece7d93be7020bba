"""kopf keeps nothing of the objects that it reports: there may be very many."""

from __future__ import annotations

import kopf

from tieline_operator.controller.kopf_storage import NoMemories


async def test_objects_that_were_reported_take_no_memory() -> None:
    memories = NoMemories()
    body: kopf.RawBody = {"metadata": {"uid": "1", "name": "orders", "namespace": "acme"}}

    first = await memories.recall(body, noticed_by_listing=True)
    memo = await memories.recall_memo(body, ephemeral=False)

    assert first.noticed_by_listing
    assert memo is not first.memo
    assert list(memories.iter_all_memories()) == []
    await memories.forget(body)
