"""A cluster in Docker, by kind (through pytest-kind, which brings the programs `kind` and `kubectl`)."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tieline_cluster.commands import run
from tieline_cluster.errors import ClusterError
from tieline_cluster.places import clusters_folder
from tieline_cluster.progress import Progress
from tieline_cluster.providers import Cluster

DOCKER_TIMEOUT = 10
BUILD_TIMEOUT = 1800


def docker_answers() -> bool:
    """Whether a Docker daemon can be used from here."""
    if shutil.which("docker") is None:
        return False
    try:
        command = ["docker", "info", "--format", "{{.ServerVersion}}"]
        asked = subprocess.run(command, capture_output=True, timeout=DOCKER_TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        return False
    return asked.returncode == 0 and bool(asked.stdout.strip())


class Kind:
    """A ClusterProvider; the machine itself does not reach the addresses of Services."""

    provider = "kind"

    def __init__(self, *, name: str, progress: Progress) -> None:
        self._name = f"tieline-{name}"
        self._progress = progress
        self._folder = clusters_folder().parent / "kind"
        self._kubeconfig = self._folder / f"{self._name}.kubeconfig"

    def up(self) -> Cluster:
        """Create the cluster, unless it is there."""
        if not docker_answers():
            raise ClusterError("No Docker daemon answers: start Docker, or choose the built-in cluster")
        with self._progress.step(f"Bringing up {self._name} with kind"):
            self._kind().create()
        return self._cluster()

    def down(self, *, keep_data: bool = False) -> None:
        """Delete the cluster; kind cannot keep its data."""
        if keep_data:
            raise ClusterError("kind keeps no data of a deleted cluster: leave --keep-data out, or leave it up")
        with self._progress.step(f"Deleting {self._name}"):
            self._kind().delete()

    def running(self) -> Cluster | None:
        """The cluster, if Docker runs its node."""
        if not docker_answers():
            return None
        label = f"label=io.x-k8s.kind.cluster={self._name}"
        nodes = run(["docker", "ps", "--quiet", "--filter", label], timeout=DOCKER_TIMEOUT)
        return self._cluster() if nodes.strip() else None

    def build_images(self, *, context: Path, targets: Sequence[str]) -> Mapping[str, str]:
        """Build with Docker and load into the cluster's node."""
        names = {}
        for target in targets:
            with self._progress.step(f"Building the image {target}"):
                command = ["docker", "build", "--quiet", "--target", target, str(context)]
                identity = run(command, timeout=BUILD_TIMEOUT).strip()
                names[target] = f"tieline.local/{target}:{identity.removeprefix('sha256:')[:12]}"
                run(["docker", "tag", identity, names[target]])
                self._kind().load_docker_image(names[target])
        return names

    def load_image(self, archive: Path) -> None:
        """Load an archive into the cluster's node."""
        with self._progress.step(f"Loading {archive}"):
            kind = self._kind()
            kind.ensure_kind()
            run(
                [kind.kind_path, "load", "image-archive", archive, "--name", self._name],
                timeout=BUILD_TIMEOUT,
            )

    def _kind(self) -> Any:
        try:
            from pytest_kind import KindCluster  # noqa: PLC0415 (an optional part of the development tools)
        except ImportError as error:
            raise ClusterError("pytest-kind is not installed: `pip install pytest-kind`") from error
        self._folder.mkdir(parents=True, exist_ok=True)
        return KindCluster(self._name, kubeconfig=self._kubeconfig)

    def _cluster(self) -> Cluster:
        return Cluster(provider=self.provider, name=self._name, kubeconfig=self._kubeconfig)
