"""The chart as the archive that helm reads, and as an OCI artefact."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml

from deploy.release import oci
from deploy.release.archives import tar_gz
from deploy.release.source import CHART, Source

CONFIG = "application/vnd.cncf.helm.config.v1+json"
CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def write_chart(source: Source, target: Path) -> None:
    """Write ``tieline-VERSION.tgz``, and the same as ``tieline-VERSION.chart.oci.tar``."""
    folder = source.files / CHART
    described: dict[str, Any] = yaml.safe_load((folder / "Chart.yaml").read_text("utf-8"))
    name = described["name"]
    content = tar_gz(
        ((f"{name}/{path.relative_to(folder).as_posix()}", path.read_bytes()) for path in _files(folder)),
        source.epoch,
    )
    (target / f"{name}-{source.version}.tgz").write_bytes(content)
    with tempfile.TemporaryDirectory() as temporary:
        layout = oci.Layout(Path(temporary))
        manifest = {
            "schemaVersion": 2,
            "mediaType": oci.MANIFEST,
            "config": layout.add(oci.canonical(described), CONFIG),
            "layers": [layout.add(content, CONTENT)],
            "annotations": {
                "org.opencontainers.image.title": name,
                "org.opencontainers.image.description": described["description"],
                "org.opencontainers.image.created": source.time,
                "org.opencontainers.image.revision": source.commit,
                "org.opencontainers.image.version": source.version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        }
        layout.archive(
            target / f"{name}-{source.version}.chart.oci.tar",
            manifest,
            tag=source.version,
            epoch=source.epoch,
        )


def _files(folder: Path) -> list[Path]:
    """All files of the chart; helm wants its description first."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return sorted(paths, key=lambda path: (path.name != "Chart.yaml", path.as_posix()))
