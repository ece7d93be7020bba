"""The resources that Tieline touches: where the API server serves them."""

from dataclasses import dataclass
from urllib.parse import quote

from tieline_core.identity.names import ENGINE_CREDENTIALS_TYPE, SECRETS_ROLE
from tieline_core.kubernetes.errors import Invalid


@dataclass(frozen=True)
class Resource:
    """One resource of the Kubernetes API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    secret_type: str = ""
    """Of Secrets: only those of this type."""
    object_name: str = ""
    """Only the object of this name."""
    service: str = ""
    """Of EndpointSlices: only those of this Service."""

    @property
    def api_version(self) -> str:
        """``apiVersion`` of its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(
        self, *, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """The URL path of a collection, an object or a subresource.

        Raises Invalid for names that would address something else: an empty name the whole collection, one
        with a slash or dots another resource.
        """
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        if namespace is not None and self.namespaced:
            parts += ["namespaces", _segment(namespace)]
        parts.append(self.plural)
        if name is not None:
            parts.append(_segment(name))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def _segment(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise Invalid(
            f"{name!r} cannot be the name of an object: use a name that Kubernetes accepts", status=400
        )
    return quote(name, safe="")


def _tieline(plural: str, kind: str) -> Resource:
    return Resource("tieline.dev", "v1alpha1", plural, kind)


SYSTEMS = _tieline("systems", "System")
CONNECTION_TEMPLATES = _tieline("connectiontemplates", "ConnectionTemplate")
CONNECTIONS = _tieline("connections", "Connection")
PROJECTS = _tieline("projects", "Project")
PROJECT_VERSIONS = _tieline("projectversions", "ProjectVersion")
ACTIVATIONS = _tieline("activations", "Activation")
END_USERS = _tieline("endusers", "EndUser")
CONNECTORS = _tieline("connectors", "Connector")
CONNECTOR_VERSIONS = _tieline("connectorversions", "ConnectorVersion")
CREDENTIAL_GRANTS = _tieline("credentialgrants", "CredentialGrant")
NOTIFICATION_CHANNELS = _tieline("notificationchannels", "NotificationChannel")
NOTIFICATIONS = _tieline("notifications", "Notification")
ENVIRONMENTS = _tieline("environments", "Environment")

NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
PODS = Resource("", "v1", "pods", "Pod")
SECRETS = Resource("", "v1", "secrets", "Secret")
ENGINE_SECRETS = Resource("", "v1", "secrets", "Secret", secret_type=ENGINE_CREDENTIALS_TYPE)
"""The Secrets with which pods connect to the event engine."""
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
ORGANISATION_RECORDS = Resource("", "v1", "configmaps", "ConfigMap", object_name="tieline-organisations")
"""The ConfigMap of a release that records which namespace is which organisation."""
SERVICES = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
API_ENDPOINTS = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", service="tieline-api-internal"
)
"""The EndpointSlices of the API's Service for project pods: they say where ready pods of the API are."""
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
JOBS = Resource("batch", "v1", "jobs", "Job")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
NETWORK_POLICIES = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "httproutes", "HTTPRoute")
POD_DISRUPTION_BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
ROLES = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDINGS = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
SECRET_RIGHTS = Resource(
    "rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding", object_name=SECRETS_ROLE
)
"""The RoleBindings that let operator and API use the Secrets of an organisation."""
CLUSTER_ROLES = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
TOKEN_REVIEWS = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)
SELF_SUBJECT_REVIEWS = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", namespaced=False
)
SUBJECT_ACCESS_REVIEWS = Resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
)
