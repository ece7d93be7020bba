"""Users and activations in REST."""

from typing import Annotated, Any

from pydantic import Field, RootModel, StringConstraints, model_validator

from tieline_api.schemas.base import (
    Cursor,
    JsonObject,
    MaybeId,
    NullableList,
    Query,
    Rest,
    SearchQuery,
    TimeOut,
    UlidIn,
    UlidOut,
)
from tieline_api.schemas.connections import Connection, ExternalId, NewConnection
from tieline_api.schemas.names import NewExternalId, UserName
from tieline_api.schemas.projects import Environment


class EndUser(Rest):
    """A person (or tenant) of the customer's application."""

    id: UlidOut
    """The user's id."""
    external_id: str
    """The id in the customer's application; unique in the organisation."""
    display_name: str
    """The name, for people; may be empty."""
    organisation_id: UlidOut
    """The organisation."""
    created_at: TimeOut
    """When it was created."""
    updated_at: TimeOut
    """When it was last changed."""


class UserCreate(Rest):
    """A new user."""

    external_id: NewExternalId
    """The id in the customer's application; unique in the organisation."""
    display_name: UserName = ""
    """The name, for people; empty when left out."""


class UsersQuery(SearchQuery):
    """Which users."""

    activated: bool | None = None
    """Only users with (true) or without (false) an activation."""
    environment_id: Annotated[str, StringConstraints(max_length=64)] | None = None
    """With ``activated``: on this environment."""


class UserPage(Rest):
    """A part of the list of users."""

    total_count: int
    """How many there are in all."""
    users: list[EndUser]
    """The users, oldest first."""
    next: str | None = None
    """Pass it as ``after`` for the next page; absent on the last."""
    prev: str | None = None
    """Pass it as ``before`` for the page before; absent on the first."""


class VariableError(Rest):
    """Where and how a variable breaks the project's schema."""

    field: str
    """The variable, such as ``limits.daily``; empty for the whole."""
    message: str
    """What is wrong."""


class Activation(Rest):
    """A project's environment for one user."""

    id: UlidOut
    """The activation's id."""
    user: EndUser | None = None
    """The user; absent for the environment's static activation."""
    environment: Environment
    """The environment, without files."""
    connections: list[Connection]
    """The user's connections; each names its template in ``connectionTemplateId``."""
    dynamic_variables: dict[str, Any]
    """The values that were set."""
    variable_errors: list[VariableError] | None = None
    """Where these values break the project's schema (which was changed since); absent while they follow it."""
    last_valid_variables: dict[str, Any] | None = None
    """With ``variableErrors``: the last values without errors, with which the code goes on."""


class ActivationList(RootModel[list[Activation]]):
    """Activations, oldest first."""


class GivenConnection(Rest):
    """The connection for a dynamic template: a new one, or one that is there."""

    connection_template_id: UlidIn
    """A dynamic template of the environment."""
    connection: NewConnection | None = None
    """A new connection."""
    existing_connection_id: Annotated[UlidIn | None, MaybeId] = None
    """One that is there; ignored beside ``connection``."""

    @model_validator(mode="after")
    def _has_one_of_two(self) -> "GivenConnection":
        if self.connection is None and self.existing_connection_id is None:
            raise ValueError("give connection or existingConnectionId")
        return self


class ActivationCreate(Rest):
    """Which user to activate on which environment, and with what."""

    user_id: ExternalId
    """The user's id or external id."""
    environment_id: UlidIn
    """The environment."""
    connections: Annotated[list[GivenConnection], Field(max_length=64), NullableList]
    """The user's connections, one for each dynamic template."""
    dynamic_variables: dict[str, Any] | None = None
    """Values for the project's variables schema."""


class ActivationsQuery(Query):
    """Which part of the list."""

    first: Annotated[int, Field(ge=1, le=1000)] = 1000
    """How many, 1 to 1,000."""
    after: Cursor | None = None
    """Where to go on, from the Link header."""


class Variables(JsonObject):
    """Values of variables by name."""


_VariableName = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f]{1,256}$")]
_VariableNames = Annotated[list[_VariableName] | None, Field(min_length=1, max_length=100)]


class VariablesQuery(Query):
    """How to change variables."""

    unset: _VariableNames = None
    """Variables to remove, by their top-level names; several times for several."""


class VariableValue(Rest):
    """The value of one variable."""

    value: Any
    """Any JSON value."""
