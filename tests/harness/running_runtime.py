"""A project's code in the runtime, as a process on this machine instead of a pod."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.running_api import free_port
from tests.harness.world import http


@dataclass
class RunningRuntime:
    """Starts and stops ``tieline.server`` with the files of ``folder`` and the token of a pod."""

    folder: Path
    code: str
    token: str
    variables: dict[str, str]
    port: int = field(default_factory=free_port)
    health_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self) -> None:
        code = self.folder / "code"
        code.mkdir(parents=True)
        (code / "main.py").write_text(self.code)
        token = self.folder / "token"
        token.write_text(self.token)
        environment = {
            **os.environ,
            "TIELINE_CODE_DIR": str(code),
            "TIELINE_TOKEN_FILE": str(token),
            "TIELINE_HOST": "127.0.0.1",
            "TIELINE_PORT": str(self.port),
            "TIELINE_HEALTH_PORT": str(self.health_port),
            "TIELINE_DRAIN_SECONDS": "0",
            "TIELINE_TERMINATION_LOG": str(self.folder / "termination"),
            **self.variables,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tieline.server"],
                env=environment,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + 60
        while not self._ready():
            said = self.log.read_text()[-3000:]
            assert self._process.poll() is None, f"The runtime ended:\n{said}"
            assert time.monotonic() < until, f"The runtime is never ready:\n{said}"
            time.sleep(0.1)

    def stop(self) -> None:
        """Ends it in an orderly way: what it has to export is exported."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(timeout=60)

    def metrics(self) -> str:
        return http("GET", f"http://127.0.0.1:{self.health_port}/metrics").body.decode()

    def _ready(self) -> bool:
        try:
            return http("GET", f"http://127.0.0.1:{self.health_port}/readyz", timeout=5).status == 200
        except OSError:
            return False
