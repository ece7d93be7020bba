"""One environment of a project: what should run, and the manifests for it. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tieline_core.identity.ids import environment_id
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.project_files.deploy_findings import missing_templates, summary
from tieline_core.resources import ProjectVersion
from tieline_core.resources.project_versions import VersionState
from tieline_core.resources.projects import EnvironmentSpec, EnvironmentStatus
from tieline_core.resources.releases import RolloutState
from tieline_operator.apply.conditions import (
    ID_TAKEN,
    ORGANISATION_CHANGED,
    ORGANISATION_MISSING,
    ORGANISATION_TAKEN,
    READY,
)
from tieline_operator.apply.diff import contained
from tieline_operator.apply.plan import Child, Deletion, Manifest
from tieline_operator.engine.credentials import environment_secret
from tieline_operator.engine.queue_levels import EMPTY, QueueLevel
from tieline_operator.reconcilers.project.address_conflicts import HOST_TAKEN
from tieline_operator.reconcilers.project.environment_status import ActualEnvironment, DesiredEnvironment
from tieline_operator.reconcilers.project.environment_workload import placement_of, variables_of, workload_of
from tieline_operator.reconcilers.project.observed import ObservedEnvironment, ObservedProject
from tieline_operator.reconcilers.project.packages import NO_PACKAGES, PackagePlan, plan_packages
from tieline_operator.reconcilers.project.quota_grants import RECHECK_SECONDS as QUOTA_RECHECK_SECONDS
from tieline_operator.reconcilers.project.quota_grants import Grant
from tieline_operator.reconcilers.project.releases import Deploy
from tieline_operator.reconcilers.project.sleep_plan import is_activated, plan_sleep
from tieline_operator.workload import manifests
from tieline_operator.workload.inputs import Workload
from tieline_operator.workload.packages import installer_objects, job, lock_file, packages_of
from tieline_operator.workload.pod_template import REVISION_ANNOTATION
from tieline_operator.workload.pods import Failure, deployed_version, read_pod

VARIABLE_MISSING = "SecretVariableMissing"
"""The reason where an environment variable cannot come from its Secret."""
PLACEMENT_REFUSED = "PlacementRefused"
"""The reason where pods may not run as the project says."""
VERSION_NOT_FOUND = "VersionNotFound"
FILES_MISSING = "FilesMissing"
TEMPLATE_NOT_FOUND = "TemplateNotFound"
_MAY_BE_LATE = frozenset(
    {FILES_MISSING, VARIABLE_MISSING, PLACEMENT_REFUSED, VERSION_NOT_FOUND, TEMPLATE_NOT_FOUND}
)
"""Something that a deploy needs is not in the caches. It may have been created a moment before: each kind has its own
watch, and they are not in step."""
_LATE_SECONDS = 2.0
CHANGE_CAUSE = "kubernetes.io/change-cause"
"""The annotation of a Project that says what its last change is for, as Deployments have it."""
REVISION = "tieline.dev/source-revision"
"""The annotation of a Project with the revision that its manifest is of."""
_REFUSED_PROJECT = frozenset({ID_TAKEN, ORGANISATION_CHANGED, ORGANISATION_MISSING, ORGANISATION_TAKEN})
"""Reasons of a project for which nothing is planned. What it runs stays as it is."""
OPTIONAL_CHILDREN = (
    r.POD_DISRUPTION_BUDGETS,
    r.INGRESSES,
    r.HTTP_ROUTES,
    r.ENGINE_SECRETS,
    r.ENDPOINT_SLICES,
)
"""Children that exist only where the spec or the settings ask for them."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentPlan:
    """What to do for an environment, and what its status is computed from."""

    desired: DesiredEnvironment
    actual: ActualEnvironment
    children: Sequence[Child] = ()
    deletions: Sequence[Deletion] = ()
    renew_after: float | None = None
    """Seconds until the credentials of its pods are renewed."""
    packages_recheck: float | None = None
    """Seconds until it is looked again for packages that were just stored."""
    late_after: float | None = None
    """Seconds after which a deploy has failed for something that is not there."""
    scaling_recheck: float | None = None
    """Seconds until it may be time to sleep or to wake."""
    quota_recheck: float | None = None
    """Seconds until it is looked again for what other environments have left of a quota."""


@dataclass(frozen=True)
class Target:
    """The version that should serve, or why there is none."""

    name: str | None
    version: ProjectVersion | None = None
    problem: Failure | None = None
    waiting: str = ""
    packages: PackagePlan = NO_PACKAGES


