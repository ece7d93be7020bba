"""The REST API as a process on this machine, working on the session's cluster."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.cluster.deployed_platform import http
from tests.harness.processes import api_ports, engine_away
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_process import RunningProcess


@dataclass
class RunningApi(RunningProcess):
    """Starts and stops ``tieline-api``; ``variables`` are of its environment."""

    module = "tieline_api.main"
    kubeconfig: Path
    log: Path
    variables: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    internal_port: int = field(default_factory=free_port)
    metrics_port: int = field(default_factory=free_port)
    activator_port: int = field(default_factory=free_port)
    host: str = "127.0.0.1"
    """Where it listens."""

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.port}"

    @property
    def internal_url(self) -> str:
        """Where project pods ask."""
        return f"http://{self.host}:{self.internal_port}"

    @property
    def metrics_url(self) -> str:
        """Where Prometheus asks."""
        return f"http://{self.host}:{self.metrics_port}"

    def start(self) -> None:
        api_ports.INTERNAL[self.url] = self.internal_url
        api_ports.METRICS[self.url] = self.metrics_url
        super().start()

    def environment(self) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self.kubeconfig),
            "TIELINE_LISTEN_HOST": self.host,
            "TIELINE_LISTEN_PORT": str(self.port),
            "TIELINE_INTERNAL_PORT": str(self.internal_port),
            "TIELINE_METRICS_PORT": str(self.metrics_port),
            "TIELINE_ACTIVATOR_PORT": str(self.activator_port),
            "TIELINE_PUBLIC_API_URL": self.url,
            "TIELINE_TRACES_FILE": str(self.log.with_name("traces.db")),
            **engine_away.VARIABLES,
            "TIELINE_DRAIN_SECONDS": "0",
            "TIELINE_SHUTDOWN_SECONDS": "2",
            **self.variables,
        }

    def ready(self) -> bool:
        try:
            return http("GET", f"{self.url}/readyz", timeout=5).status == 200
        except OSError:
            return False
