"""ProjectVersion: are its files there and sound, and where does it stand among the others?"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import orjson

from tieline_core.connectors.webhooks import Interface, Webhook
from tieline_core.kubernetes.resources import CONFIG_MAPS, PROJECT_VERSIONS, PROJECTS
from tieline_core.project_files.config_maps import FilesMissing
from tieline_core.project_files.deploy_findings import has_errors, summary
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.parsed_cache import PROJECT, VERSION
from tieline_core.resources.project_versions import (
    MAX_INPUT_SCHEMAS,
    MAX_TOOLS,
    FileFinding,
    VersionInterface,
    VersionState,
    WebhookTool,
)
from tieline_operator.apply.plan import Deferred, Key, Object, Outcome, Plan, failed, in_progress, ready
from tieline_operator.cache.cluster_cache import ClusterCache
from tieline_operator.cache.indexers import joined
from tieline_operator.reconcilers.project.files import ProjectFiles
from tieline_operator.reconcilers.project.version_selection import age_key
from tieline_operator.reconcilers.references import not_found
from tieline_operator.reconcilers.uniqueness import id_conflict

_WAITING_FOR_FILES = "WaitingForFiles"
_LATE_SECONDS = 2.0
"""ConfigMaps and versions are watched apart, so that a new version may be seen before its files."""


@dataclass(frozen=True, kw_only=True)
class ObservedVersion:
    """A ProjectVersion with its project and its siblings."""

    version: ProjectVersion
    id_conflict: Outcome | None = None
    project: Project | None = None
    siblings: Sequence[ProjectVersion] = ()
    findings: Sequence[FileFinding] = ()
    interface: VersionInterface | None = None
    package_lock: str | None = None
    problem: str = ""
    """Why the files cannot be read."""
    late_after: float | None = None
    """Seconds after which missing files are a failure; None where they are one."""


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """What a check of the files says."""

    findings: Sequence[FileFinding] = ()
    interface: VersionInterface | None = None
    package_lock: str | None = None
    problem: str = ""


class ProjectVersionReconciler:
    """Reconciles versions."""

    def __init__(self, code: ProjectFiles, enqueue: Callable[[Key], None]) -> None:
        self._code = code
        self._enqueue = enqueue

    async def reconcile(self, cache: ClusterCache, obj: Object, now: datetime) -> Plan | Deferred:
        """Observes the ProjectVersion and plans, once its files have been checked."""
        version = VERSION.of(obj)
        name = version.spec.project_ref.name
        project = cache[PROJECTS].get(version.namespace, name)
        siblings = cache[PROJECT_VERSIONS].by_index("project", joined(version.namespace, name))
        checked = await self._findings(cache, version)
        if checked is None:
            return Deferred()
        return plan(
            ObservedVersion(
                version=version,
                id_conflict=id_conflict(obj, cache[PROJECT_VERSIONS]),
                project=PROJECT.of(project) if project else None,
                siblings=[VERSION.of(item) for item in siblings],
                findings=checked.findings,
                interface=checked.interface,
                package_lock=checked.package_lock,
                problem=checked.problem,
                late_after=_late_after(version, now),
            )
        )

    async def _findings(self, cache: ClusterCache, version: ProjectVersion) -> _Checked | None:
        """The findings in the files; None while they are checked. Files never change, so they are checked once."""
        for item in version.spec.config_maps:
            if cache[CONFIG_MAPS].get(version.namespace, item.name) is None:
                problem = f'ConfigMap "{item.name}" with files of this version does not exist; restore it'
                status = version.status
                return _Checked(interface=status.interface, package_lock=status.package_lock, problem=problem)
        condition, status = version.condition("Ready"), version.status
        if status.state and status.interface and condition and condition.reason != "FilesMissing":
            return _Checked(
                findings=status.findings, interface=status.interface, package_lock=status.package_lock
            )
        key = Key(PROJECT_VERSIONS.kind, version.namespace, version.name)
        try:
            analysis = await self._code.analyse(version, lambda: self._enqueue(key))
        except FilesMissing as error:
            return _Checked(problem=str(error))
        if analysis is None:
            return None
        return _Checked(
            findings=analysis.findings,
            interface=_interface(analysis.interface),
            package_lock=analysis.lock,
        )


def _late_after(version: ProjectVersion, now: datetime) -> float | None:
    condition = version.condition("Ready")
    if version.status.state or (condition and condition.status == "False"):
        return None
    if condition is None or condition.reason != _WAITING_FOR_FILES:
        return _LATE_SECONDS
    left = _LATE_SECONDS - (now - condition.last_transition_time).total_seconds()
    return left if left > 0 else None


def plan(observed: ObservedVersion) -> Plan:
    """The version's state: failed when its files are refused, else by what the environments run."""
    version, project = observed.version, observed.project
    if observed.id_conflict:
        return Plan(outcome=observed.id_conflict)
    if project is None:
        name, namespace = version.spec.project_ref.name, version.namespace
        outcome = not_found("ProjectNotFound", name, namespace, "version", "with another projectRef")
        return Plan(outcome=outcome)
    status: dict[str, Any] = {}
    if observed.interface:
        status["interface"] = observed.interface.to_dict()
    if observed.package_lock:
        status["packageLock"] = observed.package_lock
    if observed.findings:
        status["findings"] = [finding.to_dict() for finding in observed.findings]
    if observed.problem and observed.late_after:
        outcome = in_progress(_WAITING_FOR_FILES, f"Waits for its files: {observed.problem}")
        return Plan(outcome=outcome, status=status, requeue_after=observed.late_after)
    if observed.problem:
        return Plan(
            outcome=failed("FilesMissing", observed.problem),
            status={**status, "state": str(VersionState.FAILED)},
        )
    if has_errors(observed.findings):
        message = f"The files are refused: {summary(observed.findings)}; correct them and deploy again"
        return Plan(outcome=failed("Refused", message), status={**status, "state": str(VersionState.FAILED)})
    state = _state(version, project, observed.siblings)
    return Plan(outcome=ready("Checked", _MESSAGES[state]), status={**status, "state": str(state)})


