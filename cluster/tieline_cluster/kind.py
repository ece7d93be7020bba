"""A cluster in Docker, by kind (through pytest-kind, which brings the programs `kind` and `kubectl`)."""

import contextlib
import importlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tieline_cluster.commands import run
from tieline_cluster.definition.nats_server import OFFICIAL_IMAGE
from tieline_cluster.errors import ClusterError
from tieline_cluster.interface import Cluster
from tieline_cluster.paths import cache_folder, clusters_folder
from tieline_cluster.progress import Progress

DOCKER_TIMEOUT = 10
KIND_VERSION = "v0.30.0"
"""Its node is Kubernetes 1.34, as the built-in cluster's."""
BUILD_TIMEOUT = 1800


def docker_answers() -> bool:
    """Whether a Docker daemon can be used from here."""
    if shutil.which("docker") is None:
        return False
    try:
        return bool(run(["docker", "info", "--format", "{{.ServerVersion}}"], timeout=DOCKER_TIMEOUT).strip())
    except ClusterError:
        return False


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
        with self._progress.step(f"Bringing up {self._name} with kind"), _failures_told():
            self._kind().create()
        return self._cluster()

    def down(self, *, keep_data: bool = False) -> None:
        """Delete the cluster; kind cannot keep its data."""
        if keep_data:
            raise ClusterError(
                "kind keeps no data of a deleted cluster: leave --keep-data out, or leave it up"
            )
        with self._progress.step(f"Deleting {self._name}"), _failures_told():
            kind = self._kind()
            kind.ensure_kind()
            kind.delete()
        self._kubeconfig.unlink(missing_ok=True)

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
                with _failures_told():
                    self._kind().load_docker_image(names[target])
        return names

    def engine_image(self) -> str:
        """The official image, which the node pulls."""
        return OFFICIAL_IMAGE

    def load_image(self, archive: Path) -> None:
        """Load an archive into the cluster's node."""
        with self._progress.step(f"Loading {archive}"):
            kind = self._kind()
            with _failures_told():
                kind.ensure_kind()
            run(
                [kind.kind_path, "load", "image-archive", archive, "--name", self._name],
                timeout=BUILD_TIMEOUT,
            )

    def _kind(self) -> Any:
        # pytest-kind reads the version when it is imported; its own default is of 2022.
        os.environ.setdefault("KIND_VERSION", KIND_VERSION)
        try:
            pytest_kind: Any = importlib.import_module("pytest_kind")
        except ImportError as error:
            raise ClusterError("pytest-kind is not installed: `pip install pytest-kind`") from error
        programs = cache_folder() / "kind"
        for folder in (self._folder, programs):
            folder.mkdir(parents=True, exist_ok=True)
        own = shutil.which("kind")
        program = Path(own) if own else programs / f"kind-{os.environ['KIND_VERSION']}"
        # It makes a folder of its own wherever it is called.
        with contextlib.chdir(programs):
            return pytest_kind.KindCluster(self._name, kubeconfig=self._kubeconfig, kind_path=program)

    def _cluster(self) -> Cluster:
        return Cluster(provider=self.provider, name=self._name, kubeconfig=self._kubeconfig)


@contextlib.contextmanager
def _failures_told() -> Iterator[None]:
    try:
        yield
    except (subprocess.CalledProcessError, OSError) as error:
        raise ClusterError(
            f"kind could not do it: {error}. See whether Docker and the network work"
        ) from error
