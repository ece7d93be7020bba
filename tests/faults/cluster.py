"""The built-in cluster's own programs, which can be killed, paused and brought back, and etcd's memory, shortened."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import threading
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.harness.cluster.kubectl import ROOT, Kubectl
from tests.harness.session.waiting import eventually
from tieline_cluster.deployment.kubectl import kubectl_for
from tieline_cluster.node.builtin import BuiltIn
from tieline_cluster.paths import clusters_folder
from tieline_cluster.progress import Progress
from tieline_cluster.providers import Cluster


@dataclass
class FaultyCluster:
    """A cluster that only one history uses.

    etcd does not wait for the disk: what it wrote outlives its process all the same, only not the machine.
    """

    name: str
    progress: Progress
    _mending: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        chosen = {"node": True, "fsync": False, "audit": "accounts", "crash_loop_max": 10}
        self._provider = BuiltIn(name=self.name, progress=self.progress, **chosen)
        self._quiet = BuiltIn(name=self.name, progress=Progress(), **chosen)
        self._state = clusters_folder() / self.name

    def up(self) -> Cluster:
        """Brings up what is not."""
        return self._provider.up()

    def keep_logs(self, folder: Path) -> None:
        """Copies the logs of its programs to a new folder."""
        shutil.copytree(self._state / "logs", folder)

    def down(self) -> None:
        """Removes it, paused programs too."""
        for name in self._provider.components():
            self.signal(name, signal.SIGCONT)
        self._provider.down()

    def kubectl(self, cluster: Cluster) -> Kubectl:
        found = kubectl_for(cluster, Progress())
        return Kubectl(argv=found.argv, kubeconfig=cluster.kubeconfig, context=cluster.context)

    def runtime_image(self) -> str:
        """The runtime's image of this checkout, loaded."""
        return self._provider.build_images(context=ROOT, targets=["runtime"])["runtime"]

    def signal(self, component: str, number: signal.Signals) -> None:
        """Sends a signal to one of its programs, if that runs."""
        pid = self._quiet.components().get(component)
        if pid is not None:
            os.kill(pid, number)

    def mend(self) -> None:
        """Starts again what has died, and returns when all is ready."""
        with self._mending:
            self._quiet.up()

    @property
    def audit_logs(self) -> list[Path]:
        """The files with the API server's requests, oldest first."""
        return sorted((self._state / "logs").glob("audit*.log"), key=lambda path: path.stat().st_mtime)

    def compact(self) -> int:
        """Has etcd forget all but the present; the revision from which on it knows.

        etcd may be away for a while: another fault may have befallen it.
        """
        status = eventually("etcd's answer", lambda: self._etcd("maintenance/status", {}), within=60)
        revision = int(status["header"]["revision"])
        self._etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def _etcd(self, path: str, body: dict[str, object]) -> dict[str, dict[str, str]]:
        certificates = self._state / "certificates"
        context = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
        context.load_cert_chain(certificates / "apiserver-etcd.crt", certificates / "apiserver-etcd.key")
        port = self._quiet.ports().etcd
        url = f"https://127.0.0.1:{port}/v3/{path}"
        request = urllib.request.Request(url, data=json.dumps(body).encode(), method="POST")
        opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
        )
        with opener.open(request, timeout=10) as answer:
            found: dict[str, dict[str, str]] = json.loads(answer.read())
            return found
