"""Project: observes everything that its plan needs, from the caches."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from tieline_core.engine.package_streams import PackageEntry
from tieline_core.engine.trust import AccountSigner
from tieline_core.evaluation.variables_checker import VariablesChecker
from tieline_core.identity.gitops import applied_by
from tieline_core.identity.ids import (
    environment_id,
    object_name,
    project_connector_id,
)
from tieline_core.identity.names import (
    ENVIRONMENT_ID_LABEL,
    ENVIRONMENT_LABEL,
    INSTANCE_LABEL,
    engine_credentials_name,
    environment_object_name,
    label_value,
    packages_name,
    workload_name,
)
from tieline_core.identity.owner_references import controlled_by_another, is_owned
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes.resources import (
    API_ENDPOINTS,
    CONFIG_MAPS,
    CONNECTION_TEMPLATES,
    CONNECTORS,
    DEPLOYMENTS,
    ENVIRONMENTS,
    JOBS,
    NAMESPACES,
    NETWORK_POLICIES,
    PODS,
    PROJECT_VERSIONS,
    PROJECTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from tieline_core.project_files.checker import Analysis
from tieline_core.project_files.config_maps import FilesMissing
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.parsed_cache import PROJECT, VERSION
from tieline_core.resources.quotas import quotas_of
from tieline_core.resources.releases import MAX_RELEASE_TEXT
from tieline_operator.apply.conditions import find_condition, has_failed, is_terminating
from tieline_operator.apply.ownership import may_write
from tieline_operator.apply.plan import Key, Object, Plan
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import CHILD_RESOURCES, child_name, joined
from tieline_operator.cache.organisations import not_an_organisation, organisation_of
from tieline_operator.cache.secret_facts import secret_facts
from tieline_operator.config import Config
from tieline_operator.engine.environment_work import EnvironmentWork
from tieline_operator.engine.queue_levels import QueueLevel
from tieline_operator.reconcilers.connection_templates import UNUSABLE
from tieline_operator.reconcilers.project.address_conflicts import address_conflict
from tieline_operator.reconcilers.project.environment_workload import public_url
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.project.observed import (
    ObservedEnvironment,
    ObservedProject,
    Source,
    source_of,
)
from tieline_operator.reconcilers.project.packages import ObservedPackages
from tieline_operator.reconcilers.project.plan import plan
from tieline_operator.reconcilers.project.quota_grants import Grant, claims_in, grants
from tieline_operator.reconcilers.project.released_ids import ReleasedIds
from tieline_operator.reconcilers.project.version_selection import (
    VersionSelection,
    current_version,
    select_version,
)
from tieline_operator.reconcilers.uniqueness import cross_organisation_id_conflict, id_conflict
from tieline_operator.sources.flux_sources import Pending
from tieline_operator.workload.activators import ready_addresses
from tieline_operator.workload.exposure import ExposureMode
from tieline_operator.workload.packages import JOB_LABEL
from tieline_operator.workload.placement import referenced_secrets as mounted_secrets
from tieline_operator.workload.placement_policy import placement_annotation
from tieline_operator.workload.pods import Failure, deployed_version
from tieline_operator.workload.secret_variables import referenced_secrets


class Engine(Protocol):
    """What the reconciler needs of the event engine."""

    @property
    def signer(self) -> AccountSigner | None:
        """Signs the credentials of pods; None while it is not known."""

    def level(self, namespace: str, secret: str) -> QueueLevel | None:
        """How full an environment's queue is, by the Secret with its credentials; None while it is not known."""

    def work(self, namespace: str, secret: str) -> EnvironmentWork | None:
        """The work of an environment that may sleep; None while it is not known."""

    def packages(self, namespace: str, *, again: bool = False) -> Mapping[str, PackageEntry] | None:
        """The packages of a namespace's organisation by key; None while they are not known.

        With ``again`` they are read soon.
        """


