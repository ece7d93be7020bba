"""One environment of a project: what should run, and the manifests for it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tieline_core.checks import missing_templates, summary
from tieline_core.ids import environment_id
from tieline_core.kube import Resource
from tieline_core.kube import resources as r
from tieline_core.resources import Project, ProjectVersion
from tieline_core.resources.project_versions import VersionState
from tieline_core.resources.projects import EnvironmentSpec
from tieline_operator import workloads
from tieline_operator.config import Config
from tieline_operator.differences import contained
from tieline_operator.environments import Seen, Wanted
from tieline_operator.exposure import Way
from tieline_operator.hosts import HOST_TAKEN
from tieline_operator.plans import Child, Deletion, Object
from tieline_operator.pods import Failure, deployed_version, read_pod
from tieline_operator.project_view import EnvironmentView, ProjectView
from tieline_operator.public_urls import filled, in_lower_case
from tieline_operator.workloads import REVISION_ANNOTATION, Manifest, Workload

SOMETIMES = (r.POD_DISRUPTION_BUDGETS, r.INGRESSES, r.HTTP_ROUTES)
"""Made where they are asked for, gone where they are not any more."""


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """What to do for an environment, and what its status is judged by."""

    wanted: Wanted
    seen: Seen
    children: Sequence[Child] = ()
    deletions: Sequence[Deletion] = ()


@dataclass(frozen=True)
class Target:
    """The version that should serve, or why there is none."""

    name: str | None
    version: ProjectVersion | None = None
    problem: Failure | None = None
    waiting: str = ""


def rollout(view: ProjectView, spec: EnvironmentSpec, *, current: str | None) -> Rollout:
    """Plans one environment; ``current`` is the name of the version of the project's current files."""
    there = view.environments[spec.name]
    pods = tuple(read_pod(obj) for obj in there.pods)
    deployment = there.children.get(r.DEPLOYMENTS)
    seen = Seen(deployment=deployment, pods=pods, previous=view.previous(spec.name))
    wanted = Wanted(
        name=spec.name,
        id=environment_id(view.project.id, spec.name),
        workload=there.workload,
        draft=there.choice.draft,
        pinned_version=there.choice.pinned_version,
        pinned_digest=there.choice.pinned_digest,
    )
    if there.choice.draft:
        gone = tuple(Deletion.of(resource, obj) for resource, obj in there.children.items())
        return Rollout(wanted=wanted, seen=seen, deletions=gone)
    target = _target(view, there, spec, current)
    workload = _workload(view, there, spec)
    if there.address_taken and not target.problem:
        target = replace(target, problem=Failure(HOST_TAKEN, there.address_taken))
    wanted = replace(
        wanted,
        suspended=spec.suspended,
        replicas=workload.replicas,
        version=target.name,
        problem=target.problem,
        waiting=target.waiting,
        impaired=there.impaired,
        public_url="" if there.address_taken else workload.public_url,
    )
    return _with_manifests(view, there, Rollout(wanted=wanted, seen=seen), workload, target)


def _with_manifests(
    view: ProjectView, there: EnvironmentView, planned: Rollout, workload: Workload, target: Target
) -> Rollout:
    desired: dict[Resource, Manifest] = {
        r.SERVICE_ACCOUNTS: workloads.service_account(workload),
        r.NETWORK_POLICIES: workloads.network_policy(workload),
        r.SERVICES: workloads.service(workload),
    }
    if workload.replicas > 1:
        desired[r.POD_DISRUPTION_BUDGETS] = workloads.disruption_budget(workload)

    wanted = planned.wanted
    version = _to_run(view, there, target)
    if version is not None and not workload.public_url:
        wanted = replace(wanted, waiting=wanted.waiting or "its Service is being made")
    elif version is not None:
        manifest = _deployment(view, there, workload, version)
        desired[r.DEPLOYMENTS] = manifest
        annotations = manifest["spec"]["template"]["metadata"]["annotations"]
        wanted = replace(
            wanted,
            revision=annotations[REVISION_ANNOTATION],
            in_sync=contained(manifest, there.children.get(r.DEPLOYMENTS)),
        )
    if not there.address_taken:
        desired.update(workloads.entrances(workload))
    children = tuple(
        Child(resource=resource, desired=manifest, actual=there.children.get(resource))
        for resource, manifest in desired.items()
    )
    deletions = tuple(
        Deletion.of(resource, there.children[resource])
        for resource in SOMETIMES
        if resource in there.children and resource not in desired
    )
    return replace(planned, wanted=wanted, children=children, deletions=deletions)


