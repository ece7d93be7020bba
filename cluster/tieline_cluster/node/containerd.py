"""Talking to a cluster's containerd, through its own command `ctr`."""

from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.definition.config_files import CONTAINER_GROUP
from tieline_cluster.definition.plan import Plan

IMPORT_TIMEOUT = 600


def import_image(plan: Plan, archive: Path) -> None:
    """Load an archive (as of `docker save`, or OCI) for the cluster's pods."""
    run([*_ctr(plan), "images", "import", archive], timeout=IMPORT_TIMEOUT)


def image_names(plan: Plan) -> set[str]:
    """The names of the images that pods can use without a registry."""
    return set(run([*_ctr(plan), "images", "list", "--quiet"]).split())


def _ctr(plan: Plan) -> list[str]:
    return ["ctr", "--address", str(plan.containerd_socket), "--namespace", CONTAINER_GROUP]
