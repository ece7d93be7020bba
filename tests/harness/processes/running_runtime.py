"""A project's code in the runtime, as a process on this machine instead of a pod."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.cluster.deployed_platform import http
from tests.harness.processes import engine_away
from tests.harness.processes.ports import free_port
from tests.harness.processes.running_process import RunningProcess


@dataclass
class RunningRuntime(RunningProcess):
    """Starts and stops ``tieline.server`` with the files of ``folder`` and the token of a pod."""

    module = "tieline.server"
    folder: Path
    code: str
    token: str
    variables: dict[str, str]
    port: int = field(default_factory=free_port)
    health_port: int = field(default_factory=free_port)
    log: Path = field(init=False)

    def __post_init__(self) -> None:
        self.log = self.folder / "log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.write_files()
        super().start()

    def write_files(self) -> None:
        """What it starts with."""
        code = self.folder / "code"
        code.mkdir(parents=True)
        (code / "main.py").write_text(self.code)
        (self.folder / "token").write_text(self.token)

    def environment(self) -> dict[str, str]:
        return {
            "TIELINE_CODE_DIR": str(self.folder / "code"),
            "TIELINE_TOKEN_FILE": str(self.folder / "token"),
            "TIELINE_HOST": "127.0.0.1",
            "TIELINE_PORT": str(self.port),
            "TIELINE_HEALTH_PORT": str(self.health_port),
            "TIELINE_DRAIN_SECONDS": "0",
            "TIELINE_TERMINATION_LOG": str(self.folder / "termination"),
            **({"TIELINE_ENGINE_URL": engine_away.URL} if "TIELINE_API_URL" in self.variables else {}),
            **self.variables,
        }

    def metrics(self) -> str:
        return http("GET", f"http://127.0.0.1:{self.health_port}/metrics").body.decode()

    def ready(self) -> bool:
        try:
            return http("GET", f"http://127.0.0.1:{self.health_port}/readyz", timeout=5).status == 200
        except OSError:
            return False
