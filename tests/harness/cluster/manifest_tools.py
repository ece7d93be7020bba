"""helm, kustomize and kubeconform, built from their Go modules."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.progress import Progress

_PACKAGES = (
    "helm.sh/helm/v3/cmd/helm",
    "sigs.k8s.io/kustomize/kustomize/v5",
    "github.com/yannh/kubeconform/cmd/kubeconform",
)


@dataclass(frozen=True)
class ManifestTools:
    """Where the programs are."""

    helm: Path
    kustomize: Path
    kubeconform: Path


def manifest_tools(progress: Progress) -> ManifestTools:
    """The programs, built when this machine has not yet."""
    folder = ensure_built(
        Path(__file__).parents[1] / "go" / "manifests",
        progress,
        name="manifest-tools",
        what="helm, kustomize and kubeconform",
        packages=_PACKAGES,
    )
    return ManifestTools(
        helm=folder / "helm", kustomize=folder / "kustomize", kubeconform=folder / "kubeconform"
    )
