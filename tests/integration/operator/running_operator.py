"""The operator as a process on this machine, working on the session's cluster."""

from __future__ import annotations

import re
import time
import urllib.request
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_process import RunningProcess

WRITES = frozenset({"create", "apply", "patch", "replace", "delete"})
_REQUEST = re.compile(r'^tieline_operator_requests_total\{resource="([^"]+)",verb="([^"]+)"\} (\S+)', re.M)


@dataclass
class RunningOperator(RunningProcess):
    """Starts and stops ``tieline-operator`` for some namespaces, and reads its metrics.

    ``variables`` are of its environment.
    """

    module = "tieline_operator.main"
    kubeconfig: Path
    namespaces: tuple[str, ...]
    log: Path
    variables: dict[str, str] = field(default_factory=dict)
    health_port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)

    def environment(self) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "TIELINE_NAMESPACES": ",".join(self.namespaces),
            "TIELINE_RUNTIME_IMAGE": "example.invalid/tieline-runtime:none",
            "TIELINE_API_URL": "http://tieline-api.tieline-system.svc",
            "TIELINE_ENGINE_URL": engine_away.URL,
            "TIELINE_HEALTH_PORT": str(self.health_port),
            "TIELINE_METRICS_PORT": str(self.metrics_port),
            "TIELINE_LEADER_ELECT": "true",
            "TIELINE_LEASE_NAMESPACE": self.namespaces[0],
            **self.variables,
        }

    def ready(self) -> bool:
        """Whether it leads."""
        return "tieline_operator_leading 1.0" in self.metrics()

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

    def stands_by(self) -> bool:
        """Whether it knows the cluster, and leads or waits for its Lease."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.health_port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
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
