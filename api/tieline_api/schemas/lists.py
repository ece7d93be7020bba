"""Dialects of systems' lists in REST."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from tieline_api.schemas.base import Rest
from tieline_core.resources import lists as resource
from tieline_protocol.list_dialects import MAX_PATHS, ListDialects


class FollowingPages(Rest, resource.FollowingPages):
    """What differs in the requests for further pages."""


class ListDialect(Rest, resource.ListDialect):
    """How the pages of a list follow each other."""

    following: FollowingPages | None = None
    """What differs in the requests for further pages."""


class ListPathDialect(Rest, resource.ListPathDialect):
    """How the pages of the lists at a path follow each other."""

    following: FollowingPages | None = None
    """What differs in the requests for further pages."""


class Lists(Rest):
    """How a system's lists come in pages. In a change, an empty object takes it away."""

    default: ListDialect | None = None
    """Lists at all other paths."""
    paths: Annotated[list[ListPathDialect], Field(max_length=MAX_PATHS)] | None = None
    """Lists at certain paths; the first that fits counts."""

    @model_validator(mode="after")
    def _complete(self) -> Self:
        ListDialects.parse(self.to_spec())
        return self

    def to_spec(self) -> dict[str, Any]:
        """As custom resources have it; empty for none."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
