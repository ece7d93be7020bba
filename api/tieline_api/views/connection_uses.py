"""What uses a connection: the static templates that are linked to it, and the activations that have it."""

from tieline_api.cluster import indexes
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_api.schemas import connections as rest
from tieline_core.identity.ids import environment_id, object_id
from tieline_core.resources.objects import ActivationObject, ConnectionObject, ConnectionTemplateObject

MOST = 100


def is_used(cluster: ClusterCache, connection: ConnectionObject) -> bool:
    """Whether anything uses it."""
    metadata = connection["metadata"]
    key = indexes.key(metadata["namespace"], metadata["name"])
    return bool(
        cluster.templates.by_index("connection", key) or cluster.activations.by_index("connection", key)
    )


def uses_of(cluster: ClusterCache, connection: ConnectionObject) -> rest.ConnectionUses:
    """What uses it."""
    namespace, name = connection["metadata"]["namespace"], connection["metadata"]["name"]
    templates = cluster.referring(cluster.templates, "connection", namespace, name)
    activations = cluster.referring(cluster.activations, "connection", namespace, name)
    return rest.ConnectionUses(
        templates=[_template(cluster, one) for one in templates[:MOST]],
        template_count=len(templates),
        activations=[_activation(cluster, one) for one in activations[:MOST]],
        activation_count=len(activations),
    )


def _template(cluster: ClusterCache, template: ConnectionTemplateObject) -> rest.UsingTemplate:
    project, environment = (
        cluster.referred(cluster.projects, template, "projectRef"),
        template["spec"]["environment"],
    )
    return rest.UsingTemplate(
        connection_template_id=object_id(template),
        name=template["spec"]["name"],
        project_id=object_id(project) if project else None,
        project_name=project["spec"]["name"] if project else "",
        environment_id=environment_id(object_id(project), environment) if project else None,
        environment_name=environment,
    )


def _activation(cluster: ClusterCache, activation: ActivationObject) -> rest.UsingActivation:
    project = cluster.referred(cluster.projects, activation, "projectRef")
    user = cluster.referred(cluster.users, activation, "endUserRef")
    return rest.UsingActivation(
        id=object_id(activation),
        user_id=object_id(user) if user else None,
        external_id=user["spec"]["externalId"] if user else "",
        display_name=(user["spec"].get("displayName") or "") if user else "",
        project_id=object_id(project) if project else None,
        project_name=project["spec"]["name"] if project else "",
        environment_name=activation["spec"]["environment"],
    )
