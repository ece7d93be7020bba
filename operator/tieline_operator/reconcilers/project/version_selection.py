"""Which version an environment should serve: pure rules about pins, "latest" and followed files."""

from collections.abc import Sequence
from dataclasses import dataclass

from tieline_core.project_files.config_maps import version_digest
from tieline_core.resources import ProjectVersion
from tieline_core.resources.projects import LATEST, EnvironmentSpec, EnvironmentStatus


@dataclass(frozen=True, kw_only=True)
class VersionSelection:
    """The result of an environment's spec and history."""

    draft: bool = False
    follows: bool = False
    """Whether the current files are what should serve."""
    pinned_version: str | None = None
    """The version that the spec names (kept in the status, to notice when it is changed)."""
    pinned_digest: str = ""
    """What the current files were when that version was named."""


def select_version(
    spec: EnvironmentSpec,
    previous: EnvironmentStatus | None,
    *,
    accept: bool,
    current: str | None,
) -> VersionSelection:
    """Whether an environment follows the current files or stays with its pin.

    ``accept`` is the project's acceptCodeChangesAutomatically; ``current`` the digest of the current files
    (None when they cannot be read). A deployed environment of an accepting project leaves its pin when the
    files have changed *since* it was pinned, so rolling back stays possible.
    """
    if spec.version is None:
        return VersionSelection(draft=True)
    if spec.version == LATEST:
        return VersionSelection(follows=True)
    known = previous is not None and previous.pinned_version == spec.version
    digest = previous.pinned_digest if previous is not None and known else ""
    digest = digest or current or ""
    return VersionSelection(
        follows=accept and current is not None and current != digest,
        pinned_version=spec.version,
        pinned_digest=digest,
    )


def current_version(versions: Sequence[ProjectVersion], digest: str | None) -> ProjectVersion | None:
    """The newest version with these files and labels (``digest`` as of ``files.version_digest``)."""
    if digest is None:
        return None
    same = [
        version for version in versions if version_digest(version.spec.digest, version.spec.labels) == digest
    ]
    return max(same, key=age_key, default=None)


def surplus_versions(
    versions: Sequence[ProjectVersion], *, kept: int, needed: frozenset[str]
) -> list[ProjectVersion]:
    """The versions that can go: neither among the ``kept`` newest nor ``needed`` by an environment."""
    newest_first = sorted(versions, key=age_key, reverse=True)
    return [version for version in newest_first[kept:] if version.name not in needed]


def age_key(version: ProjectVersion) -> tuple[float, str]:
    """Sorts versions from the oldest to the newest (those of one second by name, so that the order is stable)."""
    created = version.metadata.creation_timestamp
    return (created.timestamp() if created else 0.0, version.name)
