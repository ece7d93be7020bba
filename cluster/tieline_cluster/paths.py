"""Where things are kept: outside the checkout, in the user's own folders (the XDG base directory specification)."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """What can be made again: built binaries and images, shared by all clusters."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tieline"


def clusters_folder() -> Path:
    """One folder for each cluster, by its name."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "tieline" / "clusters"


def run_folder() -> Path:
    """What is void after a restart; one for the whole machine where we are root, so that slots are not shared."""
    if os.geteuid() == 0:
        return Path("/run/tieline")
    own = os.environ.get("XDG_RUNTIME_DIR")
    return Path(own) / "tieline" if own else clusters_folder().parent / "run"


def sources_folder() -> Path:
    """The Go module of Kubernetes beside this package, as it is in a checkout."""
    return Path(__file__).resolve().parents[1] / "hyperkube"


def nats_sources_folder() -> Path:
    """The Go module of nats-server, likewise."""
    return Path(__file__).resolve().parents[1] / "nats"
