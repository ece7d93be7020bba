"""What a project's plan is made from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tieline_core.credentials.validation.secret_facts import SecretFacts
from tieline_core.engine.trust import AccountSigner
from tieline_core.evaluation.verdicts import FIT, Verdict
from tieline_core.identity.owner_references import owner_reference
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes.resources import PROJECTS
from tieline_core.project_files.checker import Analysis
from tieline_core.project_files.config_maps import version_digest
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.projects import EnvironmentStatus, SourceStatus
from tieline_operator.apply.plan import Object, Outcome
from tieline_operator.config import Config
from tieline_operator.engine.environment_work import EnvironmentWork
from tieline_operator.engine.queue_levels import QueueLevel
from tieline_operator.reconcilers.project.packages import ObservedPackages
from tieline_operator.reconcilers.project.quota_grants import Grant
from tieline_operator.reconcilers.project.version_selection import VersionSelection
from tieline_operator.workload.pods import Failure


@dataclass(frozen=True, kw_only=True)
class Source:
    """The project's current files."""

    digest: str | None = None
    """Over files and labels (``files.version_digest``); None when there are no files, or a problem."""
    files_digest: str | None = None
    """Over the files alone."""
    problem: str = ""
    """Why the files cannot be read."""
    waiting: str = ""
    """What is waited for before they can be read."""
    origin: SourceStatus | None = None
    """The artifact of Flux that they are from."""
    files: Mapping[str, bytes] | None = None
    """Their contents, only when a version of them (or one of its ConfigMaps) must be made."""


@dataclass(frozen=True, kw_only=True)
class ObservedEnvironment:
    """The observed state of an environment."""

    name: str = ""
    choice: VersionSelection
    workload: str
    """The name of all its objects."""
    children: Mapping[Resource, Object]
    """Its objects of that name, without those of other owners."""
    environment: Object | None = None
    """Its Environment."""
    pods: Sequence[Object] = ()
    templates: frozenset[str] = frozenset()
    """Names of its connection templates."""
    address_conflict: str = ""
    """Why it cannot have its address; empty where it can."""
    work: EnvironmentWork | None = None
    """What it has to do, by the event engine; None while that is not known, or where it never sleeps."""
    queue_level: QueueLevel | None = None
    """How full its queue in the event engine is; None while it is not known."""
    connection_problem: Failure | None = None
    """Why one of its templates has no usable connection."""
    installer: Mapping[Resource, Object] = field(default_factory=dict)
    """ServiceAccount and NetworkPolicy of the Jobs that install its packages."""


@dataclass(frozen=True, kw_only=True)
class ObservedProject:
    """The observed state of a project."""

    config: Config
    engine_signer: AccountSigner | None = None
    """Signs the credentials of pods for the event engine; None while it is not known."""
    project: Project
    organisation_id: str | None
    """The id of the organisation that the namespace is; None when it is none."""
    not_an_organisation: Outcome | None = None
    id_conflict: Outcome | None = None
    id_recheck: float | None = None
    """Seconds until the id may be free; None where an event says so."""
    duplicate: Outcome | None = None
    """That another organisation's project has the id, where both run under it already."""
    source: Source
    schema: Verdict | None = FIT
    """Whether the schema of variables can be used; None while it is being checked."""
    versions: Sequence[ProjectVersion] = ()
    analyses: Mapping[str, Analysis] = field(default_factory=dict)
    """What is in the versions that may be rolled out now, by name."""
    config_maps: Mapping[str, Object] = field(default_factory=dict)
    """The ConfigMaps that hold versions' files, by name (metadata only)."""
    environments: Mapping[str, ObservedEnvironment]
    secrets: Mapping[str, SecretFacts] = field(default_factory=dict)
    """By name: what is known of the Secrets that environment variables and volumes come from."""
    activators: Sequence[str] = ()
    """The addresses of the API's pods, which answer for environments without pods."""
    placement_policy: str = ""
    """What an administrator sets about the organisation's pods, as the annotation of its Namespace has it."""
    grants: Mapping[str, Grant] = field(default_factory=dict)
    """What its environments get of the organisation's quotas, by name; none where nothing is limited."""
    connector: Object | None = None
    """The project's connector."""
    packages: ObservedPackages = field(default_factory=ObservedPackages)
    applied_by: str = ""
    """The tool of GitOps that applies the Project; empty where there is none."""
    orphaned_children: Sequence[tuple[Resource, Object]] = ()
    """Children of environments that the spec no longer has."""

    def version(self, name: str | None) -> ProjectVersion | None:
        """The project's version of a name."""
        return next((version for version in self.versions if version.name == name), None)

    def previous(self, environment: str) -> EnvironmentStatus | None:
        """The previous status of an environment."""
        found = (item for item in self.project.status.environments if item.name == environment)
        return next(found, None)

    @property
    def reference(self) -> dict[str, Any]:
        """What identifies the Project."""
        project = self.project
        metadata = {"name": project.name, "namespace": project.namespace, "uid": project.metadata.uid}
        return {"apiVersion": PROJECTS.api_version, "kind": PROJECTS.kind, "metadata": metadata}

    @property
    def owner(self) -> dict[str, Any]:
        """The ownerReference that children carry."""
        return owner_reference(self.reference, controller=True)


def created(obj: Object) -> datetime:
    """When an object was created."""
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"])


def source_of(digest: str | None, labels: Mapping[str, str]) -> Source:
    """The source for a digest of files and the labels that go with them."""
    if digest is None:
        return Source()
    return Source(digest=version_digest(digest, labels), files_digest=digest)
