"""Building the project's images without a container engine and without a registry.

The Dockerfile is the project's own, unchanged: `buildah` builds it, on a base image that `base_image` makes. Storage,
layers and archives are in the user's cache folder. Only the layers after a change are built again.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.errors import ClusterError
from tieline_cluster.files import locked
from tieline_cluster.image_build import debian_packages
from tieline_cluster.image_build.base_image import (
    BASE_TIMEOUT,
    LABEL,
    base_image,
    base_script,
    external_bases,
    local_base_arguments,
)
from tieline_cluster.image_build.pip_settings import build_mounts
from tieline_cluster.paths import cache_folder
from tieline_cluster.progress import Progress

BUILD_TIMEOUT = 1800
KEPT_ARCHIVES = 2
"""For each target: the one in use, and the one before it for a quick way back."""


@dataclass(frozen=True)
class Image:
    """A built image: its name has its content in it, so a pod that names it always runs this one."""

    name: str
    identity: str
    builder: "ImageBuilder"

    def archive(self) -> Path:
        """The image as a `docker save` archive; made on the first call."""
        return self.builder.archive(self)

    def layout(self, folder: Path) -> None:
        """Write the image as an OCI image layout into `folder`."""
        self.builder.layout(self, folder)


MAX_LAYERS = 400
"""Above that the storage starts anew: it costs one full build, and keeps years of layers from piling up."""


class ImageBuilder:
    """Builds in one storage; runs of several programs take turns.

    With a `timestamp` (seconds since 1970) all files and images have this time. Layers without it are not used again,
    so it needs a `folder` of its own.
    """

    def __init__(
        self, progress: Progress, folder: Path | None = None, *, timestamp: int | None = None
    ) -> None:
        self._progress = progress
        self._folder = folder or cache_folder() / "images"
        self._timestamp = timestamp

    def build(self, *, context: Path, target: str) -> Image:
        """Build one target of `context`/Dockerfile."""
        debian_packages.require(debian_packages.IMAGE_PACKAGES, purpose="Building images")
        with self._alone():
            self._bound_storage()
            for base in external_bases((context / "Dockerfile").read_text()):
                self._ensure_base(base)
            with self._progress.step(f"Building the image {target}"):
                identity = self._build(context.resolve(), target)
        return Image(f"tieline.local/{target}:{identity[:12]}", identity, self)

    def archive(self, image: Image) -> Path:
        """See Image.archive."""
        folder = self._folder / "archives"
        target, _, tag = image.name.rpartition("/")[2].partition(":")
        path = folder / f"{target}-{tag}.tar"
        with self._alone():
            if path.exists():
                path.touch()
                return path
            self._write_archive(path, image.identity, image.name)
        return path

    def layout(self, image: Image, folder: Path) -> None:
        """See Image.layout."""
        with self._alone(), self._progress.step(f"Writing {image.name}"):
            self._buildah(["push", "--quiet", image.identity, f"oci:{folder}"], timeout=BUILD_TIMEOUT)

    def _bound_storage(self) -> None:
        """Delete a storage with too many layers. `buildah rmi --all` takes minutes for as many.

        It is renamed first: a deletion that is cut off leaves no storage with half of its layers.
        """
        storage, deleted = self._folder / "storage", self._folder / "storage.deleted"
        if len(list(storage.glob("overlay/*"))) > MAX_LAYERS:
            shutil.rmtree(deleted, ignore_errors=True)
            # Nothing of it is mounted: see _run.
            storage.rename(deleted)
        shutil.rmtree(deleted, ignore_errors=True)

    def _ensure_base(self, name: str) -> None:
        base = base_image(name, timestamp=self._timestamp)
        if self._label_of(base.name) == base.recipe:
            return
        archive = self._folder / "archives" / f"base-{base.recipe}.tar"
        if not archive.exists():
            with self._progress.step(f"Making the base image {name} from Debian's packages"):
                self._run(["sh", "-ec", base_script(base, self._storage())], timeout=BASE_TIMEOUT)
            self._write_archive(archive, base.name, base.name)
            return
        with self._progress.step(f"Loading the base image {name}"):
            self._buildah(["pull", "--quiet", f"docker-archive:{archive}"], timeout=BUILD_TIMEOUT)

    def _label_of(self, name: str) -> str | None:
        """The recipe of the base image with a name; None where there is no such image.

        `buildah images --filter` would read every image of the storage, which takes minutes for some hundred.
        """
        template = f'{{{{index .OCIv1.Config.Labels "{LABEL}"}}}}'
        try:
            return self._buildah(["inspect", "--type", "image", "--format", template, name]).strip()
        except ClusterError:
            return None

    def _write_archive(self, path: Path, image: str, name: str) -> None:
        path.parent.mkdir(exist_ok=True)
        temporary = path.with_suffix(".part")
        temporary.unlink(missing_ok=True)
        with self._progress.step(f"Writing {path.name}"):
            self._buildah(
                ["push", "--quiet", image, f"docker-archive:{temporary}:{name}"], timeout=BUILD_TIMEOUT
            )
        temporary.rename(path)
        kind = path.name.rpartition("-")[0]
        newest = sorted(path.parent.glob(f"{kind}-*.tar"), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in newest[KEPT_ARCHIVES:]:
            old.unlink()

    def _build(self, context: Path, target: str) -> str:
        mounts = build_mounts(os.environ, Path.home(), self._folder)
        identity = self._folder / "identity"
        arguments = local_base_arguments((context / "Dockerfile").read_text())
        command = [
            *["bud", "--quiet", "--layers", "--pull-never", "--target", target],
            *(f"--build-arg={name}={value}" for name, value in arguments.items()),
            *(f"--volume={source}:{destination}:ro" for source, destination in mounts.items()),
            *([] if self._timestamp is None else [f"--timestamp={self._timestamp}"]),
            *["--iidfile", str(identity), "--file", str(context / "Dockerfile"), str(context)],
        ]
        self._buildah(command, timeout=BUILD_TIMEOUT)
        return identity.read_text().strip().removeprefix("sha256:")

    def _storage(self) -> list[str]:
        return ["buildah", "--root", str(self._folder / "storage"), "--runroot", str(self._folder / "run")]

    def _buildah(self, command: Sequence[str], *, timeout: float = 300) -> str:
        return self._run([*self._storage(), *command], timeout=timeout)

    def _run(self, command: Sequence[str], *, timeout: float) -> str:
        env = {**os.environ, "BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
        # In a mount namespace of its own: whatever a build mounts is gone when it ends, even when it is killed.
        return run(["unshare", "--mount", *command], timeout=timeout, env=env)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with locked(self._folder / "lock"):
            # It says what a run before us had mounted, which is not mounted any more.
            shutil.rmtree(self._folder / "run", ignore_errors=True)
            yield
