"""The operator as a process on this machine, working on the session's cluster."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

WRITES = frozenset({"create", "apply", "patch", "replace", "delete"})
_REQUEST = re.compile(r'^tieline_operator_requests_total\{resource="([^"]+)",verb="([^"]+)"\} (\S+)', re.M)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@dataclass
class RunningOperator:
    """Starts and stops ``tieline-operator`` for some namespaces, and reads its metrics.

    ``variables`` are of its environment.
    """

    kubeconfig: Path
    namespaces: tuple[str, ...]
    log: Path
    variables: dict[str, str] = field(default_factory=dict)
    health_port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environment = {
            **os.environ,
            "KUBECONFIG": str(self.kubeconfig),
            "TIELINE_NAMESPACES": ",".join(self.namespaces),
            "TIELINE_RUNTIME_IMAGE": "example.invalid/tieline-runtime:none",
            "TIELINE_API_URL": "http://tieline-api.tieline-system.svc",
            "TIELINE_HEALTH_PORT": str(self.health_port),
            "TIELINE_METRICS_PORT": str(self.metrics_port),
            "TIELINE_LEADER_ELECT": "true",
            "TIELINE_LEASE_NAMESPACE": self.namespaces[0],
            **self.variables,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "tieline_operator.main"],
                env=environment,
                stdout=log,
                stderr=log,
            )
        until = time.monotonic() + 60
        while "tieline_operator_leading 1.0" not in self.metrics():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, f"It never leads: {self.log.read_text()[-3000:]}"
            time.sleep(0.1)

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(timeout=30)

    def metrics(self) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    def healthy(self) -> bool:
        """Whether it is alive, ready and at work."""
        try:
            for path in ("healthz", "readyz"):
                url = f"http://127.0.0.1:{self.health_port}/{path}"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    if answer.read() != b"Leading\n":
                        return False
            return True
        except OSError:
            return False

    def writes(self) -> Counter[tuple[str, str]]:
        """Writes so far by verb and resource, without those that keep the lease."""
        return Counter(
            {
                (verb, resource): int(float(count))
                for resource, verb, count in _REQUEST.findall(self.metrics())
                if verb in WRITES and resource != "leases"
            }
        )

    def at_rest(self) -> Counter[tuple[str, str]]:
        """Waits until a second passes without a write; the writes up to then."""
        before = self.writes()
        for _ in range(60):
            time.sleep(1)
            after = self.writes()
            if after == before:
                return after
            before = after
        raise AssertionError(f"It never comes to rest: {before}")
