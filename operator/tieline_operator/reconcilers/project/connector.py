"""The connector of a project: what the project serves becomes triggers and actions, in versions.

The Project's plan has the Connector as a child; the Connector's own reconcile makes its versions.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tieline_core.connectors import storage
from tieline_core.connectors.packing import Map
from tieline_core.connectors.project_connector import webhooks_alone, with_webhooks
from tieline_core.connectors.version_order import newest_first
from tieline_core.identity.display_names import cleaned
from tieline_core.identity.ids import ID_LABEL, object_id, object_name, project_connector_id
from tieline_core.kubernetes.resources import (
    CONNECTOR_VERSIONS,
    CONNECTORS,
    PROJECT_VERSIONS,
    PROJECTS,
    SYSTEMS,
)
from tieline_core.resources import Connector, Project, ProjectVersion
from tieline_core.resources.parsed_cache import PROJECT, VERSION
from tieline_core.resources.project_versions import VersionInterface
from tieline_operator.apply.conditions import find_condition
from tieline_operator.apply.plan import Child, Deletion, Object, Plan, failed, in_progress, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined
from tieline_operator.reconcilers.connector_imports import DescriptionImports, ImportRefusal
from tieline_operator.reconcilers.connector_results import (
    BUSY_SECONDS,
    RECHECK_SECONDS,
    RESULT_MISSING,
    imported,
    latest_version_status,
    missing_config_maps,
    store,
)
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.project.observed import ObservedProject
from tieline_operator.reconcilers.project.version_selection import age_key

VERSIONS_KEPT = 20
_MAX_NAME = 128


def connector_child(observed: ObservedProject, serving: Collection[str | None]) -> tuple[Child, ...]:
    """The project's Connector: created once a serving version offers something, and kept from then on."""
    project = observed.project
    served = served_version(observed.versions, serving)
    offers = served is not None and _offers(served.status.interface)
    if observed.connector is None and not offers:
        return ()
    identifier = project_connector_id(project.id)
    desired = {
        "apiVersion": "tieline.dev/v1alpha1",
        "kind": "Connector",
        "metadata": {
            "name": object_name(identifier),
            "namespace": project.namespace,
            "labels": {ID_LABEL: identifier},
            "ownerReferences": [observed.owner],
        },
        "spec": {"name": cleaned(project.spec.name) or "Connector", "projectRef": {"name": project.name}},
    }
    return (Child(resource=CONNECTORS, desired=desired, actual=observed.connector),)


def served_version(
    versions: Sequence[ProjectVersion], serving: Collection[str | None]
) -> ProjectVersion | None:
    """The newest version that an environment serves, once its files were read."""
    found = [version for version in versions if version.name in serving and version.status.interface]
    return max(found, key=age_key, default=None)


def _offers(interface: VersionInterface | None) -> bool:
    return interface is not None and bool(interface.webhooks or interface.description_file)


