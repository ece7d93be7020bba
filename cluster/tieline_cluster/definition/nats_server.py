"""The event engine's programs: nats-server and the wget of its probes, built from the Go module in `cluster/nats`."""

from pathlib import Path

from tieline_cluster.definition.go_modules import ensure_built
from tieline_cluster.errors import ClusterError
from tieline_cluster.paths import nats_sources_folder
from tieline_cluster.progress import Progress

OFFICIAL_IMAGE = "docker.io/library/nats:2.15.2-alpine"
"""The published image of the version that the module pins, for clusters that pull from a registry."""


def ensure_nats_server(progress: Progress) -> Path:
    """The server, built if it is not in the cache. The wget is beside it."""
    sources = nats_sources_folder()
    if not (sources / "go.mod").is_file():
        raise ClusterError(f"nats-server is built from {sources}, which is not there: use a checkout")
    folder = ensure_built(
        sources,
        progress,
        name="nats-server",
        what="nats-server",
        packages=("github.com/nats-io/nats-server/v2", "./wget"),
    )
    return folder / "nats-server"
