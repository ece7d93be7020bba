"""The parts of the one binary that are our own, by their own tests in Go."""

import os
import shutil
import subprocess

import pytest

from tieline_cluster.paths import sources_folder

pytestmark = pytest.mark.cluster


def test_our_own_parts_of_the_binary_keep_their_promises() -> None:
    go = shutil.which("go")
    if go is None:
        pytest.skip("the tests in Go need a Go compiler")
    done = subprocess.run(
        [go, "test", "./certificates", "./nft"],
        cwd=sources_folder(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "GOTOOLCHAIN": "local"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
