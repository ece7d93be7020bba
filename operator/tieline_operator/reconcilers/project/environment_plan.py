"""One environment of a project: what should run, and the manifests for it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tieline_core.identity.ids import environment_id
from tieline_core.identity.names import INTERNAL_API_SERVICE, PUBLIC_API_SERVICE
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.project_files.deploy_findings import missing_templates, summary
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.project_versions import VersionState
from tieline_core.resources.projects import EnvironmentSpec
from tieline_operator.apply.diff import contained
from tieline_operator.apply.plan import Child, Deletion, Manifest, Object
from tieline_operator.config import Config
from tieline_operator.reconcilers.project.address_conflicts import HOST_TAKEN
from tieline_operator.reconcilers.project.environment_status import ActualEnvironment, DesiredEnvironment
from tieline_operator.reconcilers.project.observed import ObservedEnvironment, ObservedProject
from tieline_operator.workload import manifests
from tieline_operator.workload.exposure import ExposureMode
from tieline_operator.workload.manifests import REVISION_ANNOTATION, Workload
from tieline_operator.workload.pods import Failure, deployed_version, read_pod
from tieline_operator.workload.public_urls import filled, in_lower_case

OPTIONAL_CHILDREN = (r.POD_DISRUPTION_BUDGETS, r.INGRESSES, r.HTTP_ROUTES)
"""Made where they are asked for, gone where they are not any more."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentPlan:
    """What to do for an environment, and what its status is judged by."""

    wanted: DesiredEnvironment
    seen: ActualEnvironment
    children: Sequence[Child] = ()
    deletions: Sequence[Deletion] = ()


@dataclass(frozen=True)
class Target:
    """The version that should serve, or why there is none."""

    name: str | None
    version: ProjectVersion | None = None
    problem: Failure | None = None
    waiting: str = ""


def plan_environment(view: ObservedProject, spec: EnvironmentSpec, *, current: str | None) -> EnvironmentPlan:
    """Plans one environment; ``current`` is the name of the version of the project's current files."""
    observed = view.environments[spec.name]
    pods = tuple(read_pod(obj) for obj in observed.pods)
    deployment = observed.children.get(r.DEPLOYMENTS)
    seen = ActualEnvironment(deployment=deployment, pods=pods, previous=view.previous(spec.name))
    wanted = DesiredEnvironment(
        name=spec.name,
        id=environment_id(view.project.id, spec.name),
        workload=observed.workload,
        draft=observed.choice.draft,
        pinned_version=observed.choice.pinned_version,
        pinned_digest=observed.choice.pinned_digest,
    )
    if observed.choice.draft:
        gone = tuple(Deletion.of(resource, obj) for resource, obj in observed.children.items())
        return EnvironmentPlan(wanted=wanted, seen=seen, deletions=gone)
    target = _target(view, observed, spec, current)
    workload = _workload(view, observed, spec)
    if observed.address_conflict and not target.problem:
        target = replace(target, problem=Failure(HOST_TAKEN, observed.address_conflict))
    wanted = replace(
        wanted,
        suspended=spec.suspended,
        replicas=workload.replicas,
        version=target.name,
        problem=target.problem,
        waiting=target.waiting,
        impaired=observed.impaired,
        public_url="" if observed.address_conflict else workload.public_url,
    )
    return _with_manifests(view, observed, EnvironmentPlan(wanted=wanted, seen=seen), workload, target)


def _with_manifests(
    view: ObservedProject,
    observed: ObservedEnvironment,
    planned: EnvironmentPlan,
    workload: Workload,
    target: Target,
) -> EnvironmentPlan:
    desired: dict[Resource, Manifest] = {
        r.SERVICE_ACCOUNTS: manifests.service_account(workload),
        r.NETWORK_POLICIES: manifests.network_policy(workload),
        r.SERVICES: manifests.service(workload),
    }
    if workload.replicas > 1:
        desired[r.POD_DISRUPTION_BUDGETS] = manifests.disruption_budget(workload)

    wanted = planned.wanted
    version = _to_run(view, observed, target)
    if version is not None and not workload.public_url:
        wanted = replace(wanted, waiting=wanted.waiting or "its Service is being made")
    elif version is not None:
        manifest = _deployment(view, observed, workload, version)
        desired[r.DEPLOYMENTS] = manifest
        annotations = manifest["spec"]["template"]["metadata"]["annotations"]
        wanted = replace(
            wanted,
            revision=annotations[REVISION_ANNOTATION],
            in_sync=contained(manifest, observed.children.get(r.DEPLOYMENTS)),
        )
    if not observed.address_conflict:
        desired.update(manifests.ingress_objects(workload))
    children = tuple(
        Child(resource=resource, desired=manifest, actual=observed.children.get(resource))
        for resource, manifest in desired.items()
    )
    deletions = tuple(
        Deletion.of(resource, observed.children[resource])
        for resource in OPTIONAL_CHILDREN
        if resource in observed.children and resource not in desired
    )
    return replace(planned, wanted=wanted, children=children, deletions=deletions)


