"""What every provider of a cluster offers, and what it gives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """A cluster that can be used.

    `context` is the kubeconfig's context to use (None: its current one). `has_nodes`: pods run. `host_reachable`: this
    machine reaches the addresses of Services and pods directly. `audit_log`: the API server's requests, if they are
    written (one JSON object a line; which ones, says `Options.audit`; older ones are in `audit-*.log` beside it).
    `volumes`: where its only node is this machine, a folder that volumes can be made in; it goes with the cluster.
    """

    provider: str
    name: str
    kubeconfig: Path
    context: str | None = None
    has_nodes: bool = True
    host_reachable: bool = False
    audit_log: Path | None = None
    volumes: Path | None = None


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

    def engine_image(self) -> str:
        """The name of the event engine's image, which the cluster has or pulls."""
        ...

    def load_image(self, archive: Path) -> None:
        """Load an archive as `docker save` makes it."""
        ...
