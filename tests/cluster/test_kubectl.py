"""Which ``kubectl`` the demo uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tieline_cluster.deployment.kubectl import kubectl_for
from tieline_cluster.interface import Cluster
from tieline_cluster.progress import Progress


def _program(folder: Path) -> Path:
    folder.mkdir(parents=True)
    program = folder / "kubectl"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_the_demo_s_own_wrapper_never_calls_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wrapper = _program(tmp_path / ".tieline" / "bin")
    real = _program(tmp_path / "usr" / "bin")
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{real.parent}")
    cluster = Cluster(provider="existing", name="x", kubeconfig=tmp_path / "kubeconfig")
    assert kubectl_for(cluster, Progress()).argv == (str(real),)
