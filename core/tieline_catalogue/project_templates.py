"""Templates of projects: what the console's gallery, ``tieline init`` and REST begin a project with.

They are examples. Wheels hold them in one packed file; a checkout reads the folder ``examples``.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from tieline_catalogue.entry import Key, Line, Name, Part
from tieline_catalogue.template_packing import read_templates

_PACKED = Path(__file__).with_name("project_templates.json")
_CHECKOUT = Path(__file__).parents[2] / "examples"


class UnknownTemplateError(LookupError):
    """There is no template with that key."""


class NeededConnection(Part):
    """A connection template that the code names."""

    name: Name
    """The name by which code refers to it."""
    purpose: Line
    """What the code uses it for."""
    catalogue: Key | None = None
    """The key of the catalogue's entry for its system; None where the system is the author's own."""


class ExampleRequest(Part):
    """A request to try the project with."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    """Its method."""
    path: Annotated[str, StringConstraints(max_length=200, pattern=r"^/\S*$")]
    """The webhook's path."""
    body: Any = None
    """Its JSON body; None without one."""


class ProjectTemplate(Part):
    """What a project begins with."""

    key: Key
    """Its key."""
    order: int
    """Its place in the gallery."""
    name: Name
    """What it does, in a few words."""
    summary: Line
    """What it does, in one or two sentences."""
    connections: Annotated[tuple[NeededConnection, ...], Field(max_length=8)] = ()
    """The connection templates that its code names."""
    request: ExampleRequest | None = None
    """A request to try it with; None where it answers none."""
    files: Mapping[str, str]
    """The code by path, as it is deployed: main.py and what it imports."""
    local_files: Mapping[str, str]
    """Files beside the folder of the code by path: tests, and connections for an author's machine."""


@cache
def project_templates() -> Sequence[ProjectTemplate]:
    """The templates of this installation, in the order of the gallery."""
    found = json.loads(_PACKED.read_text("utf-8")) if _PACKED.exists() else read_templates(_CHECKOUT)
    return tuple(ProjectTemplate.model_validate(item) for item in found)


def project_template(key: str) -> ProjectTemplate:
    """The template with a key. Raises UnknownTemplateError."""
    for one in project_templates():
        if one.key == key:
            return one
    known = ", ".join(one.key for one in project_templates())
    raise UnknownTemplateError(f'There is no project template "{key[:60]}"; there are {known}')
