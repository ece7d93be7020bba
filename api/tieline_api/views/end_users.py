"""What end users see in answers that other callers see the whole of."""

from tieline_api.http.operation import AnyCall
from tieline_api.schemas.projects import DeploymentSpec, Environment, EnvironmentConfig
from tieline_core.resources.objects import ConnectionObject


def sees_connection(call: AnyCall, connection: ConnectionObject) -> bool:
    """Whether a connection may be in the answer."""
    return call.reach is None or call.reach.has_connection(connection)


def seen_environment(call: AnyCall, environment: Environment) -> Environment:
    """An environment as the caller may see it: an end user learns its name, and nothing of how it runs."""
    if call.caller.end_user is None:
        return environment
    return Environment(
        id=environment.id,
        name=environment.name,
        status=environment.status,
        created_at=environment.created_at,
        updated_at=environment.updated_at,
        public_url="",
        last_deployed_at=environment.last_deployed_at,
        config=EnvironmentConfig(
            deployment_spec=DeploymentSpec(replicas=environment.config.deployment_spec.replicas, resources={})
        ),
    )
