"""A client of the session's cluster."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tieline_core.kubernetes import Kube


@pytest.fixture
async def kube(kubeconfig: Path) -> AsyncIterator[Kube]:
    async with await Kube.connect(kubeconfig=kubeconfig) as client:
        yield client


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    """An event loop for tests that hypothesis calls, which are not asynchronous themselves."""
    with asyncio.Runner() as made:
        yield made


@pytest.fixture
def runner_kube(runner: asyncio.Runner, kubeconfig: Path) -> Iterator[Kube]:
    """A client on that loop."""

    async def opened() -> Kube:
        return await Kube.connect(kubeconfig=kubeconfig)

    client = runner.run(opened())
    try:
        yield client
    finally:
        runner.run(client.close())