def _deployment(
    view: ObservedProject, observed: ObservedEnvironment, workload: Workload, version: ProjectVersion
) -> Manifest:
    """The Deployment; a new URL of the API alone is no reason to replace pods, which go on with the previous one."""

    def with_url(url: str) -> Manifest:
        return manifests.deployment(
            replace(workload, api_url=url), version=version.name, config_maps=version.spec.config_maps
        )

    actual, previous = observed.children.get(r.DEPLOYMENTS), view.config.previous_api_url
    if actual is not None and previous:
        earlier = with_url(previous)
        if manifests.revision_of(earlier) == manifests.revision_of(actual):
            return earlier
    return with_url(workload.api_url)


def _to_run(view: ObservedProject, observed: ObservedEnvironment, target: Target) -> ProjectVersion | None:
    """What the Deployment is told: the target, or while that cannot be, what it runs already."""
    if target.version is not None and not target.problem and not target.waiting:
        return target.version
    return view.version(deployed_version(observed.children.get(r.DEPLOYMENTS)))


def _target(
    view: ObservedProject, observed: ObservedEnvironment, spec: EnvironmentSpec, current: str | None
) -> Target:
    name = current if observed.choice.follows else spec.version
    if observed.choice.follows and view.source.problem:
        return Target(None, problem=Failure("FilesMissing", view.source.problem))
    if observed.choice.follows and name is None:
        return Target(None, problem=Failure("NoFiles", "The project has no files; add main.py to its source"))
    version = view.version(name)
    if version is None and observed.choice.follows:
        return Target(name, waiting=f"version {name} is being made")
    if version is None:
        return Target(
            name,
            problem=Failure(
                "VersionNotFound",
                f'The project has no version "{name}"; name one that `kubectl get projver` shows, or "latest"',
            ),
        )
    return _checked(view, observed, version)


def _checked(view: ObservedProject, observed: ObservedEnvironment, version: ProjectVersion) -> Target:
    state = version.status.state
    if state is VersionState.FAILED:
        told = summary(version.status.findings) or "its files cannot be read"
        return Target(
            version.name, version, Failure("VersionRefused", f"version {version.name} is refused: {told}")
        )
    if version.name == deployed_version(observed.children.get(r.DEPLOYMENTS)):
        return Target(version.name, version)
    analysis = view.analyses.get(version.name)
    if state is None or analysis is None:
        return Target(version.name, version, waiting=f"version {version.name} is being checked")
    missing = missing_templates(analysis.templates, observed.templates)
    if missing:
        told = summary(missing)
        problem = Failure("TemplateNotFound", f"version {version.name} cannot be deployed: {told}")
        return Target(version.name, version, problem)
    return Target(version.name, version)


def _workload(view: ObservedProject, observed: ObservedEnvironment, spec: EnvironmentSpec) -> Workload:
    project, config = view.project, view.config
    runtime = manifests.merged_runtime(project.spec.runtime, spec.runtime)
    replicas = 1 if runtime.replicas is None else runtime.replicas
    identifier = environment_id(project.id, spec.name)
    name = observed.workload
    return Workload(
        name=name,
        namespace=project.namespace,
        owner=view.owner,
        organisation_id=view.organisation_id or "",
        project=project.name,
        project_id=project.id,
        environment=spec.name,
        environment_id=identifier,
        runtime=runtime,
        image=runtime.image or config.runtime_image,
        pull_secrets=config.image_pull_secrets,
        replicas=0 if spec.suspended else replicas,
        api_url=config.api_url,
        previous_api_url=config.previous_api_url,
        api_ports={INTERNAL_API_SERVICE: config.internal_port, PUBLIC_API_SERVICE: config.listen_port},
        otlp_endpoint=config.otlp_endpoint,
        egress=config.egress,
        public_url=public_url(config, project, spec.name, name, observed.children),
        metrics_namespaces=config.metrics_namespaces,
        cluster_dns=config.cluster_dns,
        exposure=config.exposure,
        tls_secret=filled(
            config.exposure.tls_secret, _url_values(project, spec.name, name, observed.children)
        ),
    )


def public_url(
    config: Config, project: Project, environment: str, workload: str, children: Mapping[Resource, Object]
) -> str:
    """Where an environment is to be reached; empty while that is not known."""
    url = filled(config.public_url_template, _url_values(project, environment, workload, children))
    return url if config.exposure.mode is ExposureMode.NONE else in_lower_case(url)


def _url_values(
    project: Project, environment: str, workload: str, children: Mapping[Resource, Object]
) -> Mapping[str, str]:
    service = children.get(r.SERVICES)
    return {
        "clusterIP": service["spec"].get("clusterIP", "") if service else "",
        "name": workload,
        "namespace": project.namespace,
        "environmentId": environment_id(project.id, environment),
        "environment": environment,
        "project": project.name,
    }
