"""The one binary with all components: built from the Go module in `cluster/hyperkube`, once for each state of it."""

import re
from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.errors import ClusterError
from tieline_cluster.paths import sources_folder
from tieline_cluster.progress import Progress


@dataclass(frozen=True)
class Binaries:
    """The built programs: `hyperkube` (all components), and `pause`, small enough for an image of its own."""

    hyperkube: Path
    pause: Path


def ensure_binaries(progress: Progress) -> Binaries:
    """The binaries for the module as it is now, built if they are not in the cache."""
    sources = sources_folder()
    if not (sources / "go.mod").is_file():
        raise ClusterError(
            f"The built-in cluster is built from {sources}, which is not there: use a checkout"
        )
    folder = ensure_built(
        sources,
        progress,
        name="hyperkube",
        what="Kubernetes",
        packages=(".", "./pause"),
        flags=version_flags((sources / "go.mod").read_text()),
    )
    return Binaries(hyperkube=folder / "hyperkube", pause=folder / "pause")


def version_flags(go_mod: str) -> str:
    """The linker flags that tell the components their version, which is that of k8s.io/kubernetes in `go_mod`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v(\d+)\.(\d+)\.\S+)$", go_mod, re.MULTILINE)
    if found is None:
        raise ClusterError("go.mod does not require k8s.io/kubernetes")
    version, major, minor = found.groups()
    component = "k8s.io/component-base/version"
    return (
        f"-s -w -X {component}.gitVersion={version} -X {component}.gitMajor={major} -X {component}.gitMinor={minor}"
        f" -X k8s.io/client-go/pkg/version.gitVersion={version}"
    )