class ProjectReconciler:
    """Reconciles projects."""

    def __init__(
        self,
        config: Config,
        code: ProjectFiles,
        engine: Engine,
        checker: VariablesChecker | None = None,
        enqueue: Callable[[Key], None] = lambda _key: None,
        released: ReleasedIds | None = None,
    ) -> None:
        """``enqueue`` reconciles a project again, once its schema or its files have been checked."""
        self._released = released or ReleasedIds()
        self._config = config
        self._code = code
        self._checker = checker or VariablesChecker()
        self._enqueue = enqueue
        self._engine = engine

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan:
        """Observes the Project and plans."""
        return plan(await self.observe(cache, obj), now)

    async def observe(self, cache: ClusterCache, obj: Object) -> ObservedProject:
        """Collects what the plan needs."""
        project = PROJECT.of(obj)
        namespace, name = project.namespace, project.name
        key = Key(PROJECTS.kind, namespace, name)
        owned = cache[PROJECT_VERSIONS].by_index("project", joined(namespace, name))
        versions = [VERSION.of(item) for item in owned if not is_terminating(item)]
        label = joined(namespace, label_value(name))
        packs = {
            item["metadata"]["name"]: item
            for item in cache[CONFIG_MAPS].by_index("project", label)
            if not controlled_by_another(item, project.metadata.uid)
        }
        source = await self._source(project, lambda: self._enqueue(key))
        environments = self._environments(cache, obj, project, source, label)
        source = await self._with_files(project, source, versions, packs.keys(), environments)
        conflict = id_conflict(obj, cache[PROJECTS])
        duplicate = cross_organisation_id_conflict(obj, cache[PROJECTS])
        recheck = None
        if duplicate is None and (found := self._released.conflict(obj)):
            duplicate, recheck = found
        if not _runs_under_its_id(project):
            conflict = conflict or duplicate
        return ObservedProject(
            config=self._config,
            engine_signer=self._engine.signer,
            project=project,
            organisation_id=organisation_of(cache, namespace),
            not_an_organisation=not_an_organisation(cache, namespace),
            id_conflict=conflict,
            id_recheck=recheck,
            duplicate=duplicate,
            source=source,
            schema=self._checker.request(
                namespace,
                obj["spec"].get("dynamicVariablesSchema"),
                {},
                lambda: self._enqueue(key),
            ),
            versions=versions,
            analyses=await self._analyses(key, versions, environments, source),
            config_maps=packs,
            environments=environments,
            secrets=await secret_facts(cache, cache[SECRETS], namespace, _secrets_of_code(project)),
            activators=ready_addresses(cache[API_ENDPOINTS].list()),
            placement_policy=placement_annotation(cache[NAMESPACES].get(None, namespace)),
            grants=self._grants(cache, namespace, name),
            connector=cache[CONNECTORS].get(namespace, object_name(project_connector_id(project.id))),
            packages=self._packages(cache, namespace, label, versions),
            applied_by=applied_by(obj)[:MAX_RELEASE_TEXT],
            orphaned_children=_orphaned_children(
                cache, project, label, {name: item.workload for name, item in environments.items()}
            ),
        )

    def _grants(self, cache: ClusterCache, namespace: str, project: str) -> Mapping[str, Grant]:
        organisation = quotas_of(cache[NAMESPACES].get(None, namespace), self._config.quotas)
        quotas = organisation.quotas
        if (quotas.environments, quotas.replicas) == (None, None) and not organisation.problem:
            return {}
        found = grants(organisation, list(claims_in(cache, namespace)))
        return {name: grant for (owner, name), grant in found.items() if owner == project}

    def _packages(
        self, cache: ClusterCache, namespace: str, label: str, versions: Sequence[ProjectVersion]
    ) -> ObservedPackages:
        if not any(version.status.package_lock for version in versions):
            return ObservedPackages()
        observed = ObservedPackages(
            entries=self._engine.packages(namespace),
            jobs={one["metadata"]["name"]: one for one in cache[JOBS].by_index("project", label)},
            pods=[
                pod
                for pod in cache[PODS].by_index("project", label)
                if JOB_LABEL in pod["metadata"].get("labels", {})
            ],
        )
        if observed.unread:
            self._engine.packages(namespace, again=True)
        return observed

    async def _source(self, project: Project, then: Callable[[], None]) -> Source:
        try:
            found = await self._code.current(project, then)
        except Pending as pending:
            return Source(waiting=str(pending))
        except FilesMissing as error:
            return Source(problem=str(error))
        return replace(source_of(found.digest, project.spec.labels), origin=found.origin)

    async def _with_files(
        self,
        project: Project,
        source: Source,
        versions: Sequence[ProjectVersion],
        packs: Collection[str],
        environments: dict[str, ObservedEnvironment],
    ) -> Source:
        """The source with its contents, if a version of them must be created or completed."""
        if source.digest is None or not any(item.choice.follows for item in environments.values()):
            return source
        current = current_version(versions, source.digest)
        if current and all(item.name in packs for item in current.spec.config_maps):
            return source
        try:
            return replace(source, files=await self._code.files(project))
        except Pending as pending:
            return Source(waiting=str(pending))
        except FilesMissing as error:
            return Source(problem=str(error))

    def _environments(
        self, cache: ClusterCache, obj: Object, project: Project, source: Source, label: str
    ) -> dict[str, ObservedEnvironment]:
        pods = cache[PODS].by_index("project", label)
        previous = {item.name: item for item in project.status.environments}
        environments = {}
        for spec in project.spec.effective_environments():
            choice = select_version(
                spec,
                previous.get(spec.name),
                accept=project.spec.settings.accept_code_changes_automatically,
                current=source.digest,
            )
            workload = workload_name(project.name, spec.name)
            environment = _environment(cache, project, spec.name, workload, choice, pods)
            if self._config.exposure.mode is not ExposureMode.NONE and not choice.draft:
                url = public_url(self._config, project, spec.name, workload, environment.children)
                environment = replace(
                    environment, address_conflict=address_conflict(obj, spec.name, url, cache[PROJECTS])
                )
            level = self._engine.level(project.namespace, engine_credentials_name(workload))
            work = self._engine.work(project.namespace, engine_credentials_name(workload))
            environments[spec.name] = replace(environment, queue_level=level, work=work)
        return environments

    async def _analyses(
        self,
        key: Key,
        versions: Sequence[ProjectVersion],
        environments: dict[str, ObservedEnvironment],
        source: Source,
    ) -> dict[str, Analysis]:
        """The analyses of versions that are to be deployed."""
        current = current_version(versions, source.digest)
        analyses = {}
        for item in environments.values():
            pinned = next((v for v in versions if v.name == item.choice.pinned_version), None)
            version = current if item.choice.follows else pinned
            deployed = deployed_version(item.children.get(DEPLOYMENTS))
            if version and version.name != deployed and version.status.state:
                try:
                    analysis = await self._code.analyse(version, lambda: self._enqueue(key))
                except FilesMissing:
                    continue
                if analysis is not None:
                    analyses[version.name] = analysis
        return analyses


