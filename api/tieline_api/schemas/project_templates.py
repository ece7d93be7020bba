"""Templates of projects in REST."""

from typing import Any, Literal

from tieline_api.schemas.base import Rest
from tieline_api.schemas.projects import File


class NeededConnection(Rest):
    """A connection template that a project template's code names."""

    name: str
    """The name by which code refers to it."""
    purpose: str
    """What the code uses it for."""
    catalogue: str | None = None
    """The key of the catalogue's entry for its system; absent where the system is the author's own."""


class ExampleRequest(Rest):
    """A request to try a project with."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    """Its method."""
    path: str
    """The webhook's path."""
    body: Any = None
    """Its JSON body; absent where it has none."""


class ProjectTemplate(Rest):
    """What a project can begin with."""

    key: str
    """Its key, as ``tieline init --template`` takes it."""
    name: str
    """What it does, in a few words."""
    summary: str
    """What it does, in one or two sentences."""
    connections: list[NeededConnection]
    """The connection templates that its code names. A deploy is refused until the environment has them."""
    request: ExampleRequest | None = None
    """A request to try it with; absent where its code answers none."""
    files: list[File]
    """Its files, as updateFiles and deployProject take them."""


class ProjectTemplateList(Rest):
    """The templates of this installation."""

    items: list[ProjectTemplate]
    """The templates, in the order of the gallery."""
