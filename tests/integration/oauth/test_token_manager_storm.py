"""Fifty storms on one rotating token, by two processes of the operator's kind and two of the API's.

Each time 200 calls want the token, and the provider is asked once. Some storms lose a process on the way: before the
provider has answered, nothing is lost; between its answer and the write what cannot hold is as decision 0011 says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.harness.session.waiting import eventually_async
from tests.integration.oauth.storms import CALLS, Provider, Storm, serving
from tieline_core.kubernetes import Kube
from tieline_core.oauth import token_secret_codec

pytestmark = pytest.mark.cluster

ROUNDS = 50
KILLED_BEFORE = (7, 19, 33)
"""Rounds in which the holder dies before the provider has processed its request."""
KILLED_BETWEEN = (13, 26)
"""Rounds in which it dies between the answer and the write, and the provider allows the old token once more."""


@pytest.fixture
async def storm(kubeconfig: Path, namespace: str) -> AsyncIterator[Storm]:
    async with (
        await Kube.connect(kubeconfig=str(kubeconfig)) as kube,
        serving(Provider()) as provider,
        Storm(kube, kubeconfig, namespace, provider) as made,
    ):
        yield made


async def test_fifty_storms_make_fifty_token_requests(storm: Storm) -> None:
    provider, requests = storm.provider, 0
    for number in range(ROUNDS):
        if number:
            await storm.let_expire()
        holder = storm.workers[number % 4]
        if number in KILLED_BEFORE:
            got = await storm.with_a_holder_killed_before(holder)
        elif number in KILLED_BETWEEN:
            got = await storm.with_a_holder_killed_between(holder, grace=True)
            requests += 1
        else:
            got = await storm.wanted_by(storm.workers)
        requests += 1
        killed = number in (*KILLED_BEFORE, *KILLED_BETWEEN)
        assert len(provider.answered) == requests, f"round {number}"
        assert got == {f"at-{requests}": (4 - killed) * CALLS}, f"round {number}"
        kept = token_secret_codec.read(await storm.tokens())
        assert kept.tokens.refresh_token == provider.good
        assert (kept.claimed_by, kept.refused, kept.not_before) == ("", "", None)
    # Each refresh token was used once, but for those that died with their holder.
    assert [used for used, times in Counter(provider.answered).items() if times > 1] == [
        provider.answered[number + index] for index, number in enumerate(KILLED_BETWEEN)
    ]


async def test_a_token_that_died_with_its_holder_is_refused_once_and_heals_with_a_new_one(
    storm: Storm,
) -> None:
    provider = storm.provider
    assert (await storm.wanted_by(storm.workers)) == {"at-1": 4 * CALLS}
    await storm.let_expire()
    got = await storm.with_a_holder_killed_between(storm.workers[0], grace=False)
    assert got == {"RefusedError": 3 * CALLS}
    assert provider.answered == ["rt-0", "rt-1", "rt-1"]
    for _ in range(3):
        assert await storm.wanted_by(storm.workers) == {"RefusedError": 4 * CALLS}
    assert len(provider.answered) == 3, "nobody hammers"
    await storm.store_given()  # the person connects again

    async def all_have_it() -> bool:
        return await storm.wanted_by(storm.workers) == {"at-4": 4 * CALLS}

    await eventually_async("the new token for all", all_have_it)
    assert len(provider.answered) == 4
