"""EndUser: a person for whom integrations run."""

from typing import Annotated, ClassVar

from pydantic import Field, StringConstraints

from tieline_core.identity.display_names import READABLE
from tieline_core.resources.fields import NOT_BLANK, Shape, Status, rules, unchanging
from tieline_core.resources.kinds import READY_COLUMNS, Column, CustomResource, Kind, display_name

UserName = Annotated[str, StringConstraints(max_length=200), Field(json_schema_extra=READABLE)]


class EndUserSpec(Shape):
    """The desired state of the end user."""

    external_id: Annotated[
        str,
        StringConstraints(min_length=1, max_length=256),
        Field(json_schema_extra={**READABLE, **rules(unchanging("externalId"), NOT_BLANK)}),
    ]
    """End user (your ID). Unique in the organisation."""
    display_name: UserName = ""
    """The user's name, for people."""


class EndUser(CustomResource):
    """A user or tenant of your application, for whom integrations run."""

    kind_info: ClassVar = Kind(
        name="EndUser",
        plural="endusers",
        short_names=("tleuser",),
        columns=(
            Column(name="External-Id", path=".spec.externalId", description="The id in your application"),
            *READY_COLUMNS,
            display_name(".spec.displayName", "The user's name"),
        ),
    )

    spec: EndUserSpec
    """The desired state of the end user."""
    status: Status
    """The observed state of the end user."""
