"""Types of answers about end users, their activations and connect sessions."""

from typing import Any

from tests.harness.clients.answers.base import Json, Page, Strict, Time, Ulid
from tests.harness.clients.answers.connections import Connection, Template
from tests.harness.clients.answers.projects import Environment


class EndUser(Strict):
    id: Ulid
    external_id: str
    display_name: str
    organisation_id: Ulid
    created_at: Time
    updated_at: Time


class StaticActivation(Strict):
    id: Ulid
    environment: Environment
    connections: list[Connection]
    dynamic_variables: Json


class Activation(StaticActivation):
    user: EndUser


class Users(Page):
    users: list[EndUser]


class SessionUser(Strict):
    external_id: str
    display_name: str


class ConnectSession(Strict):
    id: Ulid
    user: SessionUser
    environment_id: Ulid
    templates: list[Ulid]
    connection: Ulid | None = None
    allowed_origins: list[str]
    return_url: str | None = None
    created_by: str
    created_at: Time
    expires_at: Time


class NewConnectSession(Strict):
    id: Ulid
    token: str
    url: str | None = None
    expires_at: Time


class ConnectSessions(Strict):
    total_count: int
    items: list[ConnectSession]
    next: str | None = None
    prev: str | None = None


class Named(Strict):
    id: Ulid
    name: str


class CurrentConnectSession(Strict):
    id: Ulid
    organisation_id: Ulid
    user: SessionUser
    project: Named
    environment: Named
    connection: Ulid | None = None
    return_url: str | None = None
    allowed_origins: list[str]
    expires_at: Time
    templates: list[Template]
    systems: list[Named]
    connections: list[Connection]
    activation: Activation | None = None
    variables_schema: dict[str, Any]
