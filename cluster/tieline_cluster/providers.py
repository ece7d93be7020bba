"""Getting a Kubernetes to test and try things on: one interface, three ways.

    from tieline_cluster.providers import choose_provider

    provider = choose_provider("auto", name="tests", progress=Lines())
    cluster = provider.up()                      # waits until it can be used; quick when it already runs
    cluster.kubeconfig                           # a Path
    if cluster.has_nodes: ...                    # pods run
    if cluster.host_reachable: ...               # this machine reaches the addresses of Services and pods
    names = provider.build_images(context=Path("."), targets=["platform", "runtime"])
    names["runtime"]                             # the image's name, for a pod's `image:`; the cluster has it
    provider.down()

`auto` takes Docker (kind) where a Docker daemon answers, and otherwise the built-in cluster. A cluster that the user
has is taken only when asked for: "existing".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tieline_cluster.errors import ClusterError
from tieline_cluster.places import clusters_folder
from tieline_cluster.progress import Progress, Silence


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster that can be used.

    `context` is the kubeconfig's context to use (None: its current one). `has_nodes`: pods run. `host_reachable`: this
    machine reaches the addresses of Services and pods directly. `audit_log`: the API server's requests, if they are
    written (one JSON object a line; the policy leaves reads and the cluster's own noise out).
    """

    provider: str
    name: str
    kubeconfig: Path
    context: str | None = None
    has_nodes: bool = True
    host_reachable: bool = False
    audit_log: Path | None = None


class ClusterProvider(Protocol):
    """What brings a cluster up and down. All methods raise ClusterError with what to do."""

    @property
    def provider(self) -> str:
        """`builtin`, `kind` or `existing`."""
        ...

    def up(self) -> Cluster:
        """Make the cluster usable, from whatever state it is in, and return when it is."""
        ...

    def down(self, *, keep_data: bool = False) -> None:
        """Remove the cluster and all its traces; with `keep_data` the next `up` finds its objects again."""
        ...

    def running(self) -> Cluster | None:
        """The cluster, if it is up."""
        ...

    def build_images(self, *, context: Path, targets: Sequence[str]) -> Mapping[str, str]:
        """Build targets of `context`/Dockerfile and load them: the images' names by target."""
        ...

    def load_image(self, archive: Path) -> None:
        """Load an archive as `docker save` makes it."""
        ...


def choose_provider(
    kind: str = "auto",
    *,
    name: str = "dev",
    context: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> ClusterProvider:
    """The provider of this kind: `auto`, `builtin`, `kind` or `existing`.

    `options` are fields of `tieline_cluster.plan.Options` for the built-in cluster; those that are not given are as
    the cluster was made with. `context` is the kubeconfig's context for `existing`.
    """
    from tieline_cluster.builtin import BuiltIn  # noqa: PLC0415 (each provider is imported when it is chosen)
    from tieline_cluster.existing import Existing  # noqa: PLC0415
    from tieline_cluster.kind import Kind, docker_answers  # noqa: PLC0415

    told = progress or Silence()
    match kind:
        case "existing":
            return Existing(context=context)
        case "kind":
            return Kind(name=name, progress=told)
        case "builtin":
            return BuiltIn(name=name, progress=told, **options)
        case "auto":
            # A built-in cluster that is there stays the one that its name means, Docker or not.
            if docker_answers() and not (clusters_folder() / name).exists():
                return Kind(name=name, progress=told)
            return BuiltIn(name=name, progress=told, **options)
        case _:
            raise ClusterError(f"No provider {kind!r}: choose auto, builtin, kind or existing")
