"""Systems in REST."""

from typing import Annotated

from pydantic import Field

from tieline_api.schemas.auth_schemes import AuthSchemeConfig
from tieline_api.schemas.base import NullableList, Page, Rest, UlidOut
from tieline_api.schemas.limits import Limits
from tieline_api.schemas.names import DisplayName
from tieline_core.resources.fields import Labels, Url, ValidationMessage
from tieline_core.resources.systems import Domain

AuthSchemeConfigs = Annotated[list[AuthSchemeConfig], Field(max_length=20)]


class System(Rest):
    """An external application, with the ways to authenticate that it supports."""

    id: UlidOut
    """The system's id."""
    name: str
    """Its name, for people."""
    domain: str
    """Its domain, such as shop.example."""
    auth_scheme_configs: list[AuthSchemeConfig]
    """The ways to authenticate that it supports."""
    template_base_url: str
    """Base URL of its API."""
    labels: dict[str, str] | None = None
    """Labels, where there are any."""
    limits: Limits | None = None
    """What it allows of requests through each of its connections."""


class SystemCreate(Rest):
    """A new system."""

    name: DisplayName
    """Its name, for people."""
    domain: Domain
    """Its domain, such as shop.example."""
    template_base_url: Url
    """Base URL of its API."""
    auth_scheme_configs: Annotated[AuthSchemeConfigs, NullableList]
    """The ways to authenticate that it supports."""
    labels: Labels | None = None
    """Labels for your own use."""
    limits: Limits | None = None
    """What it allows of requests through each of its connections."""


class SystemFromVersion(Rest):
    """What is to be otherwise than a connector's version says."""

    name: DisplayName | None = None
    """The system's name; the connector's when absent."""
    domain: Domain | None = None
    """Its domain; the base URL's host when absent."""
    template_base_url: Url | None = None
    """Base URL of its API."""
    labels: Labels | None = None
    """Labels for your own use."""


class SystemWithMessages(System):
    """A new system, and what of the connector's version could not be taken."""

    messages: list[ValidationMessage]
    """What is missing, with what to do."""


class SystemUpdate(Rest):
    """Changes of a system; what is left out stays."""

    name: DisplayName | None = None
    """Its name, for people."""
    domain: Domain | None = None
    """Its domain, such as shop.example."""
    template_base_url: Url | None = None
    """Base URL of its API."""
    limits: Limits | None = None
    """What it allows of requests through each of its connections."""


class SystemPage(Page):
    """A part of the list of systems."""

    items: list[System]
    """The systems, oldest first."""