def plan_environment(
    observed: ObservedProject, spec: EnvironmentSpec, *, current: str | None, now: datetime
) -> EnvironmentPlan:
    """Plans one environment; ``current`` is the name of the version of the project's current files."""
    environment = observed.environments[spec.name]
    pods = tuple(read_pod(obj) for obj in environment.pods)
    deployment = environment.children.get(r.DEPLOYMENTS)
    actual = ActualEnvironment(deployment=deployment, pods=pods, previous=observed.previous(spec.name))
    desired = DesiredEnvironment(
        name=spec.name,
        id=environment_id(observed.project.id, spec.name),
        workload=environment.workload,
        draft=environment.choice.draft,
        pinned_version=environment.choice.pinned_version,
        pinned_digest=environment.choice.pinned_digest,
        healthy_seconds=observed.config.healthy_seconds,
    )
    if environment.choice.draft:
        gone = tuple(Deletion.of(resource, obj) for resource, obj in environment.children.items())
        shown = _environment_child(environment, workload_of(observed, environment, spec))
        return EnvironmentPlan(desired=desired, actual=actual, children=(shown,), deletions=gone)
    target = _target(observed, environment, spec, current)
    workload = workload_of(observed, environment, spec)
    grant = observed.grants.get(spec.name) or Grant(replicas=workload.replicas)
    if grant.refusal:
        desired = replace(
            desired,
            suspended=spec.suspended,
            version=target.name,
            digest=target.version.spec.digest if target.version else "",
            problem=grant.refusal,
        )
        return EnvironmentPlan(
            desired=desired,
            actual=actual,
            children=(_environment_child(environment, workload),),
            quota_recheck=QUOTA_RECHECK_SECONDS,
        )
    variables = variables_of(observed, environment, workload)
    placement = placement_of(observed, environment, workload)
    workload = replace(
        workload,
        replicas=grant.replicas,
        secret_variables=variables.given,
        placement=placement.effective,
        mounted_secrets=placement.secrets,
    )
    if variables.problems and not target.problem:
        target = replace(target, problem=Failure(VARIABLE_MISSING, variables.problem))
    if placement.problems and not target.problem:
        target = replace(target, problem=Failure(PLACEMENT_REFUSED, placement.problem))
    if grant.shortage and not grant.replicas and not target.problem:
        target = replace(target, problem=grant.shortage)
    if environment.address_conflict and not target.problem:
        target = replace(target, problem=Failure(HOST_TAKEN, environment.address_conflict))
    late_after = _late_after(target, actual.previous, now)
    is_settled = not (target.problem or target.waiting)
    sleep = plan_sleep(observed, environment, spec, workload, target.name if is_settled else None, now)
    if sleep.asleep:
        workload = replace(workload, replicas=0)
    queue_level = _queue_level(observed, environment, spec.name)
    desired = replace(
        desired,
        suspended=spec.suspended,
        sleeping=sleep.asleep,
        replicas=workload.replicas,
        version=target.name,
        digest=target.version.spec.digest if target.version else "",
        problem=target.problem,
        is_late=late_after is not None,
        waiting=target.waiting,
        connection_problem=environment.connection_problem or grant.shortage or queue_level.refusal,
        queue_level=queue_level,
        public_url="" if environment.address_conflict else workload.public_url,
        deploy=_deploy(observed, environment, spec, target),
    )
    return _with_manifests(
        observed,
        environment,
        EnvironmentPlan(
            desired=desired,
            actual=actual,
            late_after=late_after,
            scaling_recheck=sleep.recheck_after,
            quota_recheck=QUOTA_RECHECK_SECONDS if grant.shortage else None,
        ),
        workload,
        target,
        now,
        keep_deployment=bool(variables.problems or placement.problems)
        and not (variables.withdrawn or placement.withdrawn)
        and workload.replicas > 0,
    )


