"""The custom resources, one module a kind."""

from tieline_core.resources.activations import Activation
from tieline_core.resources.connection_templates import ConnectionTemplate
from tieline_core.resources.connections import Connection
from tieline_core.resources.connector_versions import ConnectorVersion
from tieline_core.resources.connectors import Connector
from tieline_core.resources.credential_grants import CredentialGrant
from tieline_core.resources.end_users import EndUser
from tieline_core.resources.environments import Environment
from tieline_core.resources.kinds import CustomResource
from tieline_core.resources.notification_channels import NotificationChannel
from tieline_core.resources.notifications import Notification
from tieline_core.resources.project_versions import ProjectVersion
from tieline_core.resources.projects import Project
from tieline_core.resources.systems import System

KINDS: tuple[type[CustomResource], ...] = (
    System,
    ConnectionTemplate,
    Connection,
    Project,
    ProjectVersion,
    Activation,
    EndUser,
    Connector,
    ConnectorVersion,
    CredentialGrant,
    NotificationChannel,
    Notification,
    Environment,
)

__all__ = [
    "KINDS",
    "Activation",
    "Connection",
    "ConnectionTemplate",
    "Connector",
    "ConnectorVersion",
    "CredentialGrant",
    "CustomResource",
    "EndUser",
    "Environment",
    "Notification",
    "NotificationChannel",
    "Project",
    "ProjectVersion",
    "System",
]
