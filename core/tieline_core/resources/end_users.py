"""EndUser: a person for whom integrations run."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.identity.display_names import READABLE
from tieline_core.resources.fields import NOT_BLANK, Shape, Status, rules, unchanging
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind

UserName = Annotated[str, StringConstraints(max_length=200), Field(json_schema_extra=READABLE)]


class EndUserSpec(Shape):
    """The user, as known in your own application."""

    external_id: Annotated[
        str,
        StringConstraints(min_length=1, max_length=256),
        Field(json_schema_extra={**READABLE, **rules(unchanging("externalId"), NOT_BLANK)}),
    ]
    """The user's id in your application; unique in the organisation."""
    display_name: UserName = ""
    """The user's name, for people."""


class EndUser(CustomResource):
    """A person (or tenant) of your application, for whom integrations run."""

    kind_info: ClassVar = Kind(
        name="EndUser",
        plural="endusers",
        short_names=("euser",),
        columns=(
            Column(name="External-Id", path=".spec.externalId", description="The id in your application"),
            Column(name="Name", path=".spec.displayName", description="The user's name"),
            *READY_COLUMNS,
        ),
    )

    spec: EndUserSpec
    """The user, as known in your own application."""
    status: Status
    """What the operator saw."""
