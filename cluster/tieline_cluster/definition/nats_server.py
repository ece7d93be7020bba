"""The event engine's program: nats-server, built from the Go module in `cluster/nats`, once for each state of it."""

from pathlib import Path

from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.errors import ClusterError
from tieline_cluster.paths import nats_sources_folder
from tieline_cluster.progress import Progress

OFFICIAL_IMAGE = "docker.io/library/nats:2.15.2-alpine"
"""The published image of the version that the module pins, for clusters that pull from a registry."""


def ensure_nats_server(progress: Progress) -> Path:
    """The program, built if it is not in the cache."""
    sources = nats_sources_folder()
    if not (sources / "go.mod").is_file():
        raise ClusterError(f"nats-server is built from {sources}, which is not there: use a checkout")
    folder = ensure_built(
        sources,
        progress,
        name="nats-server",
        what="nats-server",
        packages=("github.com/nats-io/nats-server/v2",),
    )
    return folder / "nats-server"
