"""The images as OCI archives, built as for the local cluster, with the commit's time as their only time."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from deploy.release import oci
from deploy.release.errors import ReleaseError
from deploy.release.source import Source
from tieline_cluster.errors import ClusterError
from tieline_cluster.image_build.builder import ImageBuilder
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Progress

TARGETS = ("platform", "runtime")
_IMAGES = {
    "platform": "Tieline's operator and API",
    "runtime": "What runs the integrations of a Tieline project",
}


def write_images(source: Source, target: Path, progress: Progress, cache: Path | None = None) -> None:
    """Write ``tieline-TARGET-VERSION-linux-ARCHITECTURE.image.oci.tar`` for this machine's architecture."""
    folder = (cache or cache_folder() / "release-images") / source.commit
    _remove_others(folder)
    builder = ImageBuilder(progress, folder, timestamp=source.epoch)
    for name in TARGETS:
        try:
            image = builder.build(context=source.files, target=name)
            with tempfile.TemporaryDirectory(prefix="tieline-image-") as layout:
                image.layout(Path(layout))
                write_image(source, name, oci.Layout(Path(layout)), target)
        except ClusterError as error:
            raise ReleaseError(str(error)) from None


def _remove_others(folder: Path) -> None:
    """Remove the layers of other commits: they have another time, so no build uses them again."""
    for other in folder.parent.glob("*"):
        if other.name != folder.name:
            shutil.rmtree(other)


def write_image(source: Source, name: str, layout: oci.Layout, target: Path) -> None:
    """Write the archive of one built image, whose manifest says what it is and where it comes from."""
    manifest = layout.only_manifest()
    config = layout.read(manifest["config"])
    annotations = {
        "org.opencontainers.image.title": f"tieline-{name}",
        "org.opencontainers.image.description": _IMAGES[name],
        "org.opencontainers.image.created": source.time,
        "org.opencontainers.image.revision": source.commit,
        "org.opencontainers.image.version": source.version,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    system = {"os": config["os"], "architecture": config["architecture"]}
    layout.archive(
        target / f"tieline-{name}-{source.version}-{system['os']}-{system['architecture']}.image.oci.tar",
        {**manifest, "annotations": annotations},
        tag=source.version,
        epoch=source.epoch,
        platform=system,
    )
