"""``python -m tests.harness.session.prebuild``: builds what late tests need, while early ones run.

Minutes on a machine that has none of it. Whoever needs one of the programs before it is there waits for it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable

import pytest

from tests.harness.cluster.kubectl import ROOT
from tests.harness.cluster.manifest_tools import manifest_tools
from tests.harness.processes.alert_rules import alert_program
from tests.harness.processes.source_controller import source_controller_program
from tests.harness.processes.trace_stores import collector_program, jaeger_program
from tieline_cluster.definition.hyperkube import ensure_binaries
from tieline_cluster.definition.nats_server import ensure_nats_server
from tieline_cluster.progress import Progress

BEGUN = "TIELINE_TEST_BUILDING"
"""Set in the environment of a session for which somebody builds already."""
_NEED = (
    "integration/engine/",
    "integration/manifests/",
    "integration/monitoring/",
    "integration/operator/",
    "integration/traces/",
    "install/",
)


def begin_for(items: Iterable[pytest.Item]) -> Callable[[], None] | None:
    """Builds, unless no test of a session needs it or somebody builds already; what stops it."""
    needed = any(str(item.path).removeprefix(f"{ROOT}/tests/").startswith(_NEED) for item in items)
    return begin() if needed and BEGUN not in os.environ else None


def begin() -> Callable[[], None]:
    """Builds; returns what stops it."""
    # It ends with the session, however that ends; a build that is cut off is begun anew by whoever needs it.
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", __name__]
    building = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )

    def stop() -> None:
        if building.poll() is None:
            os.killpg(building.pid, signal.SIGTERM)
        building.wait()

    return stop


if __name__ == "__main__":
    ensure_binaries(Progress())
    # For the others there is time.
    os.nice(15)
    for build in (
        ensure_nats_server,
        manifest_tools,
        alert_program,
        collector_program,
        jaeger_program,
        source_controller_program,
    ):
        build(Progress())
