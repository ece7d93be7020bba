"""``kubectl`` on a cluster: the one on the machine, or the one in our own binary."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.definition.hyperkube import ensure_binaries
from tieline_cluster.interface import Cluster
from tieline_cluster.progress import Progress


@dataclass(frozen=True)
class Kubectl:
    """``kubectl("get", "pods")`` with the cluster's kubeconfig; raises ClusterError with what it said."""

    argv: tuple[str, ...]
    kubeconfig: Path
    context: str | None = None

    def __call__(self, *arguments: str, stdin: str = "", timeout: float = 120) -> str:
        return run(self.command(*arguments), stdin=stdin, timeout=timeout, env=self.environment)

    def command(self, *arguments: str) -> list[str]:
        """The whole command line, for the cluster's context."""
        context = ("--context", self.context) if self.context else ()
        return [*self.argv, *context, *arguments]

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the program, with the cluster's kubeconfig."""
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig)}


def kubectl_for(cluster: Cluster, progress: Progress) -> Kubectl:
    """The ``kubectl`` of the machine, where there is one; else the one that the built-in cluster brings."""
    own = shutil.which("kubectl", path=_path_without_ours())
    argv = (own,) if own else (str(ensure_binaries(progress).hyperkube), "kubectl")
    return Kubectl(argv=argv, kubeconfig=cluster.kubeconfig, context=cluster.context)


def _path_without_ours() -> str:
    """PATH without the demo's own folder, whose ``kubectl`` only calls the one that is looked for here."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if Path(folder).parent.name != ".tieline")