def _deployment(
    view: ProjectView, there: EnvironmentView, workload: Workload, version: ProjectVersion
) -> Manifest:
    """The Deployment; a new URL of the API alone is no reason to replace pods, which go on with the previous one."""

    def with_url(url: str) -> Manifest:
        return workloads.deployment(
            replace(workload, api_url=url), version=version.name, config_maps=version.spec.config_maps
        )

    actual, previous = there.children.get(r.DEPLOYMENTS), view.config.previous_api_url
    if actual is not None and previous:
        earlier = with_url(previous)
        if workloads.revision_of(earlier) == workloads.revision_of(actual):
            return earlier
    return with_url(workload.api_url)


def _to_run(view: ProjectView, there: EnvironmentView, target: Target) -> ProjectVersion | None:
    """What the Deployment is told: the target, or while that cannot be, what it runs already."""
    if target.version is not None and not target.problem and not target.waiting:
        return target.version
    return view.version(deployed_version(there.children.get(r.DEPLOYMENTS)))


def _target(view: ProjectView, there: EnvironmentView, spec: EnvironmentSpec, current: str | None) -> Target:
    name = current if there.choice.follows else spec.version
    if there.choice.follows and view.source.problem:
        return Target(None, problem=Failure("FilesMissing", view.source.problem))
    if there.choice.follows and name is None:
        return Target(None, problem=Failure("NoFiles", "The project has no files; add main.py to its source"))
    version = view.version(name)
    if version is None and there.choice.follows:
        return Target(name, waiting=f"version {name} is being made")
    if version is None:
        return Target(
            name,
            problem=Failure(
                "VersionNotFound",
                f'The project has no version "{name}"; name one that `kubectl get projver` shows, or "latest"',
            ),
        )
    return _checked(view, there, version)


def _checked(view: ProjectView, there: EnvironmentView, version: ProjectVersion) -> Target:
    state = version.status.state
    if state is VersionState.FAILED:
        told = summary(version.status.findings) or "its files cannot be read"
        return Target(
            version.name, version, Failure("VersionRefused", f"version {version.name} is refused: {told}")
        )
    if version.name == deployed_version(there.children.get(r.DEPLOYMENTS)):
        return Target(version.name, version)
    analysis = view.analyses.get(version.name)
    if state is None or analysis is None:
        return Target(version.name, version, waiting=f"version {version.name} is being checked")
    missing = missing_templates(analysis.templates, there.templates)
    if missing:
        told = summary(missing)
        problem = Failure("TemplateNotFound", f"version {version.name} cannot be deployed: {told}")
        return Target(version.name, version, problem)
    return Target(version.name, version)


def _workload(view: ProjectView, there: EnvironmentView, spec: EnvironmentSpec) -> Workload:
    project, config = view.project, view.config
    runtime = workloads.merged_runtime(project.spec.runtime, spec.runtime)
    replicas = 1 if runtime.replicas is None else runtime.replicas
    identifier = environment_id(project.id, spec.name)
    name = there.workload
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
        otlp_endpoint=config.otlp_endpoint,
        egress=config.egress,
        public_url=public_url(config, project, spec.name, name, there.children),
        metrics_namespaces=config.metrics_namespaces,
        cluster_dns=config.cluster_dns,
        exposure=config.exposure,
        tls_secret=filled(config.exposure.tls_secret, _url_values(project, spec.name, name, there.children)),
    )


def public_url(
    config: Config, project: Project, environment: str, workload: str, children: Mapping[Resource, Object]
) -> str:
    """Where an environment is to be reached; empty while that is not known."""
    url = filled(config.public_url_template, _url_values(project, environment, workload, children))
    return url if config.exposure.way is Way.NONE else in_lower_case(url)


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
