"""What of an organisation an end user reaches: the objects that are theirs, where their token is good for."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tieline_api import errors
from tieline_api.auth.end_users import EndUserScope
from tieline_api.cluster import indexes
from tieline_api.cluster.cluster_cache import ClusterCache
from tieline_core.identity.ids import environment_id, object_id, parse_id
from tieline_core.objects import ObjectView
from tieline_core.resources.objects import (
    ActivationObject,
    ConnectionObject,
    ConnectionTemplateObject,
    EndUserObject,
    ProjectObject,
    SystemObject,
)


@dataclass(frozen=True)
class EndUserReach:
    """What one end user reaches in one organisation."""

    cluster: ClusterCache
    namespace: str
    scope: EndUserScope

    @cached_property
    def user(self) -> EndUserObject | None:
        """The user; None while nobody has created it. An external id never stands for somebody else's id here."""
        return self.cluster.external_user(self.namespace, self.scope.external_id)

    @property
    def user_id(self) -> str:
        """What names the user in a look-up by id or external id. ApiError 404 where that would be another user."""
        if self.user is not None:
            return object_id(self.user)
        if parse_id(self.scope.external_id) is not None:
            raise errors.not_found("user", self.scope.external_id)
        return self.scope.external_id

    def is_user(self, given: str) -> bool:
        """Whether an id or external id in a request is the user's own."""
        if given == self.scope.external_id:
            return True
        return self.user is not None and parse_id(given) == object_id(self.user)

    def has_environment(self, identifier: str) -> bool:
        """Whether an environment is among those that the token is good for."""
        canonical = parse_id(identifier)
        allowed = self.scope.environments
        return canonical is not None and (allowed is None or canonical in allowed)

    def has_project(self, project: ProjectObject) -> bool:
        """Whether a project has such an environment."""
        identifier = object_id(project)
        return any(
            self.has_environment(environment_id(identifier, name))
            for name in indexes.environment_names(project)
        )

    def has_template(self, template: ConnectionTemplateObject) -> bool:
        """Whether the user may bring a connection for a template. Static ones are not for users."""
        allowed = self.scope.templates
        if not template["spec"].get("dynamic") or (
            allowed is not None and object_id(template) not in allowed
        ):
            return False
        return self._is_in_environment(template)

    def has_system(self, system: SystemObject) -> bool:
        """Whether the user may connect a system: there is a template of it for them."""
        name = system["metadata"]["name"]
        return any(
            template["spec"]["systemRef"]["name"] == name and self.has_template(template)
            for template in self.cluster.templates.list(self.namespace)
        )

    def owns(self, obj: ObjectView) -> bool:
        """Whether an activation or a connection is the user's, wherever it is."""
        reference = obj["spec"].get("endUserRef")
        return (
            self.user is not None
            and reference is not None
            and reference["name"] == self.user["metadata"]["name"]
        )

    def has_activation(self, activation: ActivationObject) -> bool:
        """Whether an activation is the user's, in an environment that the token is good for."""
        return self.owns(activation) and self._is_in_environment(activation)

    def has_connection(self, connection: ConnectionObject) -> bool:
        """Whether a connection is the user's, for a template that the token is good for."""
        if not self.owns(connection):
            return False
        if self.scope.connection:
            return object_id(connection) == self.scope.connection
        if self.scope.environments is None and self.scope.templates is None:
            return True
        return any(self.has_template(template) for template in self._templates_of(connection))

    def _templates_of(self, connection: ConnectionObject) -> Iterable[ConnectionTemplateObject]:
        """The templates that the user's connection was made for, or is used for."""
        cluster, name = self.cluster, connection["metadata"]["name"]
        made_for = cluster.referred(cluster.templates, connection, "connectionTemplateRef")
        if made_for is not None:
            yield made_for
        for activation in cluster.referring(cluster.activations, "connection", self.namespace, name):
            if not self.has_activation(activation):
                continue
            for item in activation["spec"].get("connections") or ():
                template = cluster.templates.get(self.namespace, item["connectionTemplate"])
                if item["connectionRef"]["name"] == name and template is not None:
                    yield template

    def _is_in_environment(self, obj: ObjectView) -> bool:
        project = self.cluster.referred(self.cluster.projects, obj, "projectRef")
        return project is not None and self.has_environment(
            environment_id(object_id(project), obj["spec"]["environment"])
        )
