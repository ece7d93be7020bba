"""The Debian packages that the built-in cluster uses, and installing them."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tieline_cluster.commands import run
from tieline_cluster.definition.config_files import CNI_PLUGINS
from tieline_cluster.errors import ClusterError
from tieline_cluster.files import locked
from tieline_cluster.progress import Progress

NODE_PACKAGES = {
    "containerd": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    f"{CNI_PLUGINS}/bridge": "containernetworking-plugins",
    "socat": "socat",
}
"""What has to be there for a node: a program (by name or path), and the package that brings it."""
IMAGE_PACKAGES = {"buildah": "buildah", "debootstrap": "debootstrap", "unshare": "util-linux"}
POLICY = Path("/usr/sbin/policy-rc.d")
INSTALL_TIMEOUT = 900
_LOCK = Path(tempfile.gettempdir()) / "tieline-packages.lock"


def missing(programs: dict[str, str]) -> list[str]:
    """The packages to install, of those in `programs` (program to package)."""
    return sorted({package for program, package in programs.items() if not _found(program)})


def require(programs: dict[str, str], *, purpose: str) -> None:
    """Raise ClusterError with what to do unless all `programs` are there and we are root."""
    if os.geteuid() != 0:
        raise ClusterError(f"{purpose} needs root: run this as root, for example with sudo")
    packages = missing(programs)
    if packages:
        raise ClusterError(
            f"{purpose} needs Debian packages that are not installed: {' '.join(packages)}. "
            "Run `tieline-cluster up --install` to install them"
        )


def install_missing(programs: dict[str, str], progress: Progress) -> None:
    """Install the Debian packages that are missing of `programs`, without starting the services that they bring.

    Two that do so at once wait for each other, and the second one finds all there.
    """
    if os.geteuid() != 0:
        if missing(programs):
            raise ClusterError("Installing packages needs root: run this as root, for example with sudo")
        return
    # apt-get does not wait for another one that is at work.
    with locked(_LOCK):
        wanted = missing(programs)
        if wanted:
            with progress.step(f"Installing {' '.join(wanted)}"), _services_stay_off():
                _install(wanted)


def _install(wanted: Sequence[str]) -> None:
    if shutil.which("apt-get") is None:
        raise ClusterError(f"Only Debian's packages can be installed: bring {' '.join(wanted)} by hand")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run(["apt-get", "update", "-q"], timeout=INSTALL_TIMEOUT, env=env)
    command = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *wanted]
    run(command, timeout=INSTALL_TIMEOUT, env=env)


@contextmanager
def _services_stay_off() -> Iterator[None]:
    """The system's containerd is not ours: Debian asks policy-rc.d before it starts a service."""
    if POLICY.exists():
        yield
        return
    POLICY.write_text("#!/bin/sh\nexit 101\n")
    POLICY.chmod(0o755)
    try:
        yield
    finally:
        POLICY.unlink(missing_ok=True)


def _found(program: str) -> bool:
    return Path(program).exists() if program.startswith("/") else shutil.which(program) is not None
