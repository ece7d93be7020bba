"""A client of the session's cluster."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tieline_core.kube import Kube


@pytest.fixture
async def kube(kubeconfig: Path) -> AsyncIterator[Kube]:
    async with await Kube.connect(kubeconfig=kubeconfig) as client:
        yield client
