"""Has code import the packages of its lock."""

import importlib
import logging
import site
import sys
from importlib.metadata import PathDistribution, distributions
from pathlib import Path

from tieline_packages.archive import PackagesError, python_tag, read_manifest
from tieline_protocol.package_lock import normalised

logger = logging.getLogger("tieline")

_MOST_NAMED = 10


def activate(folder: Path) -> None:
    """Puts packages on ``sys.path``, after those of the runtime: code cannot replace what runs it.

    Raises PackagesError where they are for another Python.
    """
    tag = read_manifest(folder).get("python")
    if tag != python_tag():
        raise PackagesError(
            f"the packages were installed for {tag}, and this image's Python is {python_tag()}: use an image with the "
            "Python of Tieline's runtime image, or put the packages into the image"
        )
    shadowed = _shadowed(folder)
    if str(folder) not in sys.path:
        site.addsitedir(str(folder))
        importlib.invalidate_caches()
    if shadowed:
        logger.warning(
            "The image's own version is used of %s: run `tieline lock` again",
            ", ".join(shadowed[:_MOST_NAMED]),
        )


def _shadowed(folder: Path) -> list[str]:
    """Packages of the lock of which the image has another version."""
    locked = {
        normalised(found.name): found.version
        for found in distributions(path=[str(folder)])
        if isinstance(found, PathDistribution)
    }
    if not locked:
        return []
    present = {
        normalised(found.name): found.version
        for found in distributions(path=[path for path in sys.path if path != str(folder)])
    }
    return sorted(
        f"{name} ({present[name]} instead of {version})"
        for name, version in locked.items()
        if name in present and present[name] != version
    )