class ProjectConnectorReconciler:
    """Makes the versions of projects' connectors."""

    def __init__(self, imports: DescriptionImports, code: ProjectFiles) -> None:
        self._imports = imports
        self._code = code

    async def reconcile(
        self,
        cache: ClusterCache,
        obj: Object,
        connector: Connector,
        versions: Sequence[Object],
    ) -> Plan:
        """Observes a Connector with a project, and plans. Raises FilesMissing."""
        reference = connector.spec.project_ref
        found = cache[PROJECTS].get(connector.namespace, reference.name if reference else "")
        served = _served(cache, PROJECT.of(found)) if found else None
        digest = served.status.interface.digest if served and served.status.interface else None
        # The version that is served is completed instead.
        incomplete = [
            version
            for version in versions
            if version["spec"]["digest"] != digest and _is_incomplete(cache, version)
        ]
        kept = [version for version in versions if version not in incomplete]
        if found is None:
            plan = _without_project(connector, kept)
        else:
            plan = await self._plan(cache, obj, connector, kept, served)
        deletions = [Deletion.of(CONNECTOR_VERSIONS, version) for version in incomplete]
        return replace(plan, deletions=(*plan.deletions, *deletions))

    async def _plan(
        self,
        cache: ClusterCache,
        obj: Object,
        connector: Connector,
        versions: Sequence[Object],
        served: ProjectVersion | None,
    ) -> Plan:
        status = _kept_status(connector, versions)
        interface = served.status.interface if served else None
        if served is None or interface is None:
            return Plan(outcome=ready("NothingServed", "The project serves nothing now"), status=status)
        version = next((item for item in versions if item["spec"]["digest"] == interface.digest), None)
        if version is not None:
            status["defaultVersion"] = version["spec"]["name"]
            if not missing_config_maps(cache, version):
                self._imports.forget(interface.digest)
                plan = await imported(self._imports, cache, version, status)
                return _pruned(plan, cache, obj, versions, kept=version)
        result = await self._result(connector, served, interface)
        if result is None:
            message = f'What version "{served.name}" offers is being imported'
            return Plan(
                outcome=in_progress("Importing", message), status=status, requeue_after=RECHECK_SECONDS
            )
        if isinstance(result, ImportRefusal):
            outcome = in_progress("WaitingToImport", result.message)
            return Plan(outcome=outcome, status=status, requeue_after=BUSY_SECONDS)
        if version is not None and not storage.is_of(version, result):
            # Another release of the operator, or another name of the project, stored it differently.
            outcome = in_progress("Storing", "What was begun to be stored is made anew")
            deletion = Deletion.of(CONNECTOR_VERSIONS, version)
            return Plan(outcome=outcome, status=status, deletions=(deletion,), requeue_after=RECHECK_SECONDS)
        label = version["spec"]["name"] if version else _free_name(served, interface, versions)
        return store(obj, label, version, result, status, digest=interface.digest, siblings=versions)

    async def _result(
        self, connector: Connector, served: ProjectVersion, interface: VersionInterface
    ) -> Sequence[Map] | ImportRefusal | None:
        """What to store; None while the description is being imported, an ImportRefusal when that must wait."""
        if interface.description_file is None:
            return webhooks_alone(await self._code.interface(served), title=connector.spec.name)

        async def read() -> bytes:
            return (await self._code.interface(served)).description

        found = await self._imports.result(interface.digest, read, owner=connector.namespace)
        if found is None or (isinstance(found, ImportRefusal) and found.again):
            return found
        whole = await self._code.interface(served)
        if isinstance(found, ImportRefusal):
            return webhooks_alone(whole, title=connector.spec.name, refused=found.message)
        return with_webhooks(whole, found)


def _without_project(connector: Connector, versions: Sequence[Object]) -> Plan:
    name = connector.spec.project_ref.name if connector.spec.project_ref else ""
    message = f'Project "{name}" does not exist in namespace {connector.namespace}; delete this connector'
    return Plan(outcome=failed("ProjectNotFound", message), status=_kept_status(connector, versions))


def _is_incomplete(cache: ClusterCache, version: Object) -> bool:
    """Whether a version lacks a part for good; its result is stored again once it is served."""
    condition = find_condition(version)
    is_missing = condition is not None and condition["reason"] == RESULT_MISSING
    return is_missing and bool(missing_config_maps(cache, version))


def _served(cache: ClusterCache, project: Project) -> ProjectVersion | None:
    owned = cache[PROJECT_VERSIONS].by_index("project", joined(project.namespace, project.name))
    serving = {environment.version for environment in project.status.environments}
    return served_version([VERSION.of(item) for item in owned], serving)


def _kept_status(connector: Connector, versions: Sequence[Object]) -> dict[str, Any]:
    """The status while nothing new is imported: the newest version, and the one that was served last."""
    status, default = latest_version_status(versions), connector.status.default_version
    if any(version["spec"]["name"] == default for version in versions):
        status["defaultVersion"] = default
    return status


def _free_name(served: ProjectVersion, interface: VersionInterface, versions: Sequence[Object]) -> str:
    """A version has the name of the project's version, unless another has that name already."""
    used_names = {version["spec"]["name"] for version in versions}
    for name in (served.spec.version_name, served.name):
        if (
            name
            and len(name) <= _MAX_NAME
            and name not in used_names
            and name.lower() not in storage.RESERVED
        ):
            return name
    return interface.digest[:32]


def _pruned(
    plan: Plan, cache: ClusterCache, obj: Object, versions: Sequence[Object], *, kept: Object
) -> Plan:
    """The plan, with the deletion of old versions that nothing refers to."""
    index_key = joined(obj["metadata"]["namespace"], obj["metadata"]["name"])
    named = {
        (system["spec"]["connectorRef"].get("version") or "default")
        for system in cache[SYSTEMS].by_index("connector", index_key)
    }
    default: Mapping[str, Any] = obj["spec"]
    named |= {kept["spec"]["name"], default.get("defaultVersion")}
    old = [
        version
        for version in newest_first(versions)[VERSIONS_KEPT:]
        if version["spec"]["name"] not in named and object_id(version) not in named
    ]
    if not old:
        return plan
    deletions = tuple(Deletion.of(CONNECTOR_VERSIONS, version) for version in old)
    return Plan(
        outcome=plan.outcome,
        status=plan.status,
        deletions=deletions,
        requeue_after=plan.requeue_after,
    )
