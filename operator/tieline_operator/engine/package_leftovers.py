"""Which packages in the event engine nobody needs any more. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping

from tieline_core.engine.package_streams import PackageEntry, key_of_subject, upload_of_subject
from tieline_core.kubernetes.resources import DEPLOYMENTS, PROJECT_VERSIONS
from tieline_operator.cache.cluster_cache import Listers
from tieline_operator.workload.packages import packages_of
from tieline_protocol.packages import package_key


def needed_keys(listers: Listers, namespace: str, architecture: str) -> frozenset[str]:
    """The keys of the packages of all versions of a namespace, and of all that runs there."""
    locks = {
        version.get("status", {}).get("packageLock") for version in listers[PROJECT_VERSIONS].list(namespace)
    }
    running = (packages_of(deployment) for deployment in listers[DEPLOYMENTS].list(namespace))
    return frozenset(
        (
            *(package_key(lock, architecture=architecture) for lock in locks if lock),
            *(packages.key for packages in running if packages),
        )
    )


def leftovers(
    subjects: Iterable[str], entries: Mapping[str, PackageEntry], needed: Collection[str]
) -> Iterator[str]:
    """What the subjects begin with that hold packages of no version, or parts of an upload that did not end."""
    for subject in subjects:
        key = key_of_subject(subject)
        if key is None:
            continue
        prefix = ".".join(subject.split(".")[:3])
        upload = upload_of_subject(subject)
        entry = entries.get(key)
        if key not in needed:
            yield prefix
        elif upload is not None and (entry is None or entry.upload != upload):
            yield f"{prefix}.{upload}"