def _secrets_of_code(project: Project) -> set[str]:
    """The names of the Secrets that environment variables and volumes of the project come from."""
    runtimes = (project.spec.runtime, *(item.runtime for item in project.spec.environments))
    return {
        name
        for runtime in runtimes
        if runtime
        for name in (*referenced_secrets(runtime), *mounted_secrets(runtime))
    }


def _runs_under_its_id(project: Project) -> bool:
    """Whether it was accepted with its id before: a later duplicate of the id does not stop what runs."""
    return any(item.id == environment_id(project.id, item.name) for item in project.status.environments)


def _environment(
    cache: ClusterCache,
    project: Project,
    name: str,
    workload: str,
    choice: VersionSelection,
    pods: Sequence[Object],
) -> ObservedEnvironment:
    namespace, uid = project.namespace, project.metadata.uid
    labels = {ENVIRONMENT_ID_LABEL: environment_id(project.id, name)}
    children: dict[Resource, Object] = {}
    for resource in CHILD_RESOURCES:
        found = cache[resource].get(namespace, child_name(resource, workload))
        if found is not None and not is_terminating(found) and may_write(found, uid, labels):
            children[resource] = found
    index_key = joined(namespace, project.name, name)
    templates = [
        item
        for item in cache[CONNECTION_TEMPLATES].by_index("environment", index_key)
        if not is_terminating(item)
    ]
    shown = cache[ENVIRONMENTS].get(namespace, environment_object_name(project.name, name))
    if shown is not None and (is_terminating(shown) or not may_write(shown, uid, labels)):
        shown = None
    return ObservedEnvironment(
        name=name,
        choice=choice,
        workload=workload,
        children=children,
        environment=shown,
        pods=[pod for pod in pods if _is_pod_of(pod, workload, name)],
        templates=frozenset(item["spec"]["name"] for item in templates),
        connection_problem=_connection_problem(templates),
        installer={
            resource: found
            for resource in (SERVICE_ACCOUNTS, NETWORK_POLICIES)
            if (found := cache[resource].get(namespace, packages_name(workload))) is not None
            and not is_terminating(found)
            and may_write(found, uid, labels)
        },
    )


def _connection_problem(templates: Sequence[Object]) -> Failure | None:
    """Why a static template, which all runs share, cannot be used. Dynamic ones get their connections from users."""
    for item in sorted(templates, key=lambda item: str(item["spec"]["name"])):
        condition = find_condition(item)
        if (
            condition
            and has_failed(item)
            and condition["reason"] in UNUSABLE
            and not item["spec"].get("dynamic")
        ):
            name, message = item["spec"]["name"], condition["message"][:1024]
            return Failure(
                condition["reason"], f'code cannot use the connection template "{name}": {message}'
            )
    return None


def _is_pod_of(pod: Object, workload: str, environment: str) -> bool:
    """Whether a pod is of the environment: long project names may share labels, but workloads have unique names."""
    labels = pod["metadata"]["labels"]
    return (labels.get(INSTANCE_LABEL), labels.get(ENVIRONMENT_LABEL)) == (workload, environment)


def _orphaned_children(
    cache: ClusterCache, project: Project, label: str, workloads: Mapping[str, str]
) -> list[tuple[Resource, Object]]:
    """``workloads`` are those of the environments that there are."""
    names = set(workloads.values())
    shown = {environment_object_name(project.name, name) for name in workloads}
    strays = [
        (ENVIRONMENTS, obj)
        for obj in cache[ENVIRONMENTS].by_index("project", joined(project.namespace, project.name))
        if obj["metadata"]["name"] not in shown
        and not is_terminating(obj)
        and is_owned(obj, project.metadata.uid)
    ]
    return strays + [
        (resource, obj)
        for resource in CHILD_RESOURCES
        for obj in cache[resource].by_index("project", label)
        if obj["metadata"]["name"] not in {child_name(resource, name) for name in names}
        and obj["metadata"]["name"] not in {packages_name(name) for name in names}
        and not is_terminating(obj)
        and is_owned(obj, project.metadata.uid)
    ]
