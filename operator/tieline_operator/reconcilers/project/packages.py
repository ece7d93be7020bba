"""The packages of a version in an environment: whether they are there, and what to do about it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tieline_core.engine.package_streams import PackageEntry
from tieline_core.resources import ProjectVersion
from tieline_operator.apply.plan import Object
from tieline_operator.workload.inputs import Packages
from tieline_operator.workload.packages import (
    JOB_LABEL,
    KEY_ANNOTATION,
    RETRY_SECONDS,
    has_ended,
    last_message,
)
from tieline_operator.workload.pods import Failure
from tieline_protocol.packages import installer_job, package_key

_RECHECK_SECONDS = 3.0
_MAX_MESSAGE = 700


@dataclass(frozen=True, kw_only=True)
class ObservedPackages:
    """What there is of packages."""

    entries: Mapping[str, PackageEntry] | None = None
    """Those in the engine, of the organisation, by key; None while that is not known."""
    jobs: Mapping[str, Object] = field(default_factory=dict)
    """The project's Jobs that install packages, by name."""
    pods: Sequence[Object] = ()
    """The pods of these Jobs."""

    @property
    def unread(self) -> bool:
        """Whether a Job has stored something that is not known yet."""
        return any(
            has_ended(job) == "Complete"
            and job["metadata"].get("annotations", {}).get(KEY_ANNOTATION) not in (self.entries or {})
            for job in self.jobs.values()
        )


@dataclass(frozen=True, kw_only=True)
class PackagePlan:
    """The packages of one version."""

    packages: Packages | None = None
    """What its pods unpack; None where it needs none, or there are none yet."""
    key: str = ""
    """What they are stored under; empty where it needs none."""
    install: bool = False
    """Whether a Job has to be made for them."""
    problem: Failure | None = None
    waiting: str = ""
    recheck_after: float | None = None


NO_PACKAGES = PackagePlan()


def plan_packages(
    observed: ObservedPackages,
    version: ProjectVersion,
    *,
    environment_id: str,
    architecture: str,
    deployed: Packages | None,
) -> PackagePlan:
    """What a version needs in an environment. ``deployed`` are the packages of its pods, if they run this version."""
    lock = version.status.package_lock
    if not lock:
        return NO_PACKAGES
    key = package_key(lock, architecture=architecture)
    if observed.entries is None:
        waiting = "" if deployed else "the event engine, which has the packages, cannot be reached"
        return PackagePlan(packages=deployed, key=key, waiting=waiting)
    if entry := observed.entries.get(key):
        return PackagePlan(packages=Packages(key, entry.digest), key=key)
    name = installer_job(environment_id, key)
    job = observed.jobs.get(name)
    if job is None:
        return PackagePlan(packages=deployed, key=key, install=True, waiting=_waiting(version))
    pods = [pod for pod in observed.pods if pod["metadata"].get("labels", {}).get(JOB_LABEL) == name]
    message = last_message(pods)[:_MAX_MESSAGE]
    match has_ended(job):
        case "Failed":
            detail = message or "the Job was stopped"
            problem = Failure(
                "PackagesFailed",
                f"the packages of version {version.name} cannot be installed: {detail}; the platform tries again "
                f"within {RETRY_SECONDS // 60} minutes",
            )
            return PackagePlan(packages=deployed, key=key, problem=problem)
        case "Complete":
            return PackagePlan(
                packages=deployed, key=key, waiting=_waiting(version), recheck_after=_RECHECK_SECONDS
            )
    more = f"; the last try failed: {message}" if message else ""
    return PackagePlan(packages=deployed, key=key, waiting=_waiting(version) + more)


def _waiting(version: ProjectVersion) -> str:
    return f"the packages of version {version.name} are being installed"
