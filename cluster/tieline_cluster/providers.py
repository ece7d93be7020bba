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

from typing import Any

from tieline_cluster.errors import ClusterError
from tieline_cluster.interface import Cluster, ClusterProvider
from tieline_cluster.paths import clusters_folder
from tieline_cluster.progress import Progress

__all__ = ["PROVIDERS", "Cluster", "ClusterProvider", "choose_provider"]

PROVIDERS = ("auto", "builtin", "kind", "existing")


def choose_provider(
    kind: str = "auto",
    *,
    name: str = "dev",
    context: str | None = None,
    progress: Progress | None = None,
    install: bool = False,
    **options: Any,
) -> ClusterProvider:
    """The provider of this kind: `auto`, `builtin`, `kind` or `existing`.

    `install`: the built-in cluster installs the Debian packages that it lacks; kind and an existing cluster need none.
    `options` are fields of `tieline_cluster.definition.plan.Options` for the built-in cluster; the others keep the
    values that the cluster was made with. `context` is the kubeconfig's context for `existing`.
    """
    from tieline_cluster.existing import Existing  # noqa: PLC0415
    from tieline_cluster.kind import Kind, docker_answers  # noqa: PLC0415
    from tieline_cluster.node.builtin import BuiltIn  # noqa: PLC0415 (each provider is imported when it is chosen)

    progress = progress or Progress()
    match kind:
        case "existing":
            return Existing(context=context)
        case "kind":
            return Kind(name=name, progress=progress)
        case "builtin":
            return BuiltIn(name=name, progress=progress, install=install, **options)
        case "auto":
            # A built-in cluster that is there stays the one that its name means, Docker or not.
            if docker_answers() and not (clusters_folder() / name).exists():
                return Kind(name=name, progress=progress)
            return BuiltIn(name=name, progress=progress, install=install, **options)
        case _:
            raise ClusterError(f"No provider {kind!r}: choose auto, builtin, kind or existing")
