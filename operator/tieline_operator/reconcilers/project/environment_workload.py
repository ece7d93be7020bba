"""The workload that an environment of a project asks for. Pure."""

from collections.abc import Mapping, Sequence

from tieline_core.identity.ids import environment_id
from tieline_core.identity.names import INTERNAL_API_SERVICE, PUBLIC_API_SERVICE
from tieline_core.kubernetes import Resource
from tieline_core.kubernetes import resources as r
from tieline_core.resources import Project
from tieline_core.resources.projects import EnvironmentSpec
from tieline_operator.apply.plan import Object
from tieline_operator.config import Config
from tieline_operator.reconcilers.project.observed import ObservedEnvironment, ObservedProject
from tieline_operator.reconcilers.project.quota_grants import pods_wanted
from tieline_operator.workload.exposure import ExposureMode
from tieline_operator.workload.inputs import Workload, merged_runtime
from tieline_operator.workload.placement import PodPlacement, pod_placement
from tieline_operator.workload.public_urls import filled, in_lower_case
from tieline_operator.workload.secret_variables import SecretVariables, secret_variables


def workload_of(
    observed: ObservedProject, environment: ObservedEnvironment, spec: EnvironmentSpec
) -> Workload:
    """Whether or not it may run: without its variables, its placement and its quota."""
    project, config = observed.project, observed.config
    runtime = merged_runtime(project.spec.runtime, spec.runtime)
    identifier = environment_id(project.id, spec.name)
    name = environment.workload
    return Workload(
        name=name,
        namespace=project.namespace,
        owner=observed.owner,
        organisation_id=observed.organisation_id or "",
        project=project.name,
        project_id=project.id,
        environment=spec.name,
        environment_id=identifier,
        runtime=runtime,
        image=runtime.image or config.runtime_image,
        packages_image=config.runtime_image,
        architecture=config.packages_architecture,
        pull_secrets=config.image_pull_secrets,
        replicas=pods_wanted(runtime.replicas, suspended=spec.suspended, environment=environment.environment),
        api_url=config.api_url,
        api_ports={INTERNAL_API_SERVICE: _internal_ports(config), PUBLIC_API_SERVICE: (config.listen_port,)},
        tls=config.tls.is_served,
        engine_by_tls=config.engine_by_tls,
        otlp_endpoint=config.otlp_endpoint,
        activator_port=config.activator_port,
        engine_urls=config.engine_url,
        egress=config.egress,
        public_url=public_url(config, project, spec.name, name, environment.children),
        metrics_namespaces=config.metrics_namespaces,
        cluster_dns=config.cluster_dns,
        exposure=config.exposure,
        tls_secret=filled(
            config.exposure.tls_secret, _url_values(project, spec.name, name, environment.children)
        ),
    )


def _internal_ports(config: Config) -> Sequence[int]:
    """While both are served, there are pods of both: they share a NetworkPolicy."""
    plain = [config.internal_port] if config.tls.is_plain_served else []
    return [*plain, *([config.internal_tls_port] if config.tls.is_served else [])]


def variables_of(
    observed: ObservedProject, environment: ObservedEnvironment, workload: Workload
) -> SecretVariables:
    """The environment variables from Secrets that its pods get, and what is wrong with the others."""
    return secret_variables(
        workload.runtime,
        project=workload.project,
        environment=workload.environment,
        secrets=observed.secrets,
        deployment=environment.children.get(r.DEPLOYMENTS),
    )


def placement_of(
    observed: ObservedProject, environment: ObservedEnvironment, workload: Workload
) -> PodPlacement:
    """Where its pods run and what they mount, and what is not allowed of that."""
    return pod_placement(
        workload.runtime,
        observed.placement_policy,
        project=workload.project,
        environment=workload.environment,
        secrets=observed.secrets,
        deployment=environment.children.get(r.DEPLOYMENTS),
    )


def public_url(
    config: Config, project: Project, environment: str, workload: str, children: Mapping[Resource, Object]
) -> str:
    """The public URL of an environment; empty while it is not known."""
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