def _with_manifests(
    observed: ObservedProject,
    environment: ObservedEnvironment,
    planned: EnvironmentPlan,
    workload: Workload,
    target: Target,
    now: datetime,
    *,
    keep_deployment: bool,
) -> EnvironmentPlan:
    """``keep_deployment``: new pods would lack a variable, or run where they should not."""
    objects: dict[Resource, Manifest] = {
        r.SERVICE_ACCOUNTS: manifests.service_account(workload),
        r.NETWORK_POLICIES: manifests.network_policy(workload),
        r.SERVICES: manifests.service(workload),
    }
    renew_after = None
    if observed.engine_signer:
        objects[r.ENGINE_SECRETS], renew_after = environment_secret(
            workload, observed.engine_signer, environment.children.get(r.ENGINE_SECRETS), now
        )
    version = None if keep_deployment else _to_run(observed, environment, target)
    running = _packages(observed, environment, version) if version else NO_PACKAGES
    installs = [
        (plan, of)
        for plan, of in ((target.packages, target.version), (running, version))
        if plan.key and of is not None
    ]
    if is_activated(observed, workload, planned.actual.pods, sleeping=planned.desired.sleeping):
        objects[r.ENDPOINT_SLICES] = manifests.activator_slice(workload, observed.activators)
    if workload.replicas > 1:
        objects[r.POD_DISRUPTION_BUDGETS] = manifests.disruption_budget(workload)

    desired = planned.desired
    if version is not None and not workload.public_url:
        desired = replace(desired, waiting=desired.waiting or "its Service is being made")
    elif version is not None:
        stays_stopped = version is not target.version or bool(target.problem or target.waiting)
        if stays_stopped and _was_stopped(observed, planned.actual):
            # What ran before the suspension never serves again, unless it is deployed.
            workload = replace(workload, replicas=0)
        manifest = manifests.deployment(
            workload,
            version=version.name,
            config_maps=version.spec.config_maps,
            packages=running.packages,
        )
        objects[r.DEPLOYMENTS] = manifest
        annotations = manifest["spec"]["template"]["metadata"]["annotations"]
        desired = replace(
            desired,
            revision=annotations[REVISION_ANNOTATION],
            in_sync=contained(manifest, environment.children.get(r.DEPLOYMENTS)),
        )
    if not environment.address_conflict:
        objects.update(manifests.ingress_objects(workload))
    children = tuple(
        Child(resource=resource, desired=manifest, actual=environment.children.get(resource))
        for resource, manifest in objects.items()
    )
    # Without the signer, pods use the credentials that they have.
    deletions = tuple(
        Deletion.of(resource, environment.children[resource])
        for resource in OPTIONAL_CHILDREN
        if resource in environment.children and resource not in objects and resource != r.ENGINE_SECRETS
    )
    return replace(
        planned,
        desired=desired,
        children=(
            _environment_child(environment, workload),
            *children,
            *_installers(observed, environment, workload, installs),
        ),
        deletions=(*deletions, *_unused_installers(environment, installs)),
        renew_after=renew_after,
        packages_recheck=target.packages.recheck_after,
    )


def _was_stopped(observed: ObservedProject, actual: ActualEnvironment) -> bool:
    """Whether the environment ran nothing, or was to run nothing, when it was last seen."""
    if actual.deployment is None or (actual.previous is not None and actual.previous.sleeping):
        return False
    # A deploy to a project that is refused as a whole has no rollout either, and its pods go on.
    ready = observed.project.condition(READY)
    was_refused = ready is not None and ready.reason in _REFUSED_PROJECT
    was_suspended = actual.previous is not None and actual.previous.rollout is None and not was_refused
    return was_suspended or actual.deployment["spec"].get("replicas") == 0


def _installers(
    observed: ObservedProject,
    environment: ObservedEnvironment,
    workload: Workload,
    installs: Sequence[tuple[PackagePlan, ProjectVersion]],
) -> Iterator[Child]:
    """What the Jobs need that install packages, and those Jobs that have to be made."""
    if not installs:
        return
    config = observed.config
    for resource, manifest in installer_objects(workload, config.packages_index_url).items():
        yield Child(resource=resource, desired=manifest, actual=environment.installer.get(resource))
    for key, version in {plan.key: version for plan, version in installs if plan.install}.items():
        if (lock := lock_file(version.spec.config_maps)) is not None:
            manifest = job(
                workload,
                key=key,
                lock=lock,
                architecture=workload.architecture,
                index_url=config.packages_index_url,
                index_secret=config.packages_index_secret,
                authorities=config.packages_ca,
            )
            yield Child(resource=r.JOBS, desired=manifest, actual=None)


def _unused_installers(
    environment: ObservedEnvironment, installs: Sequence[tuple[PackagePlan, ProjectVersion]]
) -> Iterator[Deletion]:
    if not installs:
        for resource, obj in environment.installer.items():
            yield Deletion.of(resource, obj)


def _packages(
    observed: ObservedProject, environment: ObservedEnvironment, version: ProjectVersion
) -> PackagePlan:
    deployment = environment.children.get(r.DEPLOYMENTS)
    is_deployed = deployed_version(deployment) == version.name
    return plan_packages(
        observed.packages,
        version,
        environment_id=environment_id(observed.project.id, environment.name),
        architecture=observed.config.packages_architecture,
        deployed=packages_of(deployment) if is_deployed else None,
    )


