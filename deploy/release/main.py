"""The command: ``python -m deploy.release`` writes a release, ``--verify FOLDER`` checks one."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from deploy.release import checksums, oci, provenance, sbom
from deploy.release.chart import write_chart
from deploy.release.errors import ReleaseError
from deploy.release.images import write_images
from deploy.release.npm import write_npm_package
from deploy.release.source import Source, source, uncommitted
from deploy.release.wheels import write_wheels
from tieline_cluster.progress import Lines, Progress

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
_OURS = re.compile(r"tieline[-_].*|SHA256SUMS(\.sigstore\.json)?|provenance\.intoto\.json")

PARTS: dict[str, tuple[str, Callable[[Source, Path, Progress], None]]] = {
    "wheels": ("Building the Python distributions", lambda source, folder, _: write_wheels(source, folder)),
    "npm": ("Building the npm package", lambda source, folder, _: write_npm_package(source, folder)),
    "chart": ("Packaging the chart", lambda source, folder, _: write_chart(source, folder)),
    "images": ("Building the images", write_images),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks a release; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.release", description=__doc__)
    parser.add_argument("--into", type=Path, default=DIST, metavar="FOLDER", help="default: dist")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=sorted(PARTS),
        metavar="PART",
        help=f"build these parts alone, beside what the folder has: {', '.join(sorted(PARTS))}",
    )
    parser.add_argument(
        "--expect", metavar="VERSION", help="refuse a commit with another version, such as v0.1.0"
    )
    parser.add_argument(
        "--verify", type=Path, metavar="FOLDER", help="check the files of a release, write nothing"
    )
    given = parser.parse_args(arguments)
    progress = Lines()
    try:
        if given.verify:
            verify(given.verify, progress)
        else:
            write(
                given.into,
                given.only or sorted(PARTS),
                progress,
                fresh=not given.only,
                expected=given.expect,
            )
    except ReleaseError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def write(
    folder: Path, parts: Sequence[str], progress: Progress, *, fresh: bool, expected: str | None = None
) -> None:
    """Write the parts of a release into a folder, and what describes all that is there. Raises ReleaseError."""
    if changed := uncommitted(ROOT):
        progress.note(f"{len(changed)} changed files are not committed, so the release does not have them")
    with source(ROOT) as found:
        if expected and expected.removeprefix("v") != found.version:
            raise ReleaseError(f"The tag is {expected}, but the commit has version {found.version}")
        prepare(folder, fresh=fresh)
        for part in parts:
            title, build = PARTS[part]
            with progress.step(title):
                build(found, folder, progress)
        describe(found, folder, progress)
    progress.note(f"{folder}: {found.version} of {found.commit[:12]}")


def describe(source: Source, folder: Path, progress: Progress) -> None:
    """Write SBOMs, provenance and checksums of what a folder has."""
    with progress.step("Writing SBOMs, provenance and checksums"):
        sbom.write_sboms(source, folder)
        provenance.write_provenance(source, folder)
        checksums.write_checksums(folder)


def prepare(folder: Path, *, fresh: bool) -> None:
    """Make the folder, or empty it of an earlier release. Raises ReleaseError if it has anything else."""
    folder.mkdir(parents=True, exist_ok=True)
    foreign = [path.name for path in folder.iterdir() if not (path.is_file() and _OURS.fullmatch(path.name))]
    if foreign:
        raise ReleaseError(
            f"{folder} has what no release wrote: {', '.join(sorted(foreign)[:5])}. Move it away"
        )
    for path in folder.iterdir() if fresh else ():
        path.unlink()


def verify(folder: Path, progress: Progress) -> None:
    """Raises ReleaseError unless all files of a release belong together."""
    with progress.step(f"Checking {folder}"):
        digests = checksums.require_checksums(folder)
        provenance.require_provenance(folder, digests)
        for path in sorted(folder.glob("*.oci.tar")):
            oci.checked(path)
    progress.note(f"All {len(digests)} files are as {checksums.NAME} says. Who signed it, cosign says")
