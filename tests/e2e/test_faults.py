"""A short history of operations and faults, on a cluster of its own; `make faults` is the long one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import CLUSTER
from tests.faults.__main__ import run
from tests.harness.progress import Uncaptured
from tieline_cluster.builtin import BuiltIn
from tieline_cluster.providers import ClusterProvider

pytestmark = pytest.mark.e2e

SEED = 20
SECONDS = 25


def test_a_short_history_of_faults_ends_as_it_was_written_and_harm_is_noticed(
    provider: ClusterProvider, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    if not isinstance(provider, BuiltIn):
        pytest.skip("only the built-in cluster's etcd and API server are processes that can be killed")
    run(
        cluster=f"{CLUSTER}-faults",
        seed=SEED,
        rounds=1,
        seconds=SECONDS,
        folder=tmp_path,
        progress=Uncaptured(request.config.pluginmanager.getplugin("capturemanager")),
    )
