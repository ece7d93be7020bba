"""Connection templates in REST: systems in a project's environment."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.base import MaybeId, Rest, UlidIn, UlidOut
from tieline_api.schemas.names import TemplateName
from tieline_api.schemas.system_inputs import OfferedInput
from tieline_core.resources.fields import ItemId


class ConnectionTemplate(Rest):
    """A system in an environment, under the name by which code refers to it."""

    id: UlidOut
    """The *system's* id."""
    name: str
    """The name by which code refers to the connections."""
    domain: str
    """The system's domain."""
    dynamic: bool
    """Whether each user brings a connection."""
    auth_scheme_configs: list[AuthSchemeConfig]
    """The ways to authenticate that the system supports."""
    template_base_url: str
    """Base URL of the system's API."""
    inputs: list[OfferedInput] | None = None
    """Variables of the system's URLs that are to be filled in; absent where there are none."""
    connection_template_id: UlidOut | None = None
    """The template's id."""
    connection_id: UlidOut | None = None
    """The connection that a static template is linked to; absent while it is linked to none that exists."""
    expose_to_code: Literal[True] | None = None
    """True where code reads the credentials; absent otherwise."""


class TemplatePage(Rest):
    """The templates of an environment."""

    total_count: int
    """How many there are."""
    items: list[ConnectionTemplate]
    """The templates, oldest first."""
    next: str | None = None
    """Always absent: all templates come at once."""
    prev: str | None = None
    """Always absent: all templates come at once."""


class TemplateCreate(Rest):
    """A system to add to an environment."""

    system_id: UlidIn
    """The system."""
    name: TemplateName
    """The name by which code refers to it; unique in the environment."""
    environment_id: Annotated[UlidIn | None, MaybeId] = None
    """The environment; optional when the project has one."""
    dynamic: StrictBool = False
    """Whether each user brings a connection; false (one connection) when left out."""
    expose_to_code: StrictBool = False
    """Whether code reads the credentials with ctx.credentials. The connection must be exposed, too."""


class TemplateUpdate(Rest):
    """Changes of a template; what is left out stays."""

    name: TemplateName | None = None
    """The name by which code refers to it; unique in the environment."""
    dynamic: StrictBool | None = None
    """Whether each user brings a connection."""
    auth_scheme_config_ids: Annotated[list[ItemId], Field(max_length=20)] | None = None
    """Ids of the system's auth schemes that the template offers; an empty list offers all."""
    expose_to_code: StrictBool | None = None
    """Whether code reads the credentials with ctx.credentials. The connection must be exposed, too."""
