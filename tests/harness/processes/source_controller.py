"""Flux's source-controller, built from its Go module, as a process on this machine."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tests.harness.cluster.kubectl import Kubectl, install_definitions
from tests.harness.processes.ports import free_ports
from tieline_cluster.definition.go_modules import ensure_built, sources_of
from tieline_cluster.progress import Progress

_MODULE = "github.com/fluxcd/source-controller"
_SOURCES = Path(__file__).parents[1] / "go" / "flux"
_START_SECONDS = 60.0


def source_controller_program(progress: Progress) -> Path:
    """The program, built when this machine has not yet."""
    folder = ensure_built(
        _SOURCES,
        progress,
        name="source-controller",
        what="Flux's source-controller",
        packages=(_MODULE,),
    )
    return folder / "source-controller"


def install_sources(kubectl: Kubectl, progress: Progress) -> None:
    """Has the cluster know Flux's sources."""
    definitions = sources_of(_MODULE, _SOURCES, progress) / "config" / "crd" / "bases"
    names = (
        "gitrepositories",
        "ocirepositories",
        "buckets",
        "externalartifacts",
        "helmcharts",
        "helmrepositories",
    )
    files = [str(definitions / f"source.toolkit.fluxcd.io_{name}.yaml") for name in names]
    install_definitions(kubectl, *(argument for file in files for argument in ("-f", file)))


@dataclass
class SourceController:
    """Starts and stops it; it dies with the thread that started it."""

    program: Path
    kubeconfig: Path
    folder: Path
    _process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it, and returns once it is ready."""
        storage, health, metrics = free_ports(3)
        data = self.folder / "artifacts"
        data.mkdir(exist_ok=True)
        address = f"127.0.0.1:{storage}"
        command: list[str | Path] = [
            *("setpriv", "--pdeathsig", "KILL", self.program),
            *(f"--storage-path={data}", f"--storage-addr={address}", f"--storage-adv-addr={address}"),
            *(f"--health-addr=127.0.0.1:{health}", f"--metrics-addr=127.0.0.1:{metrics}"),
            *("--watch-all-namespaces", "--enable-leader-election=false"),
        ]
        log = self.folder / "source-controller.log"
        with log.open("ab") as written:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "RUNTIME_NAMESPACE": "default"},
                stdout=written,
                stderr=written,
            )
        until = time.monotonic() + _START_SECONDS
        while not _answers(f"http://127.0.0.1:{health}/readyz"):
            assert self._process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.1)

    def stop(self) -> None:
        """Kills it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except (urllib.error.URLError, OSError):
        return False
