"""The REST API as a process on this machine, working on the session's cluster."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.world import http


def free_port() -> int:
    """A port that nobody has."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class RunningApi:
    """Starts and stops ``tieline-api``; ``variables`` are of its environment."""

    kubeconfig: Path
    log: Path
    variables: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "TIELINE_LISTEN_HOST": "127.0.0.1",
            "TIELINE_LISTEN_PORT": str(self.port),
            "TIELINE_PUBLIC_API_URL": self.url,
            "TIELINE_TRACES_FILE": str(self.log.with_name("traces.db")),
            "TIELINE_SHUTDOWN_SECONDS": "2",
            **self.variables,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tieline_api.main"],
                env=environment,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + 60
        while not self._ready():
            said = self.log.read_text()[-3000:]
            assert self._process.poll() is None, f"The API ended:\n{said}"
            assert time.monotonic() < until, f"The API is never ready:\n{said}"
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=30)

    def _ready(self) -> bool:
        try:
            return http("GET", f"{self.url}/readyz", timeout=5).status == 200
        except OSError:
            return False