def _interface(found: Interface) -> VersionInterface:
    names = [webhook.name for webhook in found.webhooks]
    described = {"description_file": found.description_file} if found.description_file else {}
    events = {} if found.events is None else {"events": list(found.events)}
    tools = list(_tools(found.webhooks))
    offered = {"tools": tools} if tools else {}
    return VersionInterface(digest=found.digest, webhooks=names, **offered, **described, **events)


def _tools(webhooks: Iterable[Webhook]) -> Iterator[WebhookTool]:
    """Those that agents may run, with their schemas as far as there is room for them."""
    room = MAX_INPUT_SCHEMAS
    for webhook in islice((one for one in webhooks if one.tool), MAX_TOOLS):
        schema = webhook.input_schema
        room -= len(orjson.dumps(schema)) if schema else 0
        yield WebhookTool(
            webhook=webhook.name,
            method="POST" if "POST" in webhook.methods else webhook.methods[0],
            description=webhook.tool,
            **({"input_schema": dict(schema)} if schema and room >= 0 else {}),
        )


_MESSAGES = {
    VersionState.DRAFT: "The files are sound; the version is not deployed yet",
    VersionState.READY: "The files are sound; the version is deployed, or holds the current files",
    VersionState.SUPERSEDED: "The files are sound; another version took its place",
}


def _state(version: ProjectVersion, project: Project, siblings: Sequence[ProjectVersion]) -> VersionState:
    status = project.status
    used = {status.latest_version}
    for environment in status.environments:
        used |= {environment.version, environment.desired_version}
    if version.name in used:
        return VersionState.READY
    newer = any(other.name in used and age_key(other) > age_key(version) for other in siblings)
    # After a rollback the newer versions serve nowhere, but they did.
    served = version.status.state in (VersionState.READY, VersionState.SUPERSEDED)
    return VersionState.SUPERSEDED if newer or served else VersionState.DRAFT
