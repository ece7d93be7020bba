"""The Gateway API's definitions, from its Go module."""

from __future__ import annotations

from pathlib import Path

from tests.harness.cluster.kubectl import Kubectl, install_definitions
from tieline_cluster.definition.go_modules import sources_of
from tieline_cluster.progress import Progress

_MODULE = "sigs.k8s.io/gateway-api"


def install_http_routes(kubectl: Kubectl, progress: Progress) -> None:
    """Has the cluster know HTTPRoutes; nothing works on them."""
    module = sources_of(_MODULE, Path(__file__).parents[1] / "go" / "gateway", progress)
    definition = module / "config" / "crd" / "standard" / "gateway.networking.k8s.io_httproutes.yaml"
    install_definitions(kubectl, "-f", str(definition))
