"""Versions of a project's current files, and garbage collection of those that nothing needs. Pure."""

from datetime import datetime, timedelta

from tieline_core.identity.names import PROJECT_LABEL, label_value
from tieline_core.identity.owner_references import is_owned
from tieline_core.kubernetes.resources import CONFIG_MAPS, PROJECT_VERSIONS
from tieline_core.project_files.config_maps import Pack, config_map, pack, version_name
from tieline_core.resources import ProjectVersion
from tieline_operator.apply.plan import Creation, Deletion
from tieline_operator.reconcilers.project.observed import ObservedProject, created
from tieline_operator.reconcilers.project.version_selection import surplus_versions

# A version's ConfigMaps are created before the version: they are no garbage until this is over.
ORPHANED_PACK_GRACE = timedelta(minutes=10)


def new_version(observed: ObservedProject) -> tuple[tuple[Creation, ...], str | None]:
    """ConfigMaps with the current files and the version that refers to them; and the version's name.

    The names follow from the contents: an operator that stopped half-way creates the same again.
    """
    project, source = observed.project, observed.source
    if source.files_digest is None or source.files is None:
        return (), None
    packs = pack(project.name, source.files)
    name = version_name(project.name, source.files_digest, project.spec.labels)
    version = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "ProjectVersion",
        "metadata": {
            "name": name,
            "namespace": project.namespace,
            "labels": {PROJECT_LABEL: label_value(project.name)},
            "ownerReferences": [observed.owner],
        },
        "spec": {
            "projectRef": {"name": project.name},
            "labels": dict(project.spec.labels),
            "digest": source.files_digest,
            "configMaps": [item.reference().to_dict() for item in packs],
        },
    }
    creation = Creation(resource=PROJECT_VERSIONS, desired=version)
    return (
        *(_creation(observed, item) for item in packs if item.name not in observed.config_maps),
        creation,
    ), name


def missing_packs(observed: ObservedProject, version: ProjectVersion) -> tuple[Creation, ...]:
    """The ConfigMaps of the current files' version that somebody deleted."""
    if observed.source.files is None:
        return ()
    missing = {item.name for item in version.spec.config_maps} - observed.config_maps.keys()
    name, files = observed.project.name, observed.source.files
    return tuple(_creation(observed, item) for item in pack(name, files) if item.name in missing)


def garbage(
    observed: ObservedProject, in_use: frozenset[str], now: datetime
) -> tuple[tuple[Deletion, ...], float | None]:
    """Surplus versions and ConfigMaps that no version needs; and seconds after which to check again."""
    uid = observed.project.metadata.uid
    gone = {
        version.name: version
        for version in surplus_versions(observed.versions, kept=observed.config.versions_kept, needed=in_use)
    }
    needed = {
        item.name
        for version in observed.versions
        if version.name not in gone
        for item in version.spec.config_maps
    }
    deletions = [
        Deletion(
            resource=PROJECT_VERSIONS,
            namespace=version.namespace,
            name=version.name,
            uid=version.metadata.uid,
        )
        for version in gone.values()
    ]
    waits: list[float] = []
    for name, obj in observed.config_maps.items():
        if name in needed or not is_owned(obj, uid):
            continue
        remaining = created(obj) + ORPHANED_PACK_GRACE - now
        if remaining > timedelta():
            waits.append(remaining.total_seconds())
        else:
            deletions.append(Deletion.of(CONFIG_MAPS, obj))
    return tuple(deletions), min(waits, default=None)


def _creation(observed: ObservedProject, item: Pack) -> Creation:
    return Creation(resource=CONFIG_MAPS, desired=config_map(item, observed.reference))
