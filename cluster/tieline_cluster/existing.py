"""A cluster that the user already has, named by a kubeconfig."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from tieline_cluster.definition.nats_server import OFFICIAL_IMAGE
from tieline_cluster.errors import ClusterError
from tieline_cluster.interface import Cluster


class Existing:
    """A ClusterProvider that brings nothing up and takes nothing down."""

    provider = "existing"

    def __init__(self, *, context: str | None) -> None:
        self._context = context

    def up(self) -> Cluster:
        """The cluster of KUBECONFIG (or ~/.kube/config) and the context; it is not asked whether it answers."""
        configured = os.environ.get("KUBECONFIG", "").split(os.pathsep)[0]
        path = Path(configured) if configured else Path.home() / ".kube" / "config"
        if not path.is_file():
            raise ClusterError(f"No kubeconfig at {path}: set KUBECONFIG to your cluster's")
        config = yaml.safe_load(path.read_text()) or {}
        contexts = [entry["name"] for entry in config.get("contexts", [])]
        context = self._context or config.get("current-context")
        if context not in contexts:
            raise ClusterError(f"{path} has no context {context!r}: choose one of {', '.join(contexts)}")
        return Cluster(provider=self.provider, name=str(context), kubeconfig=path, context=context)

    def down(self, *, keep_data: bool = False) -> None:
        """Refuse: the cluster is not ours to remove."""
        raise ClusterError("A cluster of your own is not taken down by this tool")

    def running(self) -> Cluster | None:
        """The cluster, as `up` says."""
        return self.up()

    def build_images(self, *, context: Path, targets: Sequence[str]) -> Mapping[str, str]:
        """The images that TIELINE_<TARGET>_IMAGE name: how they got where the cluster pulls from is the user's."""
        variables = {target: f"TIELINE_{target.upper()}_IMAGE" for target in targets}
        missing = [variable for variable in variables.values() if not os.environ.get(variable)]
        if missing:
            raise ClusterError(
                "Build the images with your own tools, push them to a registry that your cluster pulls from, and "
                f"name them in {' and '.join(missing)}"
            )
        return {target: os.environ[variable] for target, variable in variables.items()}

    def engine_image(self) -> str:
        """The image that TIELINE_ENGINE_IMAGE names, or the official one."""
        return os.environ.get("TIELINE_ENGINE_IMAGE") or OFFICIAL_IMAGE

    def load_image(self, archive: Path) -> None:
        """Refuse, as `build_images` does."""
        raise ClusterError(f"Push {archive} to a registry that your cluster pulls from")