def _to_run(
    observed: ObservedProject, environment: ObservedEnvironment, target: Target
) -> ProjectVersion | None:
    """The version for the Deployment: the target, or what it runs already while the target cannot be deployed."""
    if target.version is not None and not target.problem and not target.waiting:
        return target.version
    return observed.version(deployed_version(environment.children.get(r.DEPLOYMENTS)))


def _target(
    observed: ObservedProject, environment: ObservedEnvironment, spec: EnvironmentSpec, current: str | None
) -> Target:
    name = current if environment.choice.follows else spec.version
    if environment.choice.follows and observed.source.problem:
        return Target(None, problem=Failure(FILES_MISSING, observed.source.problem))
    if environment.choice.follows and observed.source.waiting:
        return Target(None, waiting=observed.source.waiting)
    if environment.choice.follows and name is None:
        return Target(None, problem=Failure("NoFiles", "The project has no files; add main.py to its source"))
    version = observed.version(name)
    if version is None and environment.choice.follows:
        return Target(name, waiting=f"version {name} is being made")
    if version is None:
        return Target(
            name,
            problem=Failure(
                VERSION_NOT_FOUND,
                f'The project has no version "{name}"; name one that `kubectl get projectversions` shows, or "latest"',
            ),
        )
    return _checked(observed, environment, version)


def _checked(observed: ObservedProject, environment: ObservedEnvironment, version: ProjectVersion) -> Target:
    state = version.status.state
    if state is VersionState.FAILED:
        findings = summary(version.status.findings) or "its files cannot be read"
        return Target(
            version.name, version, Failure("VersionRefused", f"version {version.name} is refused: {findings}")
        )
    if version.name == deployed_version(environment.children.get(r.DEPLOYMENTS)):
        return Target(version.name, version)
    analysis = observed.analyses.get(version.name)
    if state is None or analysis is None:
        return Target(version.name, version, waiting=f"version {version.name} is being checked")
    missing = missing_templates(analysis.templates, environment.templates)
    if missing:
        findings = summary(missing)
        problem = Failure(TEMPLATE_NOT_FOUND, f"version {version.name} cannot be deployed: {findings}")
        return Target(version.name, version, problem)
    packages = _packages(observed, environment, version)
    return Target(version.name, version, packages.problem, packages.waiting, packages)


def _deploy(
    observed: ObservedProject, environment: ObservedEnvironment, spec: EnvironmentSpec, target: Target
) -> Deploy | None:
    """What a release says of where the target comes from. Annotations are those of the Project's manifest."""
    if target.name is None:
        return None
    project, source = observed.project, observed.project.spec.source.source_ref
    annotations = project.metadata.annotations
    is_from_flux = environment.choice.follows and source is not None
    origin = observed.source.origin
    described = target.version.spec.version_description if target.version else ""
    return Deploy(
        version=target.name,
        digest=target.version.spec.digest if target.version else "",
        note=spec.deploy_note,
        via=f'Flux ({source.kind} "{source.name}")' if is_from_flux and source else observed.applied_by,
        message=annotations.get(CHANGE_CAUSE, "") or described,
        revision=origin.revision if is_from_flux and origin else annotations.get(REVISION, ""),
    )


def _late_after(target: Target, previous: EnvironmentStatus | None, now: datetime) -> float | None:
    """For how long a deploy has not failed though the caches lack something that it needs; None where it has."""
    if not target.problem or target.problem.reason not in _MAY_BE_LATE or previous is None:
        return None
    if previous.desired_version != target.name:
        return _LATE_SECONDS
    if previous.rollout is not RolloutState.PROGRESSING or previous.deployed_at is None:
        return None
    left = _LATE_SECONDS - (now - previous.deployed_at).total_seconds()
    return left if left > 0 else None


def _environment_child(environment: ObservedEnvironment, workload: Workload) -> Child:
    return Child(
        resource=r.ENVIRONMENTS, desired=manifests.environment(workload), actual=environment.environment
    )


def _queue_level(observed: ObservedProject, environment: ObservedEnvironment, name: str) -> QueueLevel:
    """The level; the last one while it is not known, as after a restart."""
    previous = observed.previous(name)
    if environment.queue_level is not None:
        return environment.queue_level
    if previous is None:
        return EMPTY
    return QueueLevel(
        previous.queued, previous.dead_letters, previous.oldest_queued_minutes, previous.engine_bytes
    )
