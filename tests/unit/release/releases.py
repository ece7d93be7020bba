"""Releases that tests make: the checkout as their source, and images of a few files."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

from deploy.release import oci
from deploy.release.chart import write_chart
from deploy.release.images import write_image
from deploy.release.main import describe
from deploy.release.pins import read_pins
from deploy.release.source import Source
from tests.harness.cluster.kubectl import ROOT
from tieline_cluster.progress import Progress

SOURCE = Source(files=ROOT, version="0.1.0", commit="c0ffee" + 34 * "0", epoch=1_795_828_078)
SITE_PACKAGES = "opt/tieline/lib/python3.13/site-packages"
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc (2.41-12)
Version: 2.41-12+deb13u1

Package: python3
Status: install ok installed
Architecture: amd64
Source: python3-defaults
Version: 3.13.5-1

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""
BASE = {
    "usr/lib/os-release": 'PRETTY_NAME="Debian"\nVERSION_CODENAME=trixie\n',
    "var/lib/dpkg/status": STATUS,
}


def layout(folder: Path, *layers: Mapping[str, str]) -> oci.Layout:
    """A layout as buildah writes it, of an image with these layers."""
    made = oci.Layout(folder)
    archives = [_tar(files) for files in layers]
    config = {
        "os": "linux",
        "architecture": "amd64",
        "rootfs": {"type": "layers", "diff_ids": [_digest(one) for one in archives]},
    }
    manifest = {
        "schemaVersion": 2,
        "config": made.add(json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [
            made.add(gzip.compress(one, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
            for one in archives
        ],
    }
    named = made.add(json.dumps(manifest).encode(), oci.MANIFEST)
    (folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [named]}))
    return made


def packages(lock: str, *names: str) -> dict[str, str]:
    """The files in a layer by which Python packages are known, in the versions of a lock file."""
    pins = read_pins(ROOT / "requirements" / lock)
    return {
        f"{SITE_PACKAGES}/{name.replace('-', '_')}-{pins[name].version}.dist-info/METADATA": ""
        for name in names
    }


def write_release(folder: Path, work: Path) -> None:
    """A release of the chart and of an image, with all that describes them."""
    folder.mkdir()
    write_chart(SOURCE, folder)
    code = packages("runtime.txt", "aiohttp", "nats-py")
    write_image(SOURCE, "runtime", layout(work, BASE, code), folder)
    describe(SOURCE, folder, Progress())


def _tar(files: Mapping[str, str]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return written.getvalue()


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
