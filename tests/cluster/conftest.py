"""Clusters of the tests' own, in a state folder of their own, beside whatever runs on the machine."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tieline_cluster.node.builtin import BuiltIn
from tieline_cluster.paths import clusters_folder
from tieline_cluster.progress import Lines


@pytest.fixture(scope="module")
def own_state() -> Iterator[Path]:
    """A short path: the kubelet's sockets are below it."""
    before = os.environ.get("XDG_STATE_HOME")
    folder = Path(tempfile.mkdtemp(prefix="tl-"))
    os.environ["XDG_STATE_HOME"] = str(folder)
    yield folder
    for cluster in clusters_folder().glob("*"):
        BuiltIn(name=cluster.name, progress=Lines()).down()
    shutil.rmtree(folder, ignore_errors=True)
    os.environ.pop("XDG_STATE_HOME")
    if before is not None:
        os.environ["XDG_STATE_HOME"] = before


@pytest.fixture(scope="module")
def with_node(own_state: Path) -> BuiltIn:
    """A cluster with a node, up."""
    if os.geteuid() != 0:
        pytest.skip("a cluster with a node needs root")
    provider = BuiltIn(name="node", progress=Lines(), install=True, fsync=False, audit="changes")
    provider.up()
    return provider
